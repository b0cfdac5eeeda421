# SPDX-License-Identifier: Apache-2.0
"""scry serve and those who should not get anything from it."""

import concurrent.futures
import contextlib
import json
import os
import re
import select
import shutil
import socket
import ssl
import subprocess
import time

import scrytest
import servetest


class Security(servetest.ServeCase):
    def setUp(self):
        super().setUp()
        self.server = servetest.Server(self.box)

    def test_nothing_without_a_session(self):
        """Every path of the API but the way in; no key is as good as an empty one."""
        done = self.box.run([self.box.path("libexec", "scry-serve"), "--routes"])
        for line in done.stdout.splitlines():
            method, path, _arguments, session = line.split("\t")
            if session:
                path = path.replace("*", "1")
                for headers in ({}, {"Cookie": f"scry_{self.server.port}="}, {"Authorization": "Bearer "}, {"Authorization": "Bearer"},
                                {"Cookie": f"scry_{self.server.port}=" + "A" * 43}):
                    self.assertEqual(self.server.ask(path, method.upper(), **headers).status, 401, (path, headers))
        for token in ("", "A" * 43, None, [], "\0" * 43):
            self.assertIn(self.server.ask("api/session", "POST", {"token": token}).status, (400, 401))
        self.assertEqual(self.server.ask("api/links", "POST", {}).status, 401)

    def test_each_route_with_each_right(self):
        """Reading needs a session; all that changes something needs the right for it, and no other one will do."""
        needs = {"post api/jobs/*/set": "control", "post api/jobs/*/signal": "control", "get api/site": "site", "post api/links": "none"}
        routes = self.box.run([self.box.path("libexec", "scry-serve"), "--routes"]).stdout.splitlines()
        tokens = {right: self.server.token("--bearer", "--rights", right) for right in ("observe", "control", "submit", "site")}
        for line in routes:
            method, path, _arguments, session = line.split("\t")
            needed = needs.get(f"{method} {path}") or ("submit" if path.startswith("api/tasks") and method != "get" else "observe")
            if not session or path == "api/session" or path.endswith("/events"):
                continue
            for right, token in tokens.items():
                answer = self.server.ask(path.replace("*", "1"), method.upper(), None if method == "get" else {}, Authorization=f"Bearer {token}")
                refused = answer.status == 403 and answer.error == "rights"
                self.assertEqual(refused, needed not in ("observe", right), (method, path, right, answer.body))

    def test_sessions_cannot_be_planted(self):
        """Logging in makes a new secret, whatever cookie was there; two cookies are none; a link is no session."""
        token = self.server.token("--link")
        planted = f"scry_{self.server.port}=" + "B" * 43
        answer = self.server.ask("api/session", "POST", {"token": token}, Cookie=planted)
        cookie = answer.headers["set-cookie"].partition(";")[0]
        self.assertNotIn("BBBB", cookie)
        self.assertEqual(self.server.ask("api/session", Cookie=planted).status, 401)
        self.assertEqual(self.server.ask("api/session", Cookie=cookie).status, 200)
        self.assertEqual(self.server.ask("api/session", Cookie=f"{planted}; {cookie}").status, 401)
        link = self.server.token("--link")
        self.assertEqual(self.server.ask("api/session", Authorization=f"Bearer {link}").status, 401)
        self.assertEqual(self.server.ask("api/session", Cookie=f"scry_{self.server.port}={link}").status, 401)

    def test_other_sites(self):
        """Another name for this address (DNS rebinding), and pages of other origins, get nothing, by any method."""
        self.server.log_in()
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE"):
            self.assertEqual(self.server.ask("api/session", method, Host="evil.example").status, 421, method)
            for origin in ("https://evil.example", "null", f"http://localhost:{self.server.port + 1}", f"https://{self.server.host}"):
                self.assertEqual(self.server.ask("api/session", method, Origin=origin).status, 403, (method, origin))
        self.assertEqual(self.server.ask("api/session", Host=None).status, 421)
        self.assertEqual(self.server.ask("api/session", "DELETE", Origin=None).status, 403)
        form = self.server.ask("api/session", "POST", b"token=x", Content_Type="application/x-www-form-urlencoded")
        self.assertEqual(form.status, 400)
        self.assertEqual(self.server.ask("api/session").status, 200)
        self.assertNotIn("access-control-allow-origin", self.server.ask("api/session").headers)

    def test_headers_of_every_answer(self):
        """Also of errors, and of those that the HTTP library gives itself."""
        self.server.log_in()
        raw = self.server.raw(b"GET /%zz HTTP/1.1\r\nHost: " + self.server.host.encode() + b"\r\nConnection: close\r\n\r\n")
        for answer in (self.server.ask(""), self.server.ask("api/session"), self.server.ask("api/x"), self.server.ask("x", "POST", {})):
            policy = answer.headers["content-security-policy"]
            self.assertNotIn("unsafe", policy)
            self.assertIn("default-src 'none'", policy)
            self.assertIn("frame-ancestors 'none'", policy)
            self.assertEqual(answer.headers["x-content-type-options"], "nosniff")
            self.assertEqual(answer.headers["referrer-policy"], "no-referrer")
        self.assertNotIn(b"200 OK", raw)

    def test_paths_stay_inside(self):
        """No spelling of a path leads to a file that is not of the pages, or to a directory that is no job."""
        self.server.log_in()
        with open(self.box.path("secret"), "w", encoding="ascii") as file:
            file.write("root:")
        for path in ("../../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fetc%2fpasswd", "....//etc/passwd", "/etc/passwd",
                     "%2fetc%2fpasswd", "index.html/../../secret", "..\\..\\secret", "index.html%00.js",
                     "api/jobs/..%2f..%2f/report", "api/jobs/%2e%2e/report", "api/jobs/--help/report", "api/jobs/@last/report",
                     "api/jobs/.%2f/report", "api/jobs//report", "api/jobs/%2ftmp/report"):
            request = f"GET /{path} HTTP/1.1\r\nHost: {self.server.host}\r\nCookie: {self.server.cookie}\r\nConnection: close\r\n\r\n"
            answer = self.server.raw(request.encode())
            self.assertNotIn(b"root:", answer, path)
            self.assertFalse(b" 200 " in answer.partition(b"\r\n")[0] and b"<html" not in answer, (path, answer))
        self.assertEqual(self.server.ask("api/session").status, 200)

    def test_paths_are_one_line(self):
        """What stands behind an encoded line feed is neither dropped from a path nor read as a header."""
        self.server.log_in()
        task = self.server.ask("api/tasks", "POST", {"name": "t", "program": "a"}).json["id"]
        for path in (f"api/tasks/{task}/files/a%0ab", f"api/tasks/{task}/files/a%0db", f"api/tasks/{task}/files/a%0aX:%20y", "api/session%0a",
                     f"api/tasks/{task}/files/a%01b", f"api/tasks/{task}/files/a%0d%0aHost:%20{self.server.host}%0d%0aA:"):
            answer = self.server.raw(f"PUT /{path} HTTP/1.1\r\nHost: {self.server.host}\r\nCookie: {self.server.cookie}\r\n"
                                     f"Origin: http://{self.server.host}\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx".encode())
            self.assertIn(b" 400 ", answer.partition(b"\r\n")[0], path)
        self.assertEqual(os.listdir(self.box.path("home", ".local", "state", "scry", "tasks", task, "files")), [])
        rebound = self.server.raw(f"GET /api/session%0aHost:%20{self.server.host}%0aX: HTTP/1.1\r\nHost: evil.example\r\n"
                                  f"Cookie: {self.server.cookie}\r\nConnection: close\r\n\r\n".encode())
        self.assertNotIn(b" 200 ", rebound.partition(b"\r\n")[0])

    def test_refused_bodies_have_an_answer(self):
        """Who sends a file that is too large, or a body, reads why, and the connection is good for the next request."""
        self.server.log_in()
        task = self.server.ask("api/tasks", "POST", {"name": "t", "program": "a", "limits": {"disk_bytes": 1 << 20}}).json["id"]
        body = b"x" * (20 << 20)
        connection = self.server.connect()
        for method, path in (("PUT", f"api/tasks/{task}/files/large"), ("POST", "api/tasks")):
            connection.request(method, "/" + path, body, {"Host": self.server.host, "Cookie": self.server.cookie,
                                                          "Origin": f"http://{self.server.host}", "Content-Type": "application/json"})
            response = connection.getresponse()
            self.assertEqual((response.status, json.loads(response.read())["error"]["kind"]), (413, "too_large"), path)
        connection.close()

    def test_texts_of_jobs_stay_texts(self):
        """Names and arguments that are HTML come as JSON, which no browser shows as a page."""
        text = "<script>alert(1)</script>\"'\n&"
        job = self.job("--name", text, "--", "sh", "-c", "true", text)
        self.server.log_in()
        for path in ("api/jobs", f"api/jobs/{job}", f"api/jobs/{job}/report"):
            answer = self.server.ask(path)
            self.assertEqual((answer.status, answer.headers["content-type"]), (200, "application/json"))
            self.assertEqual(answer.headers["x-content-type-options"], "nosniff")
        self.assertEqual(self.server.ask("api/jobs").json["jobs"][0]["name"], text)
        missing = self.server.ask("api/jobs/x%3Cscript%3E")
        self.assertEqual((missing.status, missing.headers["content-type"]), (404, "application/json"))

    def test_directories_of_others(self):
        """Pipes and devices in place of files keep nobody waiting, and fill no memory: neither the server nor a command."""
        job = self.box.path("jobs", self.job("--", "true"))
        for path in ("parts/a/job.json", "parts/b/clock.json", "parts/d/remote.json", "stats/node/1-1.json", "trace/node/1-1/.process"):
            os.makedirs(os.path.dirname(os.path.join(job, path)), exist_ok=True)
            os.mkfifo(os.path.join(job, path))
        os.makedirs(os.path.join(job, "parts", "c"))
        os.symlink("/dev/zero", os.path.join(job, "parts", "c", "job.json"))
        os.symlink("/dev/zero", os.path.join(job, "stats", "node", "2-1.json"))
        self.server.log_in()
        name = os.path.basename(job)
        servetest.Events(self.server, f"api/jobs/{name}/records").wait(lambda seen: seen and seen[-1][0] == "end", "the end of the records")
        for path in ("", "/report", "/why", "/files", "/profile", "/distributions"):
            self.assertIn(self.server.ask(f"api/jobs/{name}{path}").status, (200, 404, 422), path)

    def test_processes_that_are_no_job(self):
        """A job in a directory of others may say that any process is its command: that one gets no signal."""
        boot = open("/proc/sys/kernel/random/boot_id", encoding="ascii").read().strip()
        victim = self.box.start(["sleep", "600"])
        process, real = self.start_job("--", "sleep", "600")
        drop = self.box.path("work", "drop")
        named = {}
        for number, pid in enumerate((victim.pid, process.pid)):
            name = f"20250101T000000-x-{number}-aa"
            os.makedirs(os.path.join(drop, name, "spool"))
            with open(self.box.path("jobs", real, "job.json"), encoding="utf-8") as file:
                said = json.load(file)
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                its = {"pid": pid, "start_ticks": int(file.read().rpartition(")")[2].split()[19])}
            said.update(id=name, boot_id=boot, command=its, supervisor=its)
            with open(os.path.join(drop, name, "job.json"), "w", encoding="utf-8") as file:
                json.dump(said, file)
            named[name] = pid
        self.server.process.kill()
        self.server.process.wait()
        self.server = servetest.Server(self.box, "--jobs", drop)
        self.server.log_in()
        for name in named:
            for number in ("TERM", "KILL", "STOP"):
                self.assertEqual(self.server.ask(f"api/jobs/{name}/signal", "POST", {"signal": number}).status, 409, (name, number))
        self.assertIsNone(victim.poll())
        self.assertIsNone(process.poll())
        scrytest.wait_until(lambda: self.server.ask(f"api/jobs/{real}/signal", "POST", {"signal": "KILL"}).status == 204, 60, "it begins")

    @scrytest.hasten(4)
    def test_too_much(self):
        """Huge bodies and headers, bodies in chunks, and nonsense are refused, and the server goes on."""
        self.server.log_in()
        host = self.server.host.encode()
        head = b"POST /api/session HTTP/1.1\r\nHost: " + host + b"\r\nContent-Type: application/json\r\n"
        asked = {
            "huge body": head + b"Content-Length: 99999999999\r\n\r\n",
            "chunks": head + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            "method": b"PUT /api/session HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n",
            "negative": head + b"Content-Length: -5\r\n\r\n{}",
            "huge header": b"GET / HTTP/1.1\r\nHost: " + host + b"\r\nX: " + b"a" * 100000 + b"\r\n\r\n",
            "huge path": b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n",
            "nonsense": os.urandom(4096) + b"\r\n\r\n",
        }
        # At the same time: some it keeps open until they have been silent for long.
        with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
            answers = dict(zip(asked, pool.map(self.server.raw, asked.values())))
        first = {name: answer.partition(b"\r\n")[0] for name, answer in answers.items()}
        self.assertIn(b" 413 ", first["huge body"])
        self.assertIn(b" 411 ", first["chunks"])
        self.assertIn(b"\r\nallow: GET, POST, DELETE\r\n", answers["method"])
        self.assertIn(b"\r\nconnection: close\r\n", answers["method"])  # nobody waits for a body without a length
        self.assertIn(b" 431 ", first["huge header"])
        self.assertIn(b" 414 ", first["huge path"])
        for name in ("negative", "nonsense"):
            self.assertIn(b" 400 ", first[name], name)
        for header in (b"Cookie: a\0b", b"Accept-Encoding: gz\0ip", b"Authorization: Bearer \0x"):
            answer = self.server.raw(b"GET /api/session HTTP/1.1\r\nHost: " + host + b"\r\n" + header + b"\r\n\r\n")
            self.assertIn(b" 400 ", answer.partition(b"\r\n")[0], header)
        deep = b"[" * 100000
        self.assertEqual(self.server.ask("api/session", "POST", deep, Content_Type="application/json").status, 400)
        self.assertEqual(self.server.ask("api/session").status, 200)

    def heads(self):
        """{what: (bytes, status of each answer)}: what programs on the way might read in another way, or is too large."""
        host = f"Host: {self.server.host}\r\n".encode()
        get, post = b"GET /api/session HTTP/1.1\r\n" + host, b"POST /api/session HTTP/1.1\r\n" + host
        return {
            "LF": (b"GET /api/session HTTP/1.1\nHost: x\n\n", [400]),
            "LF behind a header": (get + b"X-A: b\nX-B: c\r\n\r\n", [400]),
            "LF behind one that is known": (get + b"Accept: b\nX-B: c\r\n\r\n", [400]),
            "LF at the end": (get + b"\n", [400]),
            "CR": (get + b"X-A: b\rX-B: c\r\n\r\n", [400]),
            "NUL": (get + b"X-A: b\0c\r\n\r\n", [400]),
            "NUL in one that is known": (get + b"Accept: b\0c\r\n\r\n", [400]),
            "NUL in a name": (get + b"X\0A: b\r\n\r\n", [400]),
            "folded": (get + b"X-A: b\r\n c\r\n\r\n", [400]),
            "folded, known": (get + b"Accept: b\r\n c: d\r\n\r\n", [400]),
            "space before the colon": (get + b"Content-Length : 5\r\n\r\n", [400]),
            "no colon": (get + b"X-A\r\n\r\n", [400]),
            "two lengths": (post + b"Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}xxx", [400]),
            "chunks and a length": (post + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", [411]),
            "many headers": (get + b"".join(b"X-%d: a\r\n" % i for i in range(200)) + b"\r\n", [431]),
            "many of one": (get + b"Accept: a\r\n" * 200 + b"\r\n", [431]),
            "large header": (get + b"Cookie: " + b"a" * 100000 + b"\r\n\r\n", [431]),
            "large line": (b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n" + host + b"\r\n", [414]),
            "many arguments": (b"GET /?" + b"a&" * 200 + b" HTTP/1.1\r\n" + host + b"\r\n", [414]),
            "no version": (b"GET /\r\n\r\n", [400]),
            "version": (b"GET / HTTP/2.0\r\n\r\n", [505]),
            "method": (b"CONNECT a:80 HTTP/1.1\r\n" + host + b"\r\n", [501]),
            "behind a good one": (get + b"\r\n" + get + b"X-A: b\n\n", [401]), # the last answer
            "body of GET": (get + b"Content-Length: 5\r\n\r\n\n\n\n\n\n" + get + b"Connection: close\r\n\r\n" , [401, 401]),
        }

    def test_heads_of_one_meaning(self):
        """Each gets a plain answer, at once, with the headers of all answers, and the connection ends."""
        for name, (data, statuses) in self.heads().items():
            answer = self.server.raw(data)
            with self.subTest(name):
                found = list(re.finditer(rb"HTTP/1\.[01] (\d+) ", answer))
                self.assertEqual([int(each[1]) for each in found], statuses, answer[:200])
                head, _, body = answer[found[-1].start():].partition(b"\r\n\r\n")
                self.assertTrue(statuses[-1] == 401 or b"\r\nconnection: close" in head, head)
                self.assertIn(b"\r\ncontent-security-policy: default-src 'none'", head)
                self.assertEqual(int(re.search(rb"content-length: (\d+)", head)[1]), len(body))
                self.assertIn("error", json.loads(body))
        self.assertEqual(self.server.ask("api/session").status, 401)

    def test_heads_byte_by_byte(self):
        """Whichever pieces they come in; and who goes on sending behind its answer is no burden."""
        data, statuses = self.heads()["LF behind a header"]
        with socket.create_connection(("127.0.0.1", self.server.port), 60) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in data[:data.index(b"\n", -12) + 1]:
                sock.sendall(bytes([byte]))
            self.assertIn(b" 400 ", sock.recv(65536))
        self.assertEqual(self.server.ask("api/session").status, 401)

    @scrytest.thorough
    @scrytest.hasten(4)
    def test_slow_and_many(self):
        """Those who send nothing, or a byte at a time, or hold very many connections, keep out nobody else for long."""
        self.server.log_in()
        slow = socket.create_connection(("127.0.0.1", self.server.port), 60)
        slow.sendall(f"POST /api/session HTTP/1.1\r\nHost: {self.server.host}\r\nContent-Type: application/json\r\n"
                     "Content-Length: 200000\r\n\r\n".encode())
        slow.setblocking(False)
        idle = []
        for number in range(900):
            try:
                sock = socket.create_connection(("127.0.0.1", self.server.port), 60)
            except OSError:
                break
            idle.append(sock)
            if number % 2:
                sock.sendall(b"GET / HTTP/1.1\r\nHost: ")
        scrytest.wait_until(self.is_answered, 120, "those that say nothing are dropped")
        for sock in idle:
            sock.close()
        scrytest.wait_until(self.is_answered, 120, "the server goes on")
        scrytest.wait_until(lambda: self.is_dropped(slow), 120, "a body that comes byte by byte has no more time than another")
        slow.close()

    def test_only_http(self):
        """Whoever asks for WebSocket, by the name of whatever the server watches itself, leaves nothing behind. (Pages of any
        origin can ask for it.)"""
        ask = (f"GET /api/session HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
               f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: %s\r\n\r\n")
        for host in (self.server.host, "own", "default"):
            for name in ("child", "listener", "signal", "http", "other"):
                self.assertNotIn(b" 101 ", self.server.raw((ask % (host, name)).encode()), (host, name))
        head = f"GET / HTTP/1.1\r\nHost: {self.server.host}\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        self.assertIn(b" 400 ", self.server.raw(head.encode() + b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n").partition(b"\r\n")[0])
        for number in range(900):
            self.server.raw((ask % ("own", ("child", "other", "http")[number % 3])).encode())
        self.server.log_in()
        self.assertEqual(self.server.ask("api/session").status, 200)

    def is_dropped(self, sock):
        try:
            sock.send(b" ")
            return sock.recv(1) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def is_answered(self):
        try:
            return self.server.ask("api/session").status == 200
        except OSError:
            return False

    def test_requests_are_limited(self):
        """One that asks very quickly is told to wait, and others are answered."""
        other = self.server.token("--bearer")
        self.server.log_in()
        connection = self.server.connect()
        statuses = set()
        for _ in range(20000):
            connection.request("GET", "/api/session", headers={"host": self.server.host, "cookie": self.server.cookie})
            response = connection.getresponse()
            response.read()
            statuses.add(response.status)
            if response.status == 429:
                self.assertTrue(response.headers["retry-after"])
                break
        self.assertEqual(self.server.ask("api/session", Cookie=None, Authorization=f"Bearer {other}").status, 200)
        self.assertIn(429, statuses)

    def test_public_addresses_need_tls(self):
        """An address that others can reach is refused without a certificate, as is half of one."""
        done = self.box.run(self.box.scry("serve", "--address", "0.0.0.0"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("--tls-cert", done.stderr)
        self.assertEqual(self.box.run(self.box.scry("serve", "--tls-cert", "/dev/null")).returncode, 2)
        self.assertEqual(self.box.run(self.box.scry("serve", "--origin", "evil.example")).returncode, 2)

    @staticmethod
    def make_certificate(cert, key):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True, timeout=120)

    @scrytest.hasten(4)
    def test_a_certificate_that_is_renewed(self):
        """Holds for who comes then, without a new start, and without an end of what goes on; until its key is there, the old one holds."""
        self.server.process.kill()
        self.server.process.wait()
        cert, key, new, new_key = (self.box.path("work", name) for name in ("cert.pem", "key.pem", "new-cert.pem", "new-key.pem"))
        self.make_certificate(cert, key)
        self.make_certificate(new, new_key)
        old = shutil.copy(cert, self.box.path("work", "old.pem"))
        server = servetest.Server(self.box, "--tls-cert", cert, "--tls-key", key)
        trusts_new = ssl.create_default_context(cafile=new)
        with socket.create_connection(("127.0.0.1", server.port), 60) as sock, \
                ssl.create_default_context(cafile=cert).wrap_socket(sock, server_hostname="localhost") as stream:
            stream.sendall(f"GET /api/tasks/events HTTP/1.1\r\nHost: localhost:{server.port}\r\n"
                           f"Authorization: Bearer {server.token('--bearer')}\r\n\r\n".encode())
            self.assertIn(b"200 OK", stream.recv(65536))
            self.assertFalse(self.is_trusted(server, trusts_new))
            os.rename(new, cert)  # its key comes much later
            scrytest.wait_until(lambda: server.said().count("does not fit") == 1, message="that the new pair is not whole is said")
            self.assertTrue(self.is_trusted(server, ssl.create_default_context(cafile=old)))
            os.rename(new_key, key)
            scrytest.wait_until(lambda: self.is_trusted(server, trusts_new), message="the new certificate is shown")
            subprocess.run(["curl", "-s", "--unix-socket", self.box.path("run", "serve.sock"), "--json", '{"name": "t", "program": "true"}',
                            "http://localhost/api/tasks"], check=True, capture_output=True, timeout=60)
            seen = b""
            while b"event: task" not in seen:
                more = stream.recv(65536)
                self.assertTrue(more, "the stream goes on")
                seen += more

    @staticmethod
    def is_trusted(server, context):
        try:
            with socket.create_connection(("127.0.0.1", server.port), 60) as sock, context.wrap_socket(sock, server_hostname="localhost"):
                return True
        except ssl.SSLError:
            return False

    def test_tls_and_http2(self):
        """With a certificate, HTTP/2 and 1.1 by TLS; nothing in the clear."""
        self.server.process.kill()
        self.server.process.wait()
        cert, key = self.box.path("work", "cert.pem"), self.box.path("work", "key.pem")
        self.make_certificate(cert, key)
        server = servetest.Server(self.box, "--tls-cert", cert, "--tls-key", key)
        self.assertTrue(server.link.startswith("https://"))
        token = server.link.partition("#token=")[2]
        for version, asked in (("2", "--http2"), ("1.1", "--http1.1")):
            done = subprocess.run(["curl", "-s", asked, "--cacert", cert, "-o", os.devnull, "-w", "%{http_version} %{http_code}",
                                   f"https://localhost:{server.port}/"], stdout=subprocess.PIPE, text=True, timeout=60, check=False)
            self.assertEqual(done.stdout, f"{version} 200")
        done = subprocess.run(["curl", "-s", "-i", "--http2", "--cacert", cert, "-H", f"Origin: https://localhost:{server.port}", "--json",
                               f'{{"token": "{token}"}}', f"https://localhost:{server.port}/api/session"],
                              stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        self.assertIn("; Secure", done.stdout)
        self.assertNotIn(b"200 OK", server.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        bearer = server.token("--bearer")
        job = self.job("--", "true")
        def curl(path, *options):
            done = subprocess.run(["curl", "-s", "--http2", "--cacert", cert, "-H", f"Authorization: Bearer {bearer}", *options,
                                   f"https://localhost:{server.port}/{path}"], stdout=subprocess.PIPE, timeout=60, check=True)
            return done.stdout
        place = f"api/jobs/{job}"
        whole = curl(f"{place}/files/job.json")
        self.assertEqual(curl(f"{place}/files/job.json", "-r", "5-20"), whole[5:21])
        self.assertEqual(json.loads(curl(f"{place}/report", "--compressed"))["id"], job)
        self.assertIn(b"x", curl(f"{place}/files.tar"))
        events = re.findall(rb"^id: (.*)$", curl(f"{place}/records"), re.M)
        self.assertGreater(len(events), 3)
        self.assertEqual(re.findall(rb"^id: (.*)$", curl(f"{place}/records?behind={events[1].decode()}"), re.M), events[2:])
        self.assertIn(b'"path"', curl(f"{place}/files%0aX:"))
        context = ssl.create_default_context(cafile=cert)
        with socket.create_connection(("127.0.0.1", server.port), 60) as sock, \
                context.wrap_socket(sock, server_hostname="localhost") as tls:
            tls.sendall(f"GET / HTTP/1.1\r\nHost: localhost:{server.port}\r\n\r\nGET / HTTP/1.1\nHost: localhost\n\n".encode())
            answers = b"".join(iter(lambda: tls.recv(65536), b""))
            self.assertEqual(re.findall(rb"HTTP/1\.1 (\d+) ", answers), [b"200"])
        context.maximum_version = ssl.TLSVersion.TLSv1_1
        with self.assertRaises(OSError), socket.create_connection(("127.0.0.1", server.port), 60) as sock:
            context.wrap_socket(sock, server_hostname="localhost")

    @staticmethod
    def cpu_seconds(server):
        with open(f"/proc/{server.process.pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def flood(plain, context, first, each):
        """Sends `first` and then frames by TLS, until the other end closes, 8 s at most. How many frames, whether it has closed, and
        what it said. The socket is not wrapped: so what it said last is read also when sending has failed."""
        came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(came, goes, server_hostname="localhost")
        plain.settimeout(20)
        while tls.selected_alpn_protocol() is None:
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                break
            plain.sendall(goes.read())
            came.write(plain.recv(1 << 16))
        tls.write(first)
        waits, sent, got, closed, end = goes.read(), 0, b"", False, time.monotonic() + 8
        while not closed and time.monotonic() < end:
            if not waits:
                tls.write(each * 500)
                waits, sent = goes.read(), sent + 500
            readable, writable, _ = select.select([plain], [plain] if waits else [], [], 1)
            try:
                if writable and not readable:
                    waits = waits[plain.send(waits):]
            except OSError:
                waits = b""
                readable = [plain]
            try:
                data = plain.recv(1 << 16) if readable else None
                closed = data == b""
                came.write(data or b"")
            except OSError:
                closed = True
            with contextlib.suppress(ssl.SSLError):
                while more := tls.read(1 << 16):
                    got += more
        return sent, closed, got

    def test_frames_without_a_request(self):
        """Frames of HTTP/2 that are no request cost the server little: soon it closes the connection. Others are answered."""
        self.server.process.kill()
        self.server.process.wait()
        cert, key = self.box.path("work", "cert.pem"), self.box.path("work", "key.pem")
        self.make_certificate(cert, key)
        server = servetest.Server(self.box, "--tls-cert", cert, "--tls-key", key)
        context = ssl.create_default_context(cafile=cert)
        context.set_alpn_protocols(["h2"])
        def frame(kind, flags=0, stream=0, payload=b""):
            return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
        # :method POST, :scheme https, :path /, :authority localhost (RFC 7541)
        headers = bytes([0x83, 0x87, 0x84, 0x41, 9]) + b"localhost"
        begun = frame(1, 4, 1, headers)
        floods = {"PING": (b"", frame(6, payload=b"12345678")), "SETTINGS": (b"", frame(4)),
                  "CONTINUATION": (frame(1, 0, 1, headers), frame(9, 0, 1)), "DATA": (begun, frame(0, 0, 1)),
                  "WINDOW_UPDATE": (begun, frame(8, payload=b"\0\0\0\1")), "PRIORITY": (begun, frame(2, 0, 3, b"\0\0\0\0\1")),
                  "RST_STREAM": (begun, frame(3, 0, 1, b"\0\0\0\x08"))}
        for name, (first, each) in floods.items():
            with self.subTest(name), socket.create_connection(("127.0.0.1", server.port), 60) as plain:
                before = self.cpu_seconds(server)
                sent, closed, got = self.flood(plain, context, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4) + first, each)
                spent = self.cpu_seconds(server) - before
                self.assertTrue(closed, f"{sent} frames {name} were taken, for {spent:.1f} s of a processor")
                self.assertLess(spent, 1.5, f"{sent} frames {name}")
                while got[3:4] != b"\x07" and got:
                    got = got[9 + int.from_bytes(got[:3], "big"):]
                self.assertEqual(got[13:17], b"\0\0\0\x0b", f"{name}: GOAWAY, with ENHANCE_YOUR_CALM (RFC 9113, 7)")
                done = subprocess.run(["curl", "-s", "--http2", "--cacert", cert, "-o", os.devnull, "-w", "%{http_code}",
                                       f"https://localhost:{server.port}/"], stdout=subprocess.PIPE, text=True, timeout=60, check=False)
                self.assertEqual(done.stdout, "200")


scrytest.main()
