# SPDX-License-Identifier: Apache-2.0
"""Faults amidst a job over three hosts, and amidst the requests of a tool that watches it: what the tool is told, after how
long, what becomes of the job, and what is missing in its directory.

    test_node_faults.py --table      prints what each fault costs, as a table

Every day one fault of each kind is made in one and the same job. Each by itself, and the table, are for thorough runs: what there is more
is one machine's business, as other tests have it (disk, clock, tracer), or a way to a fault that is here (the other end of the link, a
connection that is half open), or has a test without MPI (locks: test_nodes_csr.py; bad networks: test_link.py).

The job is one of MPI, started by `scry run` on host n1, with a rank on each host. No file system is shared: the parts of
n2 and n3 are brought over the network. The tool is on n1, too, and has the ranks of n2 and n3. Whatever happens to scry, the
job's result must be right, and no rank may have been held for longer than the 10 s that monitor/parts/parts.h promises; in a test it is
that divided by HASTE, as all limits.
"""

import collections
import contextlib
import glob
import json
import os
import re
import signal
import sys
import time
import unittest

import labtest
import mpitest
import scrytest
from scrytest import wait_until
from servicetest import *

HOSTS = ("n1", "n2", "n3")
HASTE = 1 if sys.argv[1:] == ["--table"] else 5
SILENT, HELD, LEASE = 10 / HASTE, 10 / HASTE, 60 / HASTE  # seconds, as monitor/tree/tree.h and link/link.h have them
Row = collections.namedtuple("Row", "fault told seconds result missing")


