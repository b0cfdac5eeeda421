# SPDX-License-Identifier: Apache-2.0
"""Bad input: whatever comes over the socket, the answer is a clear error and the monitor serves the next tool."""

import contextlib
import os
import random
import resource
import socket
import struct
import subprocess

import scrytest
from servicetest import *

HELLO, WELCOME, REQUEST, REPLY, ERROR, FINALIZE, GOODBYE = range(1, 8)


class Raw:
    """A connection that sends anything."""

    def __init__(self, box, hello=True, another=False):
        """another: by a process of its own, as the monitor sees it."""
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(20 * scrytest.SCALE)
        child = os.fork() if another else 0
        if child:
            os.waitpid(child, 0)
        else:
            self.socket.connect(box.path("run", "monitor.sock"))
            if another:
                os._exit(0)
        if hello:
            self.send(HELLO, 1, struct.pack("<II", 1, 0) + b"raw")
            kind, _, payload = self.receive()
            assert kind == WELCOME, (kind, payload)

    @staticmethod
    def frame(kind, number, payload):
        return struct.pack("<IBBHI", len(payload), kind, 0, 0, number) + payload

    def send(self, kind, number, payload):
        self.socket.sendall(self.frame(kind, number, payload))

    def request(self, text, number=7):
        self.send(REQUEST, number, struct.pack("<I", 0) + (text if isinstance(text, bytes) else text.encode()))
        return self.receive()

    def exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(min(count - len(data), 1 << 20))
            if not more:
                return None
            data += more
        return data

    def receive(self):
        """(type, id, payload), or None at the end."""
        try:
            header = self.exactly(12)
        except ConnectionResetError:
            return None
        if header is None:
            return None
        length, kind, _, _, number = struct.unpack("<IBBHI", header)
        return kind, number, self.exactly(length)

    def close(self):
        self.socket.close()


