# SPDX-License-Identifier: Apache-2.0
"""Nodes that were broken into: what the monitor of one can do to those who have attached it."""

import contextlib
import os
import re
import struct
import subprocess
import time

import scrytest
from hostiletest import *
from nodestest import *

MEMORY_MB = 64  # that a monitor takes more, while it is flooded
EDGE_SILENT = 10 / 4  # EDGE_SILENT_S, hastened


class HostileTest(NodesTest):
    def setUp(self):
        super().setUp()
        self.home, = self.nodes(1)
        self.evil = HostileNode(self.home.box)
        self.addCleanup(self.evil.close)

    def reach_evil(self):
        token = self.ask(f': node_attach2("{self.evil.name}")').result()
        self.began_mb = self.memory_mb()
        return token

    def memory_mb(self):
        return int(scrytest.process_status(self.home.pid)["VmHWM"].split()[0]) >> 10

    def flood(self, data, times):
        """As fast as it is taken."""
        with contextlib.suppress(OSError):
            for _ in range(times):
                self.evil.send(data)

    def is_well(self):
        """The home serves others, and did not grow."""
        with self.home.box.omis() as other:
            self.ask(": print([1])", other)
        self.assertLess(self.memory_mb() - self.began_mb, MEMORY_MB)


class Takes(HostileTest):
    """It wants to be asked less, and to ask more."""

    def test_no_tool_of_it(self):
        self.reach_evil()
        self.evil.send(hello(2) + request(2, ': node_attach2("")') + request(2, ": node_get_info([n_1], 2)", 2))
        kind, *_, payload = self.evil.wait(lambda kind, flags, via, *rest: via == 2)
        self.assertEqual(kind, GOODBYE)
        self.assertIn(b"attached from here", payload)

    def test_no_process_of_a_tool(self):
        """It knows no id of a tool: such a one may join from any node."""
        self.reach_evil()
        said = self.evil.wait(lambda kind, flags, *rest: kind == HELLO)[4]
        guessed = struct.unpack("<II", said[:8])[1]
        self.evil.send(hello(2, guessed, 0))
        self.assertEqual(self.evil.wait(lambda kind, flags, via, *rest: via == 2)[0], GOODBYE)
        for via in range(4, 604, 2):
            self.evil.send(hello(via, via, 0))
        state = self.ask(": scry_monitor_get_state()").result()  # it has guessed often, and now it guesses right
        right = int(re.search(r"tool id=(\d+)", state)[1])
        self.evil.send(hello(700, right, 0))
        self.assertEqual(self.evil.wait(lambda kind, flags, via, *rest: via == 700)[0], GOODBYE)
        self.is_well()

    def test_no_lock(self):
        self.reach_evil()
        self.evil.send(hello(2) + frame(LOCK, via=2, number=1) + frame(LOCK, via=1, number=1))
        self.is_well()

    def test_other_nodes_names(self):
        """Who asks for a host gets that host, or an error."""
        self.reach_evil()
        self.evil.send(node(5, os.urandom(16), b"other-host.invalid"))
        self.ask(": print([1])")
        reply = self.tool.request(': node_attach2("other-host.invalid")', timeout=60)
        self.assertEqual(reply.status(1), OS_ERROR)
        self.assertEqual([one for one in self.evil.frames if b"node_attach([n_5" in one[4]], [])


class Says(HostileTest):
    """What it says is text, and never more."""

    def test_objects_that_are_requests(self):
        self.reach_evil()
        for bad in (b"n_1]) proc_create([n_1", b"p_1_1 ", b'"', b"n_1\n", b",,,,", b"\xff"):
            self.evil.answers = {"node_get_info": reply(FINE, [(0, bad, b"1")])}
            answer = self.tool.request(": node_get_info([n_2], 1)")
            self.assertEqual(answer.objects(1), ["n_2"])
            self.assertGreaterEqual(answer.status(1), 16)

    def test_replies_that_grow(self):
        """64 MB of commas, or of numbers that are longer here, are no gigabytes."""
        self.reach_evil()
        self.evil.answers = {"node_get_info": reply(FINE, [(0, b"," * (40 << 20), b"1")])}
        self.assertGreaterEqual(self.tool.request(": node_get_info([n_2], 1)", timeout=60).status(1), 16)
        self.evil.answers = {"node_get_info": reply(FINE, [(0, b"n_1," * (10 << 20) + b"n_1", b"1")])}
        self.assertGreaterEqual(self.tool.request(": node_get_info([n_2], 1)", timeout=60).status(0), 0)
        self.assertLess(self.memory_mb(), 1000)

    def test_texts_that_terminals_obey(self):
        self.evil.calls_itself = b"a\x1b[2Jb\nc"
        self.reach_evil()
        self.evil.send(node(5, os.urandom(16), b"x\x1b]0;y\x07\nz"))
        self.evil.send(frame(GOODBYE, b"end\x1b[2J\nscry: all is well"))
        self.evil.wait(lambda kind, *rest: kind == 0)
        text = self.tool.request(": node_get_info([n_2,n_3], 1)").results(1)
        for entry in text:
            self.assertNotRegex(entry["result"], r"[\x00-\x1f\x7f]")


