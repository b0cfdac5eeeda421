# SPDX-License-Identifier: Apache-2.0
"""The example tools, used as the how-to says and as people do: by pid, cut short, on processes that end."""

import re
import subprocess

import labtest
import scrytest


class Tools(scrytest.TestCase):
    def setUp(self):
        super().setUp()
        self.box.scry()  # where the tools find the monitor

    def tool(self, name, *arguments, **options):
        return self.box.start([self.box.program(scrytest.built("examples", "tools", name)), *arguments],
                              stdin=subprocess.PIPE, stderr=subprocess.STDOUT, **options)

    def threads(self):
        """Runs until its standard input ends; its status says whether a call of step() was lost."""
        return self.box.start_example("threads", "2", "0", stdin=subprocess.PIPE)

    def test_breakpoints(self):
        program = self.threads()
        tool = self.tool("breakpoints", "-b", "step", "-p", program.pid)
        self.assertRegex(tool.stdout.readline(), r"^breakpoint at step, 0x")
        tool.stdin.write("threads\nbt\nregs\nmem 0x1 4\nnonsense\nc\n")
        tool.stdin.flush()
        shown = ""
        while len(re.findall("reached step", shown.partition("q (leave it alone)")[2])) < 1:
            line = tool.stdout.readline()
            self.assertTrue(line, shown)
            shown += line
        self.assertRegex(shown, r"(?s)t_\d+_\d+ in step\n.*#0 0x\w+ step\n.*#1 0x\w+ work\n.*rax .*rip .*OMIS_OS_ERROR: cannot read")
        tool.kill()  # at a stop: the program goes on, without breakpoints, and did every call once
        tool.wait()
        program.communicate("", timeout=20 * scrytest.SCALE)
        self.assertEqual(program.returncode, 0)

    def test_wrong_use(self):
        for name in ("breakpoints", "sampler", "distributed"):
            tool = self.tool(name)
            self.assertIn(f"{name}: usage: {name} ", tool.communicate(timeout=20 * scrytest.SCALE)[0])
            self.assertEqual(tool.returncode, 1)
        tool = self.tool("sampler", "999999")
        self.assertIn("sampler: OMIS_UNKNOWN_OBJECT: there is no process 999999", tool.communicate()[0])

    def test_sampler(self):
        """Two threads compute in step(), the others wait and are no part of it; it ends with the process."""
        program = self.threads()
        tool = self.tool("sampler", "-s", "1", program.pid)
        shown = tool.communicate(timeout=30 * scrytest.SCALE)[0]
        share = re.search(r"^ *([\d.]+)% +([\d.]+)%  step$", shown, re.M)
        self.assertTrue(share and float(share[2]) > 50, shown)
        tool = self.tool("sampler", "-s", "1000", "-f", program.pid)
        self.assertIn("samples a second", tool.stdout.readline())
        program.communicate("", timeout=20 * scrytest.SCALE)
        self.assertRegex(tool.communicate(timeout=30 * scrytest.SCALE)[0], r"(?m)^\S+;work;step \d+$")

    @scrytest.thorough
    def test_sampler_of_a_shell_that_becomes_a_program(self):
        """It has the names of what the process executes later, too."""
        program = self.box.start(["sh", "-c", 'read line; exec "$0" 2 3', scrytest.example("threads")], stdin=subprocess.PIPE)
        tool = self.tool("sampler", "-s", "1000", "-f", program.pid)
        self.assertIn("samples a second", tool.stdout.readline())
        program.communicate("go\n", timeout=40 * scrytest.SCALE)
        self.assertRegex(tool.communicate(timeout=40 * scrytest.SCALE)[0], r"(?m)^\S+;work;step \d+$")

    def test_distributed(self):
        """One that cannot be watched does not keep the others waiting; it ends with the last."""
        first, second = self.threads(), self.threads()
        tool = self.tool("distributed", first.pid, "999999", second.pid)
        shown = ""
        while not re.search(rf"(?s){first.pid} +threads +(runs|waits).*{second.pid} +threads +(runs|waits)", shown):
            line = tool.stdout.readline()
            self.assertTrue(line, shown)
            shown += line
        for program in (first, second):
            program.communicate("", timeout=20 * scrytest.SCALE)
        rest = tool.communicate(timeout=30 * scrytest.SCALE)[0]
        self.assertEqual(tool.returncode, 0, shown + rest)
        self.assertIn("there is no process 999999", shown + rest)
        self.assertRegex(rest, rf"(?s){first.pid} +threads +ended\n +999999 +cannot be watched\n.*{second.pid} +threads +ended\n$")


class Nodes(labtest.LabCase):
    """One tool on several hosts: its slaves connect to the monitors there, and are the same tool."""

    hosts = ("n1", "n2", "n3")

    @scrytest.thorough
    def test_distributed(self):
        for host in self.lab:
            host.scry()
            path = host.program(scrytest.built("examples", "tools", "distributed"))
        programs = {name: self.lab.host(name).start_example("threads", "2", "0", stdin=subprocess.PIPE) for name in ("n2", "n3")}
        words = [f"{name}:{program.inside}" for name, program in programs.items()]
        tool = self.box.start([path.replace(host.root, self.lab.here()), *words], stdin=subprocess.PIPE, stderr=subprocess.STDOUT)
        shown = ""
        wanted = r"n2 +{} +threads +(runs|waits).*\nn3 +{} +threads +(runs|waits)".format(*(each.inside for each in programs.values()))
        while not re.search(wanted, shown, re.S):
            line = tool.stdout.readline()
            self.assertTrue(line, shown)
            shown += line
        for program in programs.values():
            program.communicate("", timeout=20 * scrytest.SCALE)
        rest = tool.communicate(timeout=30 * scrytest.SCALE)[0]
        self.assertEqual(tool.returncode, 0, shown + rest)
        self.assertRegex(rest, r"n2 +\d+ +threads +ended\nn3 +\d+ +threads +ended\n$")


scrytest.main()
