# SPDX-License-Identifier: Apache-2.0
"""scry serve behind a proxy that has it below a path, as nginx does by default: HTTP/1.0, a host and paths of its own, TLS done there."""

import re
import socket
import threading

import brokertest
import scrytest
import servetest

PREFIX = "/some/where/scry/"
OUTSIDE = "https://cluster.example"


class Proxy(threading.Thread):
    """Takes the prefix off, names the server it asks as the host, and closes after one answer."""

    def __init__(self, target):
        super().__init__(daemon=True)
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.pass_on, args=(client,), daemon=True).start()

    def pass_on(self, client):
        with client, socket.create_connection(("127.0.0.1", self.target)) as server:
            head = b""
            while b"\r\n\r\n" not in head:
                more = client.recv(65536)
                if not more:
                    return
                head += more
            head, _, body = head.partition(b"\r\n\r\n")
            method, path, _version, *headers = re.split(rb" |\r\n", head, maxsplit=3)
            if not path.startswith(PREFIX.encode()):
                client.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            lines = [line for line in b"".join(headers).split(b"\r\n") if not re.match(rb"(?i)(host|connection):", line)]
            server.sendall(b"\r\n".join([method + b" /" + path[len(PREFIX):] + b" HTTP/1.0", b"Host: 127.0.0.1:%d" % self.target,
                                         b"X-Forwarded-For: 192.0.2.1", b"Connection: close", *lines]) + b"\r\n\r\n" + body)
            threading.Thread(target=self.pump, args=(client, server), daemon=True).start()
            self.pump(server, client)

    @staticmethod
    def pump(source, sink):
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class BehindProxy(servetest.ServeCase):
    def setUp(self):
        super().setUp()
        self.server = self.serve_at_free_port()
        self.proxy = Proxy(self.server.port)
        self.addCleanup(self.proxy.listener.close)
        self.own_port, self.server.port = self.server.port, self.proxy.port

    def serve_at_free_port(self, tries=5):
        """The link does not say the port, and somebody else may take the one that was free."""
        for left in reversed(range(tries)):
            try:
                return servetest.Server(self.box, "--port", str(brokertest.free_port()), "--origin", OUTSIDE + PREFIX)
            except AssertionError:
                if not left:
                    raise

    def ask(self, path, method="GET", body=None, **headers):
        """As a browser that has opened https://cluster.example/some/where/scry/."""
        return self.server.ask(PREFIX[1:] + path, method, body, Host="cluster.example",
                               **{**({"Origin": OUTSIDE} if method != "GET" else {}), **headers})

    def test_all_of_it_below_a_path(self):
        """The link, the pages with all that they load, sessions, changes and events; nothing names a path of the server."""
        process, job = self.start_job("--sample", "0.1", "--", "sleep", "1000")
        outside, _, token = self.server.link.partition("#token=")
        self.assertEqual(outside, OUTSIDE + PREFIX)
        page = self.ask("")
        self.assertEqual(page.status, 200)
        loaded = re.findall(rb'(?:src|href)="([^"]*)"', page.body)
        for path in loaded:
            self.assertFalse(path.startswith((b"/", b"http:", b"https:")), path)
            self.assertEqual(self.ask(path.decode().removeprefix("./")).status, 200, path)
        answer = self.ask("api/session", "POST", {"token": token})
        self.assertEqual(answer.status, 200, answer.body)
        cookie = answer.headers["set-cookie"]
        self.assertIn("; Secure", cookie)
        self.assertNotRegex(cookie, r"(?i)path=/[^;]")
        self.server.cookie = cookie.partition(";")[0]
        self.assertEqual([row["id"] for row in self.ask("api/jobs").json["jobs"]], [job])
        scrytest.wait_until(lambda: self.ask(f"api/jobs/{job}/set", "POST", {"stall": 77}).status == 204, 60, "it is set")
        self.assertEqual(self.ask(f"api/jobs/{job}/set", "POST", {"stall": 78}, Origin="https://evil.example").status, 403)
        events = servetest.Events(self.server, f"{PREFIX[1:]}api/jobs/{job}/records")
        events.wait(lambda seen: len(seen) > 5, "records come at once")
        self.assertEqual(self.ask(f"api/jobs/{job}/signal", "POST", {"signal": "TERM"}).status, 204)
        process.wait(60)
        events.wait(lambda seen: seen[-1][0] == "end", "the end")
        part = self.ask(f"api/jobs/{job}/files/job.json", Range="bytes=0-0")
        self.assertEqual((part.status, part.body), (206, b"{"))
        packed = self.ask(f"api/jobs/{job}/report", Accept_Encoding="gzip")
        self.assertEqual(packed.headers.get("content-encoding"), "gzip")

    def test_the_server_itself_answers_too(self):
        """By its own name, for who is on the machine; not by any other."""
        token = self.server.token("--link")
        self.server.port = self.own_port
        self.assertEqual(self.server.ask("api/session", "POST", {"token": token}).status, 200)
        self.assertEqual(self.server.ask("api/session", Host="cluster.example").status, 401)
        self.assertEqual(self.server.ask("api/session", Host="cluster.example.evil.example").status, 421)


scrytest.main()