class Floods(HostileTest):
    """It sends more than anybody wants."""

    @scrytest.thorough
    def test_nodes(self):
        self.reach_evil()
        data = b"".join(node(2 + i, os.urandom(16), b"n" * 200) for i in range(1000))
        self.flood(data, 1)
        self.is_well()
        for k in range(1, 200):
            self.flood(b"".join(node(2 + k * 1000 + i, os.urandom(16), b"n%d" % i) for i in range(1000)), 1)
        self.evil.wait(lambda kind, *rest: kind == 0)
        self.is_well()

    def test_numbers_of_one_node(self):
        self.reach_evil()
        other = os.urandom(16)
        for k in range(200):
            self.flood(b"".join(node(2 + k * 1000 + i, other, b"n") for i in range(1000)), 1)
        self.evil.wait(lambda kind, *rest: kind == 0)
        self.is_well()

    @scrytest.thorough
    def test_small_frames(self):
        self.reach_evil()
        self.flood(frame(NODE_GONE) * 100000, 100)
        self.is_well()

    @scrytest.thorough
    def test_questions_without_reading(self):
        self.reach_evil()
        self.evil.reads = False
        self.flood(frame(PING, b"12345678") * 10000, 1500)
        self.is_well()

    def test_errors(self):
        """For a tool that does not read."""
        self.reach_evil()
        via = self.evil.wait(lambda kind, *rest: kind == HELLO)[2]
        os.kill(self.tool.pid, 19)
        try:
            self.flood(frame(ERROR, reply([(17, b"", b"x" * 100000)]), via), 1500)
            self.is_well()
        finally:
            os.kill(self.tool.pid, 18)


    @scrytest.hasten(4)
    def test_events(self):
        """For a list that waits for another node."""
        slow = HostileNode(self.home.box, b"slow", "slow.sock")
        self.addCleanup(slow.close)
        self.reach_evil()
        self.ask(f': node_attach2("{slow.name}")')
        slow.answers = {"node_get_info": None}
        self.evil.answers = {"thread_has_been_stopped": reply([(2, b"", b"c_1_1")], FINE)}
        csr = self.ask("thread_has_been_stopped([t_2_1]) : node_get_info([n_3], 1)").result(0)
        self.ask(f": csr_enable([{csr}])")
        defined = self.evil.wait(lambda kind, *rest: kind == DEFINE)
        event = frame(EVENT, struct.pack("<I", 1) + b"t_1_1,1,0,p_1_1,t_1_1,n_1", defined[2], number=defined[3])
        began = time.monotonic()
        self.flood(event * 1000, 1)
        slow.wait(lambda kind, flags, via, number, payload: b"node_get_info" in payload)
        self.flood(event * 1000, 40)
        self.assertEqual(self.evil.wait(lambda kind, *rest: kind == RELEASE)[0], RELEASE)
        with self.home.box.omis() as other:
            self.ask(": print([1])", other)
        asked = sum(one[0] == REQUEST and b"node_get_info" in one[4] for one in slow.frames)
        # while it is slow to read here it seems silent, and what waits for it is over: others are asked then
        times = 1 + int((time.monotonic() - began) / EDGE_SILENT)
        self.assertIn(asked, range(1000, 16384 * times + 1))
        self.assertLess(self.memory_mb() - self.began_mb, 400)


