# SPDX-License-Identifier: Apache-2.0
"""scry serve for jobs that are elsewhere: behind a broker, with keys; in a record, when their directory is gone."""

import contextlib
import json
import os
import shutil
import signal

import brokertest
import scrytest
import servetest


class Elsewhere(servetest.ServeCase):
    """The job is on a node that shares no directory with the server."""

    def setUp(self):
        super().setUp()
        self.node = scrytest.Sandbox()
        self.addCleanup(self.node.close)
        self.broker = brokertest.Mosquitto(self.node)
        self.addCleanup(self.broker.close)
        self.user = self.node.run(["id", "-un"]).stdout.strip()
        self.reader = self.broker.client("scry/v1/#")
        self.addCleanup(self.end_node)

    def end_node(self):
        """As if it burnt down: all that comes from the job, and its scry, at once."""
        for number in (signal.SIGSTOP, signal.SIGKILL):  # nobody says that another one has died
            for pid in self.node.processes():
                with contextlib.suppress(FileNotFoundError, ProcessLookupError), \
                        open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                    if file.read().strip() != "mosquitto":
                        os.kill(pid, number)

    def start_elsewhere(self, *command, keys=True):
        if keys:
            pem = self.node.path("tmp", "laptop.pem")
            for words in (["keys", "init"], ["keys", "issue", "--name", "laptop", "--rights", "observe,control", "-o", pem]):
                done = self.node.run(self.node.scry(*words))
                self.assertEqual(done.returncode, 0, done.stderr)
            place = self.box.path("home", ".config", "scry", "keys")
            os.makedirs(place, 0o700)
            shutil.copy(pem, os.path.join(place, "own.pem"))
        process = self.node.start(self.node.scry("run", "-q", "--broker", self.broker.tcp_url, "--sample", "0.1", "--name", "far", "--", *command))
        self.reader.wait(lambda: [m for m in self.reader.of("/state") if (json.loads(m.payload)["info"].get("command") or {}).get("pid")], 60)
        return process

    def serve(self, *arguments):
        server = servetest.Server(self.box, *arguments)
        server.log_in()
        return server

    def listed(self, server):
        """The only job, when the broker has told it."""
        return scrytest.wait_until(lambda: server.ask("api/jobs").json["jobs"], 60, "the job is listed")[0]["id"]

    def test_a_job_behind_a_broker(self):
        """It is listed, asked, followed while somebody looks, changed and ended; each change is recorded with the key's name."""
        process = self.start_elsewhere("sh", "-c", "sleep 1000; true")
        server = self.serve("--broker", self.broker.tcp_url)
        job = self.listed(server)
        for path in ("", "/report", "/why", "/files"):
            answer = server.ask(f"api/jobs/{job}{path}")
            self.assertEqual(answer.status, 200, (path, answer.body))
        events = servetest.Events(server, f"api/jobs/{job}/records")
        events.wait(lambda seen: [1 for _event, data, _id in seen if data and data["t"] > 2], "records come while somebody looks")
        answer = server.ask(f"api/jobs/{job}/set", "POST", {"sample": 0.2})
        self.assertEqual(answer.status, 204, answer.body)
        answer = server.ask(f"api/jobs/{job}/signal", "POST", {"signal": "TERM"})
        self.assertEqual(answer.status, 204, answer.body)
        self.assertEqual(process.wait(60), 128 + signal.SIGTERM)
        events.wait(lambda seen: seen and seen[-1][0] == "end", "the end of the job")
        asked = [data for event, data, _id in events.seen if event == "request"]
        self.assertEqual({data["who"] for data in asked}, {"laptop"})
        self.assertTrue([data for data in asked if data["request"] == ':job_send_signal("","page",15)' and data["status"] == "OMIS_OK"], asked)
        self.assertTrue([data for event, data, _id in events.seen if event == "setting" and data["key"] == "sample"])
        report = scrytest.wait_until(lambda: [answer for answer in [server.ask(f"api/jobs/{job}/report")] if b"laptop" in answer.body], 60,
                                     "the report says who ended it")
        self.assertEqual(report[0].status, 200)

    def test_without_a_key(self):
        """Whoever may read at the broker sees the job; changes say what is missing."""
        self.start_elsewhere("sleep", "1000", keys=False)
        server = self.serve("--broker", self.broker.tcp_url)
        job = self.listed(server)
        self.assertEqual(server.ask(f"api/jobs/{job}/report").status, 200)
        for path, body in (("set", {"sample": 1}), ("signal", {"signal": "TERM"})):
            answer = server.ask(f"api/jobs/{job}/{path}", "POST", body)
            self.assertEqual(answer.status, 422, answer.body)
            self.assertIn("key", answer.json["error"]["text"])

    @scrytest.hasten(4)
    def test_a_broker_that_is_gone(self):
        """The list has a note, jobs of this machine are shown, and what was known of the others is answered."""
        self.start_elsewhere("sleep", "1000", keys=False)
        server = self.serve("--broker", self.broker.tcp_url)
        job = self.listed(server)
        self.broker.stop()
        own = self.job("--", "true")
        listed = scrytest.wait_until(lambda: [said for said in [server.ask("api/jobs").json] if said.get("notes")], 60, "a note")[0]
        self.assertIn(own, [row["id"] for row in listed["jobs"]])
        self.assertIn(server.ask(f"api/jobs/{job}/report").status, (200, 422))
        self.assertEqual(server.ask("api/session").status, 200)

    def test_a_job_of_a_record(self):
        """When its directory is gone, the record answers; and says what a site knows."""
        record = self.box.path("tmp", "record")
        process = self.start_elsewhere("sh", "-c", "exit 3", keys=False)
        process.wait(60)
        done = self.box.run(self.box.scry("record", "--once", "-q", "--record", record, "--broker", self.broker.tcp_url))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.broker.stop()
        server = self.serve("--record", record)
        job = self.listed(server)
        server.end()
        server = self.serve("--record", record)  # nobody has asked this one for a list
        self.assertEqual(server.ask(f"api/jobs/{job}/report").json["exit_code"], 3)
        self.assertEqual(server.ask(f"api/jobs/{job}").status, 200)
        events = servetest.Events(server, f"api/jobs/{job}/records")
        events.wait(lambda seen: seen and seen[-1][0] == "end", "the end of the stream")
        self.assertGreater(len(events.seen), 3)
        self.assertEqual(server.ask(f"api/jobs/{job}/signal", "POST", {"signal": "TERM"}).status, 409)
        self.assertEqual(server.ask("api/site").json["jobs"], 1)
        self.assertEqual(server.ask("api/site?since=1h&owner=nobody-at-all").status, 200)
        self.assertEqual(server.ask("api/site?since=soon").status, 422)


scrytest.main()
