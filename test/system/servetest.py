# SPDX-License-Identifier: Apache-2.0
"""A running scry serve, and how tests ask it."""

import http.client
import json
import os
import re
import shutil
import socket
import threading

import jobtest
import scrytest

TIMEOUT = 60


def documented():
    """[(method, pattern of a path, what it may answer: {status: type or None})] of doc/reference/api.json."""
    with open(os.path.join(scrytest.SOURCE, "doc", "reference", "api.json"), encoding="utf-8") as file:
        api = json.load(file)
    rows = []
    for path, methods in api["paths"].items():
        pattern = re.compile(re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(path[1:]).replace(r"\{file\}", ".+")))
        for method in methods.keys() - {"parameters"}:
            answers = {}
            for status, said in methods[method]["responses"].items():
                while "$ref" in said:
                    said = api["components"]["responses"][said["$ref"].rpartition("/")[2]]
                answers[int(status)] = next(iter(said.get("content", {})), None)
            rows.append((method.upper(), pattern, answers))
    return rows


DOCUMENTED = documented()


def assert_documented(method, path, answer):
    """That a path and method may give this answer; what is said of no path is answered by 404 or 405, and a path that is none by 400 or 414."""
    path = path.partition("?")[0]
    rows = [answers for its, pattern, answers in DOCUMENTED if its == method.replace("HEAD", "GET") and pattern.fullmatch(path)]
    if not path.startswith("api/") or not rows or answer.status in (405, 414):
        return
    given = (answer.headers.get("content-type") or "").partition(";")[0] or None
    if (answer.status, given) not in rows[0].items():
        raise AssertionError(f"{method} {path} answered {answer.status} {given}, which api.json does not say: {rows[0]}")


class Answer:
    def __init__(self, response, body):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]["kind"]


class Server:
    """`scry serve` in a box; ends with it."""

    def __init__(self, box, *arguments):
        self.box = box
        self.errors = open(box.path("tmp", "serve.err"), "w+", encoding="utf-8")
        self.process = box.start(box.scry("serve", *arguments), stderr=self.errors)
        self.link = self.process.stdout.readline().strip()
        if not self.link:
            self.errors.seek(0)
            raise AssertionError(f"scry serve has ended: {self.errors.read()}")
        port = re.search(r":(\d+)/", self.link)  # with --origin, the link is that of a proxy
        self.port = int(port.group(1) if port else arguments[arguments.index("--port") + 1])
        self.host = f"127.0.0.1:{self.port}"
        self.cookie = None

    def end(self):
        self.process.terminate()
        self.process.wait(TIMEOUT * scrytest.SCALE)

    def said(self):
        """What it has written for people."""
        with open(self.errors.name, encoding="utf-8") as file:
            return file.read()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT * scrytest.SCALE)

    def ask(self, path, method="GET", body=None, **headers):
        """As a browser with the session, if there is one. A header Host_ is sent as Host; None leaves one out."""
        connection = self.connect()
        given = {name.rstrip("_").replace("_", "-").lower(): value for name, value in headers.items()}
        all_headers = {"host": self.host, **({"cookie": self.cookie} if self.cookie else {}),
                       **({"origin": f"http://{self.host}"} if method != "GET" else {})}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            all_headers["content-type"] = "application/json"
        all_headers.update(given)
        connection.putrequest(method, "/" + path, skip_host=True, skip_accept_encoding=True)
        for name, value in all_headers.items():
            if value is not None:
                connection.putheader(name, value)
        if body is not None and "content-length" not in all_headers:
            connection.putheader("content-length", str(len(body)))
        connection.endheaders(body)
        try:
            response = connection.getresponse()
            answer = Answer(response, response.read())
            assert_documented(method, path, answer)
            return answer
        finally:
            connection.close()

    def token(self, *arguments):
        """Of another link, or for scripts."""
        done = self.box.run(self.box.scry("serve", *arguments))
        assert done.returncode == 0, done.stderr
        return done.stdout.strip().rpartition("=")[2]

    def log_in(self, *rights):
        token = self.token("--link", *(["--rights", ",".join(rights)] if rights else []))
        self.cookie = None
        answer = self.ask("api/session", "POST", {"token": token})
        assert answer.status == 200, answer.body
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def raw(self, data, wait=True):
        """Bytes as they are; what comes back until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), TIMEOUT * scrytest.SCALE) as sock:
            sock.sendall(data)
            got = b""
            while wait:
                try:
                    more = sock.recv(65536)
                except ConnectionResetError:
                    break
                if not more:
                    break
                got += more
            return got


class Events(threading.Thread):
    """Reads a stream of events until it ends, or for ever. `seen`: (event, data, id)."""

    def __init__(self, server, path, **headers):
        super().__init__(daemon=True)
        self.seen = []
        self.over = False
        self.connection = server.connect()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request("GET", "/" + path, headers={"host": server.host, "cookie": server.cookie or "", **named})
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()
        self.start()

    def run(self):
        event = {}
        try:
            for line in self.response:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name:
                    event[name] = value
                elif event.get("event"):
                    self.seen.append((event["event"], json.loads(event["data"]), event.get("id")))
                    event = {}
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass
        self.over = True

    def close(self):
        if self.connection.sock:
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        elif self.response.fp:
            self.response.close()
        self.join(TIMEOUT)

    def wait(self, condition, text):
        scrytest.wait_until(lambda: condition(self.seen), TIMEOUT, text)
        return self.seen


class ServeCase(jobtest.JobCase):
    def job(self, *arguments):
        """Runs a job; its id."""
        before = set(os.listdir(self.box.path("jobs")))
        self.scry_run("-q", *arguments)
        made, = set(os.listdir(self.box.path("jobs"))) - before
        return made

    def start_job(self, *arguments):
        before = set(os.listdir(self.box.path("jobs")))
        process = self.box.start(self.box.scry("run", "-q", *arguments))
        made = scrytest.wait_until(
            lambda: [name for name in set(os.listdir(self.box.path("jobs"))) - before
                     if os.path.exists(self.box.path("jobs", name, "job.json"))], TIMEOUT, "the job begins")
        return process, made[0]

    def fake_job(self, name, *parts):
        """A directory of a job that runs as long as another one, and its spools, to write into."""
        _process, real = self.start_job("--", "sleep", "1000")
        place = self.box.path("work", "drop", name)
        spools = []
        for number, path in enumerate([place, *(os.path.join(place, "parts", part) for part in parts)]):
            os.makedirs(os.path.join(path, "spool"))
            shutil.copy(self.box.path("jobs", real, "job.json"), path)
            spools.append(open(os.path.join(path, "spool", "records.jsonl"), "w", encoding="utf-8", buffering=1))
            self.addCleanup(spools[-1].close)
            spools[-1].write(json.dumps({"seq": 0, "type": "spool", "format": "scry-spool", "version": 1, "job": name,
                                         "node": f"node{number}", "t": 0}) + "\n")
        return spools