class Files(NodesTest):
    """Of a part of a job: nothing that lies elsewhere is read, whatever is asked for, or put there."""

    def read(self, name, offset=0, count=100, job=None):
        return self.tool.request(f': job_part_read([n_1], "{job or self.job}", 1, "{name}", {offset}, {count})')

    def setUp(self):
        super().setUp()
        self.home, = self.nodes(1)
        box = self.home.box
        self.assertEqual(box.run(box.scry("run", "--", "true")).returncode, 0)
        self.job, = (name for name in os.listdir(box.path("jobs")) if os.path.isdir(box.path("jobs", name)))
        self.folder = box.path("jobs", self.job)
        self.secret = box.path("home", "secret")
        with open(self.secret, "w", encoding="ascii") as file:
            file.write("secret")
        self.ask(': node_attach2("")')

    def test_paths(self):
        os.symlink(self.secret, os.path.join(self.folder, "link"))
        os.symlink(os.path.dirname(self.secret), os.path.join(self.folder, "folder"))
        os.symlink(f"/proc/{os.getpid()}/root", os.path.join(self.folder, "root"))
        os.mkfifo(os.path.join(self.folder, "pipe"))
        self.assertIn("job.json", self.ask(f': job_part_files([n_1], "{self.job}", 1)').result())
        self.assertIn("json", self.read("job.json", 0, 1 << 20).result() + "json")
        for name in ("link", "folder/secret", f"root{self.secret}", "../../home/secret", self.secret, "pipe", ".", "", "spool",
                     "../" * 30 + "etc/passwd", "spool/../../../home/secret", "x" * 5000):
            with self.subTest(name=name[:40]):
                reply = self.read(name)
                self.assertGreaterEqual(reply.status(1), 16, reply)
                self.assertNotIn("secret\n", str(reply))

    def test_other_folders(self):
        for job in ("..", ".", "", "../home", f"{self.job}/../../home", self.box_home(), "*", "-1"):
            with self.subTest(job=job):
                self.assertGreaterEqual(self.read("secret", job=job or " ").status(1), 16)

    def box_home(self):
        return self.home.box.path("home")

    def test_numbers(self):
        for part in (0, -1, 2, 1 << 40):
            self.assertGreaterEqual(self.tool.request(f': job_part_files([n_1], "{self.job}", {part})').status(1), 16)
        for offset, count in ((-1, 10), (0, 0), (0, -1), (0, (1 << 20) + 1), (1 << 63, 1), (0, 1 << 63), ((1 << 64) - 1, 2)):
            with self.subTest(offset=offset, count=count):
                reply = self.read("job.json", offset, count)
                self.assertTrue(reply.status(0) >= 16 or reply.status(1) >= 16, reply)
        self.assertTrue(self.read("job.json", (1 << 63) - 1, 1 << 20).services)
        self.ask(": print([1])")


class Parts(HostileTest):
    """A node that sends its part of a job to where that began."""

    def test_what_it_sends(self):
        box = self.home.box
        names = ["../../../home/mine", "/" + box.path("home", "mine"), "parts/n/x", "remote.json", "spool/../../../x", "good",
                 "huge", "stream-huge", "link/x", ".ssh/..", "a" * 3000]
        listed = ",".join(f'"{name}",{1 << 62 if "huge" in name else 6},1' for name in names)
        self.evil.answers = {
            "job_part_files": reply(FINE, [(0, b"n_1", f'"/there",[{listed}],"../there",{1 << 62}'.encode())]),
            "job_part_read": reply(FINE, [(0, b"n_1", b"6#secret")])}
        folder = box.path("jobs", "job-1")
        os.makedirs(os.path.join(folder, "parts"))
        with open(os.path.join(folder, "parts", ".hosts"), "w", encoding="ascii") as file:
            file.write(f"{self.evil.name}\n")
        before = set(self.files(box.root))
        parts = box.start([box.path("libexec", "scry-parts")], stdin=subprocess.PIPE)
        parts.stdin.write(f"{folder}\njob-1\n")
        parts.stdin.close()
        scrytest.wait_until(lambda: any(name.endswith("/good") for name in self.files(folder)), 30)
        new = [os.path.relpath(name, folder) for name in set(self.files(box.root)) - before]
        inside = [name.split("/", 2)[2] for name in new if name.startswith("parts/")]
        self.assertLessEqual(set(inside), {"good", "remote.json", "clock.json", "stream-huge"} | {"a" * 3000, "link/x"})
        self.assertEqual([name for name in new if name.startswith("..") and "mine" in name], [])
        self.assertFalse(os.path.exists(box.path("home", "mine")))

    @staticmethod
    def files(folder):
        return [os.path.join(path, name) for path, _, names in os.walk(folder) for name in names]


if __name__ == "__main__":
    scrytest.main()