class Input(ServiceTest):
    def raw(self, hello=True):
        raw = Raw(self.box, hello)
        self.addCleanup(raw.close)
        return raw

    def alive(self):
        self.ask(": version()")

    def test_garbage(self):
        source = random.Random(1)
        for length in (1, 11, 12, 13, 100, 100000):
            raw = self.raw(hello=False)
            try:
                raw.socket.sendall(source.randbytes(length))
                raw.socket.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, ConnectionResetError):
                pass
            while raw.receive():
                pass
            self.alive()

    def test_garbage_after_hello(self):
        source = random.Random(2)
        for _ in range(50):
            raw = self.raw()
            try:
                raw.socket.sendall(source.randbytes(200))
                raw.socket.shutdown(socket.SHUT_WR)
                while raw.receive():
                    pass
            except (BrokenPipeError, ConnectionResetError):
                pass
        self.alive()

    def test_random_requests(self):
        source = random.Random(3)
        words = [b":", b"(", b")", b"[", b"]", b"{", b"}", b";", b",", b"$proc", b"print", b"csr_enable", b"version",
                 b"thread_reached_addr", b'"', b"1", b"-", b"5#", b"1.5", b"c_1_1", b"\0", b"\xff", b"e", b" "]
        raw = self.raw()
        for _ in range(2000):
            text = b"".join(source.choice(words) for _ in range(source.randrange(12)))
            kind, number, payload = raw.request(text)
            self.assertEqual((kind, number), (REPLY, 7))
        self.alive()

    def test_half_frames(self):
        """A frame in pieces is a frame; one that never ends harms nobody."""
        frame = Raw.frame(REQUEST, 3, struct.pack("<I", 0) + b": version()")
        raw = self.raw()
        for byte in frame:
            raw.socket.sendall(bytes([byte]))
        self.assertEqual(raw.receive()[:2], (REPLY, 3))
        unfinished = [self.raw() for _ in range(20)]
        for i, other in enumerate(unfinished):
            other.socket.sendall(frame[:i + 1])
        self.alive()
        for other in unfinished:
            other.close()
        self.alive()

    def test_many_frames_at_once(self):
        raw = self.raw()
        raw.socket.sendall(b"".join(Raw.frame(REQUEST, i, struct.pack("<I", 0) + b": print([%d])" % i)
                                    for i in range(1000)))
        self.assertEqual([raw.receive()[1] for _ in range(1000)], list(range(1000)))

    def test_wrong_protocol(self):
        raw = self.raw(hello=False)
        raw.send(HELLO, 1, struct.pack("<II", 99, 0))
        kind, _, text = raw.receive()
        self.assertEqual(kind, GOODBYE)
        self.assertRegex(text.decode(), "version 99")
        raw = self.raw(hello=False)
        raw.send(HELLO, 1, struct.pack("<II", 1, 4711))
        kind, _, text = raw.receive()
        self.assertEqual(kind, GOODBYE)
        self.assertRegex(text.decode(), "4711")
        raw = self.raw(hello=False)
        raw.send(REQUEST, 1, struct.pack("<I", 0) + b": version()")
        self.assertEqual(raw.receive()[0], GOODBYE)
        self.alive()

    def test_ten_megabytes(self):
        """A request of 10 MB is served, whatever is in it."""
        raw = self.raw()
        text = b": print([" + b",".join([b"1234567"] * 1250000) + b"])"
        self.assertGreater(len(text), 9.9e6)
        kind, number, payload = raw.request(text)
        self.assertEqual((kind, number), (REPLY, 7))
        self.assertIn(b"1250000,[1234567", payload[:200])
        for text in (b'"' * (10 << 20), b"[" * (10 << 20), b": " + b"x" * (10 << 20), b": print([" + b"[" * (10 << 20),
                     b": print([" + b"9" * (10 << 20) + b"])", b"\0" * (10 << 20)):
            kind, number, payload = raw.request(text)
            self.assertEqual((kind, number), (REPLY, 7))
            self.assertLess(len(payload), 1000, "an error, not an echo")
        self.alive()

    def test_too_long(self):
        """More than 64 MB: skipped with an error, and the connection goes on."""
        raw = self.raw()
        length = (64 << 20) + 1
        raw.socket.sendall(struct.pack("<IBBHI", length, REQUEST, 0, 0, 5))
        block = bytes(1 << 20)
        for _ in range(64):
            raw.socket.sendall(block)
        raw.socket.sendall(b"x")
        kind, number, payload = raw.receive()
        self.assertEqual((kind, number), (REPLY, 5))
        self.assertIn(b"longer than", payload)
        self.assertEqual(raw.request(": version()")[0], REPLY)

    def test_memory_comes_back(self):
        """Large requests do not stay in the monitor's memory."""
        raw = self.raw()
        self.assertEqual(raw.request(b": print([" + b",".join([b"1"] * 3000000) + b"])")[0], REPLY)
        raw.request(": version()")

        def small():
            raw.request(": version()")
            return int(scrytest.process_status(self.box.monitor_pid())["VmRSS"].split()[0]) < 16 * 1024
        if "ASAN_OPTIONS" not in os.environ:
            scrytest.wait_until(small)

    def test_many_actions(self):
        reply = self.ask(": " + " ".join(["print([1])"] * 20000), timeout=30)
        self.assertEqual(len(reply.services), 20001)

    def test_deep_lists(self):
        for depth in (10, 100, 100000):
            reply = self.omis.request(": print([" + "[" * depth + "]" * depth + "])")
            self.assertIn(reply.status(), (OK, SYNTAX_ERROR, PARAMETER_ERROR), reply.services[0])
        self.alive()

    def test_thousand_connections(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 4096:
            self.skipTest(f"only {hard} open files are allowed here")
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
        try:
            connections = [Raw(self.box) for _ in range(1000)]
            for connection in connections[::50]:
                self.assertEqual(connection.request(": print([1])")[0], REPLY)
            self.alive()
            for connection in connections:
                connection.close()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        self.alive()
        target = self.target()
        self.attach(target)
        self.ask(": thread_stop([]) thread_continue([])")

    def test_more_than_its_descriptors(self):
        """A monitor that may have few open files says so to those that it cannot serve."""
        self.omis.close()
        self.box.stop_monitor()
        monitor = self.box.start(self.box.scry("monitor"),
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
        scrytest.wait_until(lambda: os.path.exists(self.box.path("run", "monitor.sock")))
        connections = []

        def connect(another):
            """Waits for the refusal."""
            while len(connections) < 200:
                raw = Raw(self.box, hello=False, another=another)
                connections.append(raw)
                with contextlib.suppress(BrokenPipeError):
                    raw.send(HELLO, 1, struct.pack("<II", 1, 0))
                kind, _, text = raw.receive()
                if kind == GOODBYE:
                    return text.decode()
            return ""

        told = connect(another=False)
        self.assertIn(f"process {os.getpid()} has 16 connections to this monitor, as many as one may have", told)
        told = connect(another=True)
        self.assertIn("open files", told)
        self.assertEqual(connections[0].request(": version()")[0], REPLY)
        for raw in connections:
            raw.close()
        scrytest.wait_until(lambda: self.serves())
        monitor.terminate()

    def serves(self):
        raw = None
        try:
            raw = Raw(self.box, hello=False)
            raw.send(HELLO, 1, struct.pack("<II", 1, 0))
            answer = raw.receive()
            return answer and answer[0] == WELCOME
        except OSError:
            return False
        finally:
            if raw:
                raw.close()

    def test_tool_that_does_not_read(self):
        """Its replies are dropped and counted; the job is not held for it, others are served."""
        target = self.target()
        raw = self.raw()
        raw.request(f': node_attach2("localhost") proc_attach3([n_1], {target.pid}, "")')
        raw.request(f"thread_reached_addr([], {target.hit}) : print([\"{'x' * 60000}\"])")
        raw.request(": csr_enable([])", 9)
        raw.receive()  # the other of its reply and OMIS_CSR_ENABLED
        self.assertEqual(target.do("hit 600", 60), "600")  # 36 MB
        self.alive()
        count, lost = 0, None
        raw.send(REQUEST, 10, struct.pack("<I", 0) + b": csr_delete([])")
        while True:
            kind, number, payload = raw.receive()
            count += kind == REPLY and len(payload) > 60000
            if kind == ERROR:
                lost = payload
            if kind == REPLY and number == 10:
                break
        self.assertGreater(count, 100)
        self.assertLess(count, 600)
        while lost is None:
            kind, _, payload = raw.receive()
            lost = payload if kind == ERROR else None
        self.assertIn(f"{600 - count} replies".encode(), lost)
        self.alive()


class Access(ServiceTest):
    spread = False  # about the socket, which nobody else comes to in a lab

    def connect_as_nobody(self, path):
        """What an ordinary user's connection to that socket meets."""
        program = ("import socket,sys\ns=socket.socket(socket.AF_UNIX)\n"
                   "try:\n s.connect(sys.argv[1])\n s.settimeout(60)\n print(s.recv(1000))\n"
                   "except OSError as e: print(e)\n")
        return subprocess.run(["/usr/bin/python3", "-c", program, path], stdout=subprocess.PIPE, text=True, check=True,
                              user="nobody", group="nogroup", extra_groups=[], cwd="/").stdout

    def test_other_users_are_refused(self):
        if os.getuid() != 0:
            self.skipTest("only root can be somebody else")
        path = self.box.path("run", "monitor.sock")
        self.assertIn("Permission denied", self.connect_as_nobody(path))
        # and if the folder were open, the monitor asks the kernel who it is
        for folder in (self.box.root, self.box.path("run")):
            os.chmod(folder, 0o755)
        os.chmod(path, 0o777)
        self.assertIn("this monitor serves another user", self.connect_as_nobody(path))
        self.ask(": version()")

    def test_files(self):
        for path, mode in ((self.box.path("run"), 0o700), (self.box.path("run", "monitor.sock"), 0o700),
                           (self.box.path("run", "monitor.pid"), 0o600)):
            self.assertEqual(os.stat(path).st_mode & 0o777 & ~mode, 0, path)


scrytest.main()
