# SPDX-License-Identifier: Apache-2.0
"""The two programs printed in section 7.1.6 of the specification, typed at as a user would."""

import os
import select
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "system"))
import scrytest


class Printed(scrytest.TestCase):
    def start(self, name):
        # Nothing is read ahead, so that select tells the truth.
        return self.box.start([scrytest.built("test", "client", name)], stdin=subprocess.PIPE, text=False, bufsize=0)

    def type(self, program, text):
        program.stdin.write(text.encode())

    def line(self, program, timeout=10.0):
        end = time.monotonic() + timeout * scrytest.SCALE
        while not select.select([program.stdout], [], [], 0.1)[0]:
            self.assertLess(time.monotonic(), end, "the program prints nothing")
        return program.stdout.readline().decode().rstrip("\n")

    def test_select(self):
        """The tool with select: it starts the monitor itself."""
        program = self.start("printed_select")
        self.type(program, "version\n")
        self.assertRegex(self.line(program), r"^version: status 0, 2,0,")
        self.type(program, "no_such_service\n")
        self.assertRegex(self.line(program), r"^no_such_service: status 18, ")
        self.type(program, "debug\n")
        lines = [self.line(program)]
        while not lines[-1].startswith("debug: "):
            self.assertRegex(lines[-1], r"^handler: status 0, ")
            lines.append(self.line(program))
        self.assertRegex(lines[-1], r"^debug: status 0, 2,0,")
        self.assertGreater(len(lines), 1, "no debugging output came to the error handler")
        self.type(program, "quit\n")
        self.assertEqual(program.wait(10 * scrytest.SCALE), 0)

    def test_select_sees_the_monitor_die(self):
        """A tool that sits in select is told once, and its loop does not spin."""
        program = self.start("printed_select")
        self.type(program, "version\n")
        self.line(program)
        os.kill(self.box.monitor_pid(), 9)
        self.assertRegex(self.line(program), r"^handler: status 36, the monitor's connection was lost")
        self.type(program, "version\n")
        self.assertRegex(self.line(program), r"^version: status 36, ")
        before = self.cpu_ticks(program.pid)
        time.sleep(0.3)  # what must not happen cannot be waited for
        self.assertLess(self.cpu_ticks(program.pid) - before, 10)
        self.type(program, "quit\n")
        self.assertEqual(program.wait(10 * scrytest.SCALE), 0)

    @staticmethod
    def cpu_ticks(pid):
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def test_poll(self):
        """The tool with a main loop of a user interface: replies of a conditional request come by its callback."""
        program = self.start("printed_poll")
        self.assertRegex(self.line(program), r"^ready: e_")
        for _ in range(3):
            self.type(program, "e")
            self.assertRegex(self.line(program), r'^event: .*"number",7')
        self.type(program, "q")
        self.assertEqual(program.wait(10 * scrytest.SCALE), 0)
        self.assertEqual(program.stdout.read(), b"")


scrytest.main()
