# SPDX-License-Identifier: Apache-2.0
"""A session with a monitor, as Sandbox.omis() of scrytest.py begins it, and its replies."""

import json
import os
import select
import subprocess
import time

import tapcases


class Reply:
    """One reply: element 0 is the request's own, element n the n-th action's."""

    def __init__(self, value):
        self.value = value
        self.number = value["request"]
        self.services = value["services"]

    def results(self, action=0):
        return self.services[action]

    def status(self, action=0, entry=0):
        return self.services[action][entry]["status"]

    def result(self, action=1, entry=0):
        return self.services[action][entry]["result"]

    def objects(self, action=1):
        """All objects of an action's results, in order."""
        return [name for entry in self.services[action] for name in entry["objects"]]

    def ok(self):
        """No status is an error (16 and above)."""
        return all(entry["status"] < 16 for service in self.services for entry in service)

    def __repr__(self):
        return json.dumps(self.value)


class OmisSession:
    """A `scry omis --json` on pipes. Requests are numbered from 1 in the order of their lines."""

    def __init__(self, box, *options, **keywords):
        self.box = box
        self.errors = open(box.path("tmp", f"omis{len(box.sessions)}.err"), "w+", encoding="utf-8", errors="replace")
        command = box.enter(box.scry("omis", "--json", *options), keywords)
        self.process = box.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, env=box.env,
                                 start_new_session=True, **box.identity, **keywords)
        self.sent = 0
        self.bytes = b""
        self.waiting = []  # replies that nobody has asked for yet

    @property
    def pid(self):
        return self.process.pid

    def node_of(self, _pid):
        """The token of the node that has a process."""
        return "n_1"

    def send(self, request):
        """Sends one line and returns its number."""
        if "\n" in request:
            raise ValueError("one request a line")
        self.process.stdin.write(request.encode("utf-8", "surrogateescape") + b"\n")
        self.process.stdin.flush()
        self.sent += 1
        return self.sent

    def _read_one(self, end):
        """The next reply from the pipe, None when the time is over."""
        while b"\n" not in self.bytes:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise AssertionError(f"scry omis ended with {self.process.wait()}: {self.stderr()}")
            self.bytes += more
        line, self.bytes = self.bytes.split(b"\n", 1)
        return Reply(json.loads(line))

    def reply(self, number=None, match=None, timeout=tapcases.TIMEOUT):
        """The next reply, of request `number` only if given, for which match(reply) holds if given. Who waits less than 3 s
        only looks whether there is one; all others wait."""
        def wanted(reply):
            return (number is None or reply.number == number) and (match is None or match(reply))

        for i, reply in enumerate(self.waiting):
            if wanted(reply):
                return self.waiting.pop(i)
        timeout = max(timeout, tapcases.TIMEOUT) if timeout >= 3 else timeout
        end = time.monotonic() + timeout * tapcases.SCALE
        while True:
            reply = self._read_one(end)
            if reply is None:
                raise AssertionError(f"no reply to request {number or '*'} within {timeout:g} s; unread: "
                                     f"{self.waiting!r}; standard error: {self.stderr()}")
            if wanted(reply):
                return reply
            self.waiting.append(reply)

    def request(self, request, timeout=tapcases.TIMEOUT):
        """Sends a request and returns its first reply."""
        return self.reply(self.send(request), timeout=timeout)

    def quiet(self, number, seconds=0.2):
        """Asserts that request `number` has no unread reply once everything sent before was answered, waiting
        `seconds` more for what the monitor does by itself."""
        self.request(': print(["quiet"])')
        end = time.monotonic() + seconds
        while True:
            reply = self._read_one(end)
            if reply is None:
                break
            self.waiting.append(reply)
        late = [reply for reply in self.waiting if reply.number == number]
        if late:
            raise AssertionError(f"unexpected replies to request {number}: {late!r}")

    def stderr(self):
        self.errors.flush()
        with open(self.errors.name, encoding="utf-8", errors="replace") as file:
            return file.read()

    def close(self, timeout=tapcases.TIMEOUT):
        """Ends the session as a person would, by end of file; returns the exit status."""
        if self.process.stdout.closed:
            return self.process.returncode
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        end = time.monotonic() + timeout * tapcases.SCALE
        while time.monotonic() < end and self.process.poll() is None:
            # It may have more to say than a pipe holds.
            if select.select([self.process.stdout], [], [], 0.02)[0] and not os.read(self.process.stdout.fileno(), 65536):
                try:
                    self.process.wait(max(0.1, end - time.monotonic()))
                except subprocess.TimeoutExpired:
                    pass
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()
        return self.process.returncode

    def kill(self):
        """Ends the tool as a crash would."""
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()
