# SPDX-License-Identifier: Apache-2.0
"""A node whose monitor is somebody else's: it greets as a monitor does, and then does what it wants."""

import os
import socket
import struct
import threading

HELLO, WELCOME, REQUEST, REPLY, ERROR, FINALIZE, GOODBYE, CONFINE, PEER, PING, PONG, NODE = range(1, 13)
NODE_GONE, DEFINE, EVENT, RELEASE, LOCK, UNLOCK = range(13, 19)
LAST = NEW = 1
VERSION, EDGE_VERSION = 1, 2


def frame(kind, payload=b"", via=0, flags=0, number=0):
    return struct.pack("<IBBHI", len(payload), kind, flags, via, number) + payload


def peer(instance, name):
    return frame(PEER, struct.pack("<I", EDGE_VERSION) + instance + b"0\0" + name + b"\0")


def hello(via, tool=0, flags=NEW):
    return frame(HELLO, struct.pack("<II", VERSION, tool) + b"evil", via, flags)


def request(via, text, number=1):
    return frame(REQUEST, struct.pack("<I", 0) + text.encode(), via, number=number)


def node(number, instance, name):
    return frame(NODE, instance + name + b"\0", number=number)


def reply(*elements):
    """Each a list of (status, objects, text or None); the first is the request's own."""
    out = struct.pack("<I", len(elements))
    for element in elements:
        out += struct.pack("<I", len(element))
        for status, objects, text in element:
            out += struct.pack("<II", status, len(objects)) + objects
            out += struct.pack("<I", 0xffffffff) if text is None else struct.pack("<I", len(text)) + text
    return out


FINE = [(0, b"", None)]


class HostileNode:
    """`name` is what node_attach2 takes. Frames that come are in `frames`, as (kind, flags, via, number, payload);
    `answers` is what is said to a request by a part of its text, None: nothing."""

    def __init__(self, box, name=b"evil", socket_name="evil.sock"):
        self.instance = os.urandom(16)
        self.calls_itself = name
        self.path = box.path("run", socket_name)
        self.name = f"unix:{self.path}"
        self.answers = {}
        self.frames = []
        self.reads = True
        self.came = threading.Condition()
        self.connection = None
        self.sending = threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(8)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _take(self, size):
        got = b""
        while len(got) < size:
            more = self.connection.recv(size - len(got))
            if not more:
                raise EOFError
            got += more
        return got

    def _serve(self):
        try:
            self.connection, _ = self.listener.accept()
            while True:
                size, kind, flags, via, number = struct.unpack("<IBBHI", self._take(12))
                self._came(kind, flags, via, number, self._take(size))
                while not self.reads:
                    threading.Event().wait(0.01)
        except (OSError, EOFError):
            with self.came:
                self.frames.append((0, 0, 0, 0, b""))
                self.came.notify_all()

    def _came(self, kind, flags, via, number, payload):
        if kind == PEER:
            self.send(peer(self.instance, self.calls_itself))
        elif kind == PING:
            self.send(frame(PONG, payload + payload + payload))
        elif kind == HELLO:
            self.send(frame(WELCOME, struct.pack("<II", VERSION, 1), via, number=number))
        elif kind in (REQUEST, DEFINE):
            self._answer(via, number, payload.decode(errors="replace"), LAST if kind == REQUEST else 0)
        with self.came:
            self.frames.append((kind, flags, via, number, payload))
            self.came.notify_all()

    def _answer(self, via, number, text, last):
        for part, answer in self.answers.items():
            if part in text and answer is not None:
                self.send(frame(REPLY, answer, via, last, number))
            if part in text:
                return
        self.send(frame(REPLY, reply(FINE, [(0, b"n_1", None)]), via, last, number))

    def send(self, data):
        with self.sending:
            self.connection.sendall(data)

    def wait(self, what, timeout=10):
        """The first frame for which what(kind, flags, via, number, payload) holds; kind 0: the connection has ended."""
        found = []

        def there():
            found[:] = [one for one in self.frames if what(*one)]
            return found
        with self.came:
            if not self.came.wait_for(there, timeout):
                raise AssertionError(f"it did not come; {[one[:4] for one in self.frames][-20:]}")
        return found[0]

    def ended(self):
        return any(one[0] == 0 for one in self.frames)

    def close(self):
        self.reads = True
        for one in (self.listener, self.connection):
            if one:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                one.close()
        self.thread.join(10)