@scrytest.hasten(HASTE)
class Faults(labtest.LabCase):
    """One method for each fault. Each says in its first line what the table calls it."""

    hosts = HOSTS
    options = {"own_pids": False}
    case_seconds = 180
    rows = []

    def setUp(self):
        if not mpitest.available("openmpi"):
            self.skipTest("needs Open MPI")
        if "clock" in self._testMethodName:
            self.options = {**self.options, "walls": {"n2": 0}}
        super().setUp()
        self.said, self.seconds = "nothing", None
        self.job, self.more = None, False

    def begin(self):
        """The job, and the tool, unless they are there; until something of each part has been brought."""
        if self.job:
            return
        program = mpitest.over_hosts("openmpi", os.path.join(mpitest.TARGETS, "steady.c"), *HOSTS)
        with open(self.box.path("work", "errors"), "w", encoding="utf-8") as file:
            self.job = self.box.start(self.box.scry("run", "-q", "-o", self.lab.here("work", "job"), "--sample", "0.2", "--", *program),
                                      env=mpitest.QUIET, stderr=file)
        self.addCleanup(self.go)
        self.ranks = {}
        for host in self.lab:
            wait_until(lambda: os.path.exists(self.file(host, "steady")), 30, lambda: f"a rank on {host.name}: {self.errors()}")
            with open(self.file(host, "steady"), encoding="ascii") as file:
                self.ranks[host.name] = [int(word, 0) for word in file.read().split()]
        self.tool = self.box.omis()
        self.tokens = [self.attach(name) for name in HOSTS[1:]]
        for name in HOSTS[1:]:
            wait_until(lambda: self.brought(name), 30, f"something is brought from {name}")

    # ---- the job ----

    @staticmethod
    def file(host, *names, place="work"):
        """Of the working directory, or of another place, as the host sees it."""
        return f"/proc/{host.pid}/root{host.lab.here(place, *names)}"

    def pid(self, name):
        return self.ranks[name][0]

    def errors(self):
        with open(self.box.path("work", "errors"), encoding="utf-8") as file:
            return file.read()

    def brought(self, name):
        """The records of a part that are in the job directory."""
        path = self.box.path("work", "job", "parts", name, "spool", "records.jsonl")
        with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]
        return []

    def steps(self, name):
        """How many steps the rank of a host has done."""
        with open(f"/proc/{self.pid(name)}/mem", "rb") as file:
            file.seek(self.ranks[name][2])
            return int.from_bytes(file.read(8), "little")

    def goes_on(self, name="n2", seconds=5, steps=3):
        before = self.steps(name)
        wait_until(lambda: self.steps(name) >= before + steps, seconds, f"the rank of {name} goes on")

    def go(self):
        for host in self.lab:
            with contextlib.suppress(OSError), open(self.file(host, "GO"), "w", encoding="ascii"):
                pass

    def report(self):
        return json.loads(self.box.run(self.box.scry("report", "--json", self.lab.here("work", "job"))).stdout)

    def missing(self):
        """What the report says of the parts that are not here, {node: why}."""
        parts = {part["name"]: part["incomplete"] for part in self.report()["parts"]}
        parts.update({name: "all" for name in HOSTS[1:] if name not in parts})
        return {name: why for name, why in parts.items() if why}

    def finish(self, held=1.0, parts=HOSTS[1:]):
        """The job ends, and its result is right, and the parts are here as they are on their nodes. `held`: so long a
        rank may have been, at most. Not yet, if more is to happen to it."""
        self.goes_on("n2", held + 5)
        if self.more:
            return
        self.go()
        out, _ = self.job.communicate(timeout=60 * scrytest.SCALE)
        self.assertEqual(self.job.returncode, 0, f"{out}{self.errors()}")
        found = re.fullmatch(r"3 ranks, 0 wrong, longest ([\d.]+) s\n", out)
        self.assertTrue(found, out)
        self.assertLess(float(found[1]), held + 2 * scrytest.SCALE)
        wait_until(lambda: not set(self.missing()) & set(parts), 30, lambda: f"{self.missing()} {self.errors()}")
        for name in parts:
            self.assertEqual(self.own(name), self.brought(name))
        self.row(f"right; a rank was held for {float(found[1]):.1f} s" if held > 1 else "right", self.without_figures())

    def own(self, name):
        """The records of a part, on its node."""
        path, = glob.glob(self.file(self.lab.host(name), "2*", "spool", "records.jsonl", place="jobs"))
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def without_figures(self):
        """The longest time for which n2's part has no figures; they come five times a second."""
        times = [record["t"] for record in self.own("n2") if record["type"] == "sample"]
        longest = max(later - earlier for earlier, later in zip(times, times[1:]))
        self.assertGreater(min(later - earlier for earlier, later in zip(times, times[1:])), 0)
        return f"n2: figures of {longest:.1f} s" if longest > 2 else "nothing"

    def row(self, result, words):
        self.rows.append(Row(self._testMethodDoc.splitlines()[0].rstrip("."), self.said, self.seconds, result, words))

    # ---- the tool ----

    def attach(self, name, tool=None):
        """The rank of a host; its token."""
        tool = tool or self.tool
        node = tool.request(f': node_attach2("{name}")', timeout=30)
        self.assertTrue(node.ok(), node)
        process = tool.request(f': proc_attach3([{node.result()}], {self.pid(name)}, "")', timeout=30)
        self.assertTrue(process.ok(), process)
        return process.result()

    def whole(self, tool=None, tokens=None):
        """Both ranks answer."""
        reply = (tool or self.tool).request(": proc_get_info([], 1)", timeout=30)
        return reply.ok() and sorted(reply.objects(1)) == sorted(tokens or self.tokens)

    def told(self, pattern, since, within):
        """Asks until a reply of the tool's says so; the others' answers are there in any case."""
        def asked():
            reply = self.tool.request(f": proc_get_info([{','.join(self.tokens)}], 1)", timeout=30)
            others = [entry["status"] for entry in reply.results(1) if entry["objects"] == self.tokens[1:]]
            self.assertEqual(others, [OK] if self.job.poll() is None else others, reply)
            return next((text for text in (entry["result"] for entry in reply.results(1)) if re.search(pattern, text or "")), None)
        text = wait_until(asked, within, f"the tool is told {pattern}")
        self.note_told(text, since)
        self.assertLess(self.seconds, scrytest.room(within + 1))

    def note_told(self, text, since):
        self.said, self.seconds = text, time.monotonic() - since

    def again(self):
        """The tool attaches n2 anew, and all is as before."""
        self.tokens[0] = self.attach("n2")
        wait_until(self.whole, 10)

    def other_tool(self):
        """In the place of one that is gone."""
        self.tool = self.box.omis()
        self.tokens = [self.attach(name) for name in HOSTS[1:]]
        wait_until(self.whole, 10)

    def program(self, name, *words, box=None):
        """The only process of a host that is this program, with these words in its command line."""
        host = box or self.box
        def found():
            return [pid for pid in host.processes(name) if all(word.encode() in scrytest.process_command_line(pid) for word in words)]
        return wait_until(found, 10, f"{name} {words}")[0]

    def counts(self):
        """Has the steps of n2's rank told by a list that stays there; the number of the request."""
        _, step, counter = self.ranks["n2"]
        number = self.tool.send(f"thread_reached_addr([{self.tokens[0]}], {step}) : "
                                f"proc_read_memory([$proc], {counter}, 8, 8, 1)")
        csr = self.tool.reply(number).result(0)
        self.assertTrue(self.tool.request(f": csr_enable([{csr}])").ok())
        return number

    def counted(self, number, seconds):
        """The steps that it was told of, one more each time, for some seconds."""
        found, end = [], time.monotonic() + seconds
        while not found or time.monotonic() < end:
            reply = self.tool.reply(number, lambda each: each.status() == TRIGGERED, timeout=20)
            found.append(int.from_bytes(bytes(numbers(reply.result())), "little"))
        return found

    def consecutive(self, found):
        self.assertEqual(found, list(range(found[0], found[0] + len(found))))

    # ---- all together ----

    def test_one_after_the_other(self):
        """Of each kind one, in one job"""
        self.begin()
        self.more = True
        for fault in (self.test_cut_shortly, self.test_ssh_killed, self.test_link_killed_here, self.test_monitor_stopped,
                      self.test_monitor_killed, self.test_tool_killed, self.test_home_killed):
            fault()
        self.more = False
        self.finish()

    # ---- the network ----

    def test_none(self):
        """none"""
        self.begin()
        self.finish()

    def test_cut_shortly(self):
        """network of a node away for 5 s"""
        self.begin()
        number = self.counts()
        before = self.counted(number, 0)
        self.lab.cut("n2")
        time.sleep(5 / HASTE)
        self.lab.heal("n2")
        healed = self.steps("n2")
        while before[-1] < healed:
            before += self.counted(number, 0)
        self.consecutive(before)
        self.finish()

    def test_cut_long(self):
        """network of a node away for 90 s"""
        self.begin()
        self.lab.cut("n2")
        since = time.monotonic()
        self.told(f"does not answer since {'1[0-9]' if HASTE == 1 else '[2-5]'} s", since, SILENT + 3)
        first = self.seconds, self.said
        self.told("is gone: .*n2", since, SILENT + LEASE + 10)
        self.said = f"{first[1]} (after {first[0]:.1f} s); {self.said}"
        time.sleep(max(0, since + 90 / HASTE - time.monotonic()))
        self.lab.heal("n2")
        self.again()
        self.finish()

    def test_half_open(self):
        """connection half open: only this end still has it"""
        self.begin()
        done = self.lab.host("n2").run(["sh", "-c", "echo 1 >/proc/sys/net/ipv4/tcp_orphan_retries"])
        if done.returncode:
            self.skipTest(done.stderr)
        self.lab.cut("n2")
        n2 = self.lab.host("n2")
        bridge = self.program("scry-link", "bridge", box=n2)
        with open(f"/proc/{bridge}/stat", encoding="ascii") as file:
            os.kill(int(file.read().split()[3]), signal.SIGKILL)
        time.sleep(2)  # what says so is lost
        since = time.monotonic()
        self.lab.heal("n2")
        wait_until(self.whole, 15)
        self.note_told("nothing", since)
        self.finish()

    def test_bad_network(self):
        """20 % of all frames lost, and 200 ms of delay"""
        self.begin()
        number = self.counts()
        self.lab.delay("n2", 200, loss=0.2)
        found = self.counted(number, 5)
        since = time.monotonic()
        self.assertTrue(self.tool.request(": proc_get_info([], 1)", timeout=60).results(1))
        self.note_told("nothing", since)
        self.consecutive(found)
        self.goes_on()
        self.lab.delay("n2", 0)
        wait_until(self.whole, 30)
        self.finish()

    # ---- programs of the link ----

    def test_link_killed_here(self):
        """link killed at the home (SIGKILL)"""
        self.begin()
        since = time.monotonic()
        os.kill(self.program("scry-link", "node", "n2"), signal.SIGKILL)
        self.told("is gone", since, 2)
        self.again()
        self.finish()

    def test_link_killed_there(self):
        """link killed on the node (SIGKILL)"""
        self.begin()
        since = time.monotonic()
        os.kill(self.program("scry-link", "serve", box=self.lab.host("n2")), signal.SIGKILL)
        self.told("is gone", since, SILENT)
        self.again()
        self.finish()

    def test_ssh_killed(self):
        """ssh killed (SIGKILL)"""
        self.begin()
        number = self.counts()
        before = self.counted(number, 1)
        os.kill(self.program("ssh", "BatchMode", "n2"), signal.SIGKILL)
        self.consecutive(before + self.counted(number, 2))
        self.finish()

    # ---- monitors ----

    def test_monitor_killed(self):
        """monitor of a node killed (SIGKILL)"""
        self.begin()
        self.counted(self.counts(), 0.5)
        since = time.monotonic()
        os.kill(self.lab.host("n2").monitor_pid(), signal.SIGKILL)
        self.told("is gone", since, 5)
        self.goes_on()
        self.again()
        self.finish()

    def test_monitor_stopped(self):
        """monitor of a node stopped (SIGSTOP), and continued"""
        self.begin()
        pid = self.lab.host("n2").monitor_pid()
        os.kill(pid, signal.SIGSTOP)
        since = time.monotonic()
        try:
            self.told("does not answer", since, SILENT + 3)
        finally:
            os.kill(pid, signal.SIGCONT)
        wait_until(self.whole, 10)
        self.finish()

    def test_home_killed(self):
        """monitor of the tool, the home, killed (SIGKILL)"""
        self.begin()
        self.counted(self.counts(), 0.5)
        since = time.monotonic()
        os.kill(self.box.monitor_pid(), signal.SIGKILL)
        self.tool.process.wait(10)
        self.note_told(self.tool.stderr().strip().splitlines()[-1], since)
        wait_until(lambda: tracer_of(self.pid("n2")) == 0, 10, "the rank of n2 is free")
        self.goes_on()
        self.other_tool()
        self.finish()

    def test_tracer_killed(self):
        """tracer of a node killed (SIGKILL)"""
        self.begin()
        number = self.counts()
        self.counted(number, 0.5)
        since = time.monotonic()
        os.kill(self.program("scry-tracer", box=self.lab.host("n2")), signal.SIGKILL)
        self.goes_on()
        self.counted(number, 0)  # the next tracer has the request, too
        self.note_told("nothing", since)
        self.finish()

    # ---- amidst a request ----

    def held(self):
        """A list of n2's event that concerns n3, too, whose monitor is stopped: the rank of n2 waits for it."""
        monitor = self.lab.host("n3").monitor_pid()
        _, step, _ = self.ranks["n2"]
        os.kill(monitor, signal.SIGSTOP)
        self.addCleanup(os.kill, monitor, signal.SIGCONT)
        number = self.tool.send(f"thread_reached_addr([{self.tokens[0]}], {step}) : proc_get_info([{self.tokens[1]},$proc], 1)")
        csr = self.tool.reply(number, timeout=20).result(0)
        self.tool.send(f": csr_enable([{csr}])")
        wait_until(lambda: scrytest.process_state(self.pid("n2")) == "t", 10, "the rank of n2 waits")
        return monitor

    def test_cut_in_hold(self):
        """network of a node away while a thread there waits for a list elsewhere"""
        self.begin()
        monitor = self.held()
        self.lab.cut("n2")
        since = time.monotonic()
        self.goes_on("n2", HELD + 3, 1)
        waited = time.monotonic() - since
        self.goes_on("n2", 5, 20)  # nobody waits once more
        self.lab.heal("n2")
        os.kill(monitor, signal.SIGCONT)
        self.tool.request(": csr_delete([])", timeout=30)
        wait_until(self.whole, 20)
        self.said, self.seconds = "nothing", waited
        self.finish(held=2 * HELD)

    def test_tool_killed(self):
        """tool killed while a thread of a node waits for its list"""
        self.begin()
        monitor = self.held()
        since = time.monotonic()
        self.tool.kill()
        self.goes_on("n2", 3)
        wait_until(lambda: tracer_of(self.pid("n2")) == 0, 5, "the rank of n2 is free")
        os.kill(monitor, signal.SIGCONT)
        self.note_told("", since)
        self.other_tool()
        self.finish()

    def locked(self):
        """n2 and n3 are locked by a list of the tool's, that takes some seconds; a tool of n3's has asked for n2."""
        other = self.lab.host("n3").omis()
        self.addCleanup(other.close)
        token = self.attach("n2", other)
        self.lab.delay("n1", 100)
        self.tool.send(": { " + "; ".join(["proc_get_info([], 1)"] * 40) + " }")

        def waits():
            number = other.send(f": proc_get_info([{token}], 1)")
            with contextlib.suppress(AssertionError):
                other.reply(number, timeout=0.5)
                return None
            return number
        return other, wait_until(waits, 10, "n2 is locked")

    def test_home_killed_with_locks(self):
        """two homes: one is killed while it has locked a node"""
        self.begin()
        other, number = self.locked()
        since = time.monotonic()
        os.kill(self.box.monitor_pid(), signal.SIGKILL)
        self.assertTrue(other.reply(number, timeout=20).ok())
        self.note_told("nothing, but later", since)
        self.assertLess(self.seconds, scrytest.room(3))
        self.lab.delay("n1", 0)
        self.finish()

    def test_home_cut_with_locks(self):
        """two homes: one is cut off while it has locked a node"""
        self.begin()
        other, number = self.locked()
        since = time.monotonic()
        self.lab.cut("n1")
        self.assertTrue(other.reply(number, timeout=20).ok())
        self.note_told("nothing, but later", since)
        self.assertLess(self.seconds, HELD + scrytest.room(2))
        self.lab.delay("n1", 0)
        self.lab.heal("n1")
        wait_until(self.whole, 20)
        self.finish()

    # ---- machines ----

    def test_node_killed(self):
        """node dies: all that runs there"""
        self.begin()
        since = time.monotonic()
        self.lab.host("n2").kill_all()
        self.told("does not answer|is gone", since, SILENT + 3)
        self.assertNotEqual(self.job.wait(60), 0)
        wait_until(lambda: sorted(self.missing()) == ["n2"], 40, self.missing)
        self.row("fails, as without scry", self.missing()["n2"])

    def test_disk_full(self):
        """disk of a node full for some seconds"""
        n2 = self.lab.host("n2")
        if n2.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "none", self.lab.here("jobs")]).returncode:
            self.skipTest("no file system can be mounted here")
        self.begin()
        ballast = self.file(n2, "ballast", place="jobs")
        fd = os.open(ballast, os.O_CREAT | os.O_WRONLY, 0o600)
        with contextlib.suppress(OSError):
            while os.write(fd, bytes(4096)):
                pass
        os.close(fd)
        self.goes_on()
        time.sleep(5)
        self.assertTrue(self.whole())
        os.unlink(ballast)
        self.finish()

    def test_clock_set_back(self):
        """clock of a node set back by an hour"""
        self.begin()
        self.lab.set_wall("n2", -3600)
        count = len(self.brought("n2"))
        wait_until(lambda: len(self.brought("n2")) > count + 10, 20, "more is brought")
        self.assertTrue(self.whole())
        self.finish()


def table():
    """Runs all, and prints the table."""
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=2).run(unittest.TestSuite(Faults(name) for name in vars(Faults) if name.startswith("test")
                                                                                            and name != "test_one_after_the_other"))
    print("| fault | what the tool was told | after | the job's result | missing in the job directory |\n|---|---|---|---|---|")
    for row in Faults.rows:
        after = "" if row.seconds is None else f"{row.seconds:.1f} s"
        print(f"| {row.fault} | {row.told} | {after} | {row.result} | {row.missing} |")
    sys.exit(not result.wasSuccessful())


for name, fault in vars(Faults).items():
    if name.startswith("test_") and name != "test_one_after_the_other":
        scrytest.thorough(fault)  # in a job of its own

if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        table()
    scrytest.main()
