# SPDX-License-Identifier: Apache-2.0
"""What the tests of links share: a monitor in another place that is reached by TLS or by something like ssh, a network that
loses connections, and somebody who speaks the link's protocol by hand."""

import contextlib
import os
import random
import socket
import ssl
import struct
import subprocess
import threading

import scrytest

HELLO = struct.Struct("<8sHBB16s")


def free_port(host="127.0.0.1"):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.bind((host, 0))
        return sock.getsockname()[1]


class Network:
    """Between a port of its own and another one. Each connection ends after `most` bytes, or so; `silent`: nothing passes."""

    def __init__(self, target, most=None):
        self.target, self.most, self.silent, self.cuts = target, most, False, 0
        self.kept = []  # what came from who connected, a bytearray for each connection
        self.open = set()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.server.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self.target))
                except OSError:
                    near.close()
                    continue
                kept = bytearray()
                self.kept.append(kept)
                left = [random.randrange(self.most // 2, self.most * 2) if self.most else 1 << 60]
                pair = (near, far)
                self.open.add(pair)
                threading.Thread(target=self._pass, args=(pair, near, far, left, kept), daemon=True).start()
                threading.Thread(target=self._pass, args=(pair, far, near, left, bytearray()), daemon=True).start()

    def _pass(self, pair, source, to, left, kept):
        with contextlib.suppress(OSError):
            while True:
                data = source.recv(64 << 10)
                if not data:
                    break
                if len(kept) < 1 << 20:
                    kept += data
                if self.silent:
                    continue
                to.sendall(data[:left[0]])
                left[0] -= len(data)
                if left[0] <= 0:
                    self.cuts += 1
                    break
        self.open.discard(pair)
        for sock in pair:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def cut(self):
        for pair in list(self.open):
            for sock in pair:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def close(self):
        with contextlib.suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)  # the thread that accepts holds it open
        self.server.close()
        self.cut()


class LinkCase(scrytest.TestCase):
    """Two places of one user: here is a tool, far away a monitor, which nobody here could reach."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.box.path("far"), 0o700)
        self.far = {"SCRY_RUNTIME_DIR": self.box.path("far"), "SCRY_LOG": "info"}
        self.addCleanup(self.end_far)

    def end_far(self):
        mark = f"SCRY_RUNTIME_DIR={self.box.path('far')}".encode()
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{entry}/environ", "rb") as file:
                    environment = file.read().split(b"\0")
                name = os.path.basename(os.readlink(f"/proc/{entry}/exe").removesuffix(" (deleted)"))
                if mark in environment and name.startswith("scry"):
                    os.kill(int(entry), 9)

    def keys(self, *arguments, **options):
        done = self.box.run(self.box.scry("keys", *arguments), **options)
        self.assertEqual(done.returncode, 0, done.stderr)

    def issue(self, name, *options):
        path = self.box.path("tmp", f"{name}.pem")
        self.keys("issue", "--name", name, *options, "-o", path)
        return path

    def serve(self, host="127.0.0.1", keys=True):
        """scry link serve --listen, and its log in self.log; the port."""
        if keys:
            self.keys("init")
        port = free_port(host)
        self.log = self.box.path("tmp", "serve.log")
        with open(self.log, "w", encoding="utf-8") as log:
            self.server = self.box.start(self.box.scry("link", "serve", "--listen", f"[{host}]:{port}"), env=self.far, stderr=log)
        line = self.server.stdout.readline()
        self.assertIn("listens at", line, self.said())
        return port

    def said(self):
        with open(self.log, encoding="utf-8") as file:
            return file.read()

    def omis(self, url, *requests, status=0, env=None, options=()):
        """The answer as it is printed, with errors."""
        command = [word for request in requests or (": version()",) for word in ("-c", request)]
        done = self.box.run(self.box.scry("omis", "--connect", url, *options, *command), env=env, merged=True)
        if status is not None:
            self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def network(self, port, most=None):
        network = Network(port, most)
        self.addCleanup(network.close)
        return network

    def fake_ssh(self, script=None):
        """A program that is called like ssh: it executes the command at the far place, with a user's noisy shell."""
        path = self.box.path("bin", "fakessh")
        with open(path, "w", encoding="utf-8") as file:
            file.write(script or '#!/bin/sh\nfor word; do last=$word; done\necho "$@" >>"$HOME/ssh.log"\necho Welcome!\n'
                       f'export SCRY_RUNTIME_DIR={self.box.path("far")}\nexec sh -c "$last"\n')
        os.chmod(path, 0o755)
        return {"SCRY_SSH": path}


def context(key=None, **options):
    """TLS as a client of this key has it."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    if key:
        tls.load_cert_chain(key)
    for name, value in options.items():
        setattr(tls, name, value)
    return tls


def tls_connect(port, key=None, **options):
    raw = socket.create_connection(("127.0.0.1", port), timeout=20 * scrytest.SCALE)
    try:
        return context(key, **options).wrap_socket(raw)
    except BaseException:
        raw.close()
        raise


def hello(session, text=b"", version=1, flags=0):
    return HELLO.pack(b"SCRYLINK", version, flags, len(text), session) + text


def message(session, number, data=b"", acknowledged=0, what=1):
    body = struct.pack("<BBH16sII", 1, what, 0, session, number, acknowledged) + data
    return struct.pack("<I", len(body)) + body


def read_all(sock):
    """What comes until the end, however that comes."""
    data = b""
    with contextlib.suppress(OSError, ssl.SSLError):
        while True:
            more = sock.recv(65536)
            if not more:
                break
            data += more
    return data


def read_until(sock, end):
    """What comes, until these bytes are among it."""
    data = b""
    while end not in data:
        more = sock.recv(65536)
        if not more:
            break
        data += more
    return data
