# SPDX-License-Identifier: Apache-2.0
"""scry serve: what it answers, how streams go on, what changes jobs."""

import gzip
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import unittest

import schematest
import scrytest
import servetest


class Serve(servetest.ServeCase):
    def assertAnswer(self, answer, status=200):
        self.assertEqual(answer.status, status, answer.body)
        return answer

    def test_answers_are_those_of_the_commands(self):
        """Lists, reports and comparisons are what the commands print, by their schemas."""
        job = self.job("--name", "one", "--", "true")
        other = self.job("--name", "two", "--", "sh", "-c", "exit 3")
        server = servetest.Server(self.box)
        server.log_in()
        self.assertEqual([row["id"] for row in self.assertAnswer(server.ask("api/jobs")).json["jobs"]], [other, job])
        self.assertEqual([row["id"] for row in server.ask("api/jobs?text=ONE").json["jobs"]], [job])
        self.assertEqual([row["id"] for row in server.ask(f"api/jobs?before={other}").json["jobs"]], [job])
        self.assertEqual([row["id"] for row in server.ask("api/jobs?limit=1&state=ended").json["jobs"]], [other])
        for path, name in ((f"api/jobs/{job}", "top"), (f"api/jobs/{job}/report", "report"), (f"api/jobs/{job}/why", "why"),
                           (f"api/compare?jobs={job},{other}", "report-diff"), ("api/jobs", "ps")):
            said = self.assertAnswer(server.ask(path)).json
            self.assertEqual(list(schematest.violations(said, schematest.schema(name))), [], path)
        printed = self.box.run(self.box.scry("report", "--json", job)).stdout
        self.assertEqual(server.ask(f"api/jobs/{other}/report").json["exit_code"], 3)
        self.assertEqual(server.ask(f"api/jobs/{job}/report").json["id"], json.loads(printed)["id"])
        self.assertEqual(self.assertAnswer(server.ask(f"api/jobs/{job}/picture")).json["lanes"], [])
        self.assertEqual(self.assertAnswer(server.ask("api/jobs/20200101T000000-no-1-aa"), 404).error, "unknown")
        self.assertEqual(self.assertAnswer(server.ask(f"api/jobs/{job}/snapshot"), 422).error, "failed")

    def test_what_did_not_change_is_not_sent_again(self):
        """Tags, gzip, HEAD."""
        job = self.job("--", "true")
        server = servetest.Server(self.box)
        server.log_in()
        plain = self.assertAnswer(server.ask(f"api/jobs/{job}/report"))
        self.assertEqual(server.ask(f"api/jobs/{job}/report", If_None_Match=plain.headers["etag"]).status, 304)
        packed = self.assertAnswer(server.ask(f"api/jobs/{job}/report", Accept_Encoding="br, gzip"))
        self.assertEqual(packed.headers["content-encoding"], "gzip")
        self.assertEqual(gzip.decompress(packed.body), plain.body)
        self.assertNotIn("content-encoding", server.ask(f"api/jobs/{job}/report", Accept_Encoding="gzip;q=0").headers)
        head = self.assertAnswer(server.ask(f"api/jobs/{job}/report", "HEAD"))
        self.assertEqual((head.body, head.headers["content-length"]), (b"", str(len(plain.body))))
        page = self.assertAnswer(server.ask(""))
        self.assertTrue(page.headers["content-type"].startswith("text/html"))
        self.assertEqual(server.ask("", If_None_Match=page.headers["etag"]).status, 304)

    def test_links_sessions_and_tokens(self):
        """A link lets in one browser, once, with its rights; a session can be ended; scripts have tokens; the socket needs none."""
        server = servetest.Server(self.box)
        self.assertEqual(server.ask("api/session").status, 401)
        token = server.link.partition("#token=")[2]
        first = self.assertAnswer(server.ask("api/session", "POST", {"token": token}))
        self.assertEqual(first.json["rights"], ["observe", "control", "submit", "site"])
        for word in ("HttpOnly", "SameSite=Strict"):
            self.assertIn(word, first.headers["set-cookie"])
        self.assertEqual(server.ask("api/session", "POST", {"token": token}).error, "token")
        self.assertEqual(server.log_in("observe").json["rights"], ["observe"])
        self.assertEqual(server.ask("api/jobs/x/set", "POST", {"stall": 1}).error, "rights")
        self.assertEqual(server.ask("api/site").error, "rights")
        self.assertAnswer(server.ask("api/session", "DELETE"), 204)
        self.assertEqual(server.ask("api/session").status, 401)
        bearer = server.token("--bearer", "--rights", "control")
        server.cookie = None
        second = self.box.run(self.box.scry("serve"))
        self.assertEqual(second.returncode, 1, "a second server ends, and the first one keeps its socket")
        self.assertIn("scry serve --link", second.stderr)
        self.assertEqual(server.ask("api/session", Authorization=f"Bearer {bearer}").json["rights"], ["observe", "control"])
        done = subprocess.run(["curl", "-s", "--unix-socket", self.box.path("run", "serve.sock"), "http://localhost/api/session"],
                              stdout=subprocess.PIPE, check=True, timeout=60)
        self.assertIn("site", json.loads(done.stdout)["rights"])
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(60), 0)
        self.assertFalse(os.path.exists(self.box.path("run", "serve.sock")))
        self.assertEqual(self.box.run(self.box.scry("serve", "--link")).returncode, 1)

    def test_the_socket_of_the_next_server_stays(self):
        """Somebody has cleaned up the socket of a server, and another one was started: it is reached also when the first one has ended."""
        first = servetest.Server(self.box)
        os.unlink(self.box.path("run", "serve.sock"))
        other = servetest.Server(self.box)
        first.process.terminate()
        first.process.wait(60)
        other.log_in()
        self.assertEqual(other.ask("api/session").status, 200)

    def test_records_come_once_and_in_order(self):
        """A stream that breaks goes on behind its last event, to the end of the job; so does one after the server was started again."""
        server = servetest.Server(self.box)
        server.log_in()
        process, job = self.start_job("--sample", "0.1", "--", "sh", "-c", "while ! test -e stop; do sleep 0.05; done")
        path = f"api/jobs/{job}/records"
        first = servetest.Events(server, path)
        seen = list(first.wait(lambda events: len(events) > 5, "records come"))
        first.close()
        second = servetest.Events(server, path, Last_Event_ID=seen[-1][2])
        seen += second.wait(lambda events: len(events) > 5, "records go on")
        second.close()
        server.process.kill()
        server.process.wait()
        server = servetest.Server(self.box)
        server.log_in()
        third = servetest.Events(server, path, Last_Event_ID=seen[-1][2])
        with open(self.box.path("work", "stop"), "w", encoding="ascii"):
            pass
        third.wait(lambda events: events and events[-1][0] == "end", "the end of the stream")
        process.wait(60)
        seen += third.seen
        with open(self.box.path("jobs", job, "spool", "records.jsonl"), encoding="utf-8") as file:
            spool = [json.loads(line) for line in file]
        self.assertEqual([data["seq"] for _event, data, _id in seen], [record["seq"] for record in spool])
        self.assertEqual([event for event, _data, _id in seen], [record["type"] for record in spool])
        self.assertTrue(all(data["job"] == job and data["stream"] for _event, data, _id in seen))
        some = servetest.Events(server, f"{path}?types=process,end")
        some.wait(lambda events: events and events[-1][0] == "end", "the end of the stream")
        self.assertEqual({event for event, _data, _id in some.seen}, {"process", "end"})

    def test_jobs_are_changed(self):
        """Settings go through scry set, and signals to the job."""
        server = servetest.Server(self.box)
        server.log_in()
        process, job = self.start_job("--", "sleep", "1000")
        scrytest.wait_until(lambda: server.ask(f"api/jobs/{job}/set", "POST", {"stall": 77}).status == 204, 60, "it is set")
        self.assertIn("expected seconds", server.ask(f"api/jobs/{job}/set", "POST", {"stall": "x"}).json["error"]["text"])
        self.assertEqual(server.ask(f"api/jobs/{job}/set", "POST", {"--help": "x"}).status, 400)
        self.assertEqual(server.ask(f"api/jobs/{job}/signal", "POST", {"signal": "WINCH"}).status, 400)
        self.assertAnswer(server.ask(f"api/jobs/{job}/signal", "POST", {"signal": "TERM"}), 204)
        self.assertEqual(process.wait(60), 128 + signal.SIGTERM)
        scrytest.wait_until(lambda: server.ask(f"api/jobs/{job}/signal", "POST", {"signal": "TERM"}).status == 409, 60, "it is over")
        self.assertRegex(self.why(job), r"^\w+ was killed by SIGTERM, because somebody asked for it on a page of scry$")

    def why(self, job):
        done = self.box.run(self.box.scry("report", "--json", job))
        return json.loads(done.stdout)["last"]["reason"]["text"]

    def test_who_signalled(self):
        """What a page sends is a record of the job, as for any tool: also a signal that cannot be caught. Without a monitor it is sent all
        the same."""
        server = servetest.Server(self.box)
        server.log_in()
        process, job = self.start_job("--", "sleep", "1000")
        scrytest.wait_until(lambda: server.ask(f"api/jobs/{job}/set", "POST", {"stall": 77}).status == 204, 60, "it is followed")
        self.assertAnswer(server.ask(f"api/jobs/{job}/signal", "POST", {"signal": "KILL"}), 204)
        self.assertEqual(process.wait(60), 128 + signal.SIGKILL)
        with open(self.box.path("jobs", job, "spool", "records.jsonl"), encoding="utf-8") as file:
            asked = [record for record in map(json.loads, file) if record["type"] == "request"][-1]
        self.assertEqual((asked["who"], asked["uid"], asked["status"]), ("scry", os.getuid(), "OMIS_OK"))
        self.assertEqual(asked["request"], f':job_send_signal("{self.box.path("jobs", job)}","page",9)')
        self.assertRegex(self.why(job), r"^\w+ was killed by SIGKILL, because somebody asked for it on a page of scry$")
        process, job = self.start_job("--", "sleep", "1000")
        scrytest.wait_until(lambda: server.ask(f"api/jobs/{job}/set", "POST", {"stall": 77}).status == 204, 60, "it is followed")
        pid = self.box.monitor_pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            self.assertAnswer(server.ask(f"api/jobs/{job}/signal", "POST", {"signal": "TERM"}), 204)
            self.assertEqual(process.wait(60), 128 + signal.SIGTERM)
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertIn("which came from scry-serve (pid ", self.why(job))

    @unittest.skipUnless(os.getuid() == 0, "only root can give a job directory to somebody else")
    def test_a_forged_job_sends_nothing_to_others(self):
        """Not even where the parent of one of its processes is somebody else's, as init is of those that have lost theirs."""
        job, name = self.job("--", "true"), "20250101T000000-x-1-aa"
        path = self.box.path("work", "drop", name)
        shutil.copytree(self.box.path("jobs", job), path)
        script = ("import os, sys; pid = os.fork()\n"
                  "if not pid: os.setgid(65534); os.setuid(65534); os.execve('/bin/sleep', ['sleep', '1000'], {'SCRY_JOB': sys.argv[1]})\n"
                  "print(pid, flush=True); os.waitpid(pid, 0)")
        parent = subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE, text=True)
        child = int(parent.stdout.readline())
        try:
            scrytest.wait_until(lambda: open(f"/proc/{child}/comm", encoding="utf-8").read() == "sleep\n", 60, "it is executed")
            with open(os.path.join(path, "job.json"), encoding="utf-8") as file:
                info = json.load(file)
            info = {key: value for key, value in info.items() if key != "result"}
            info.update(id=name, supervisor=self.process(parent.pid), command=self.process(child))
            with open(os.path.join(path, "job.json"), "w", encoding="utf-8") as file:
                json.dump(info, file)
            server = servetest.Server(self.box, "--jobs", os.path.dirname(path))
            server.log_in()
            server.ask("api/jobs")
            os.chown(path, 65534, 65534)
            refused = server.ask(f"api/jobs/{name}/signal", "POST", {"signal": "INT"})
            self.assertIn("a directory of others", refused.json["error"]["text"])
            self.assertIsNone(parent.poll())
            os.chown(path, 0, 0)
            self.assertAnswer(server.ask(f"api/jobs/{name}/signal", "POST", {"signal": "INT"}), 204)
            self.assertNotEqual(parent.wait(60), 0)
        finally:
            os.kill(child, signal.SIGKILL)
            parent.kill()
            parent.wait()
            parent.stdout.close()

    @staticmethod
    def process(pid):
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return {"pid": pid, "start_ticks": int(file.read().rsplit(")", 1)[1].split()[19])}

    def test_directories_from_elsewhere(self):
        """Jobs that were dropped into a directory are shown, whatever its name is; links that lead out of it are not, and that is said."""
        job = self.job("--", "true")
        source, drop = self.box.path("jobs", job), self.box.path("work", "drop")
        with open(os.path.join(source, "job.json"), encoding="utf-8") as file:
            info = json.load(file)

        def put(number, name, id_=None):
            place = os.path.join(drop, name) if isinstance(name, str) else os.path.join(os.fsencode(drop), name)
            shutil.copytree(source if isinstance(name, str) else os.fsencode(source), place)
            with open(os.path.join(place, "job.json" if isinstance(name, str) else b"job.json"), "w", encoding="utf-8") as file:
                json.dump({**info, "id": id_ or f"20240101T0000{number:02}-else-{number}-abc"}, file)
        hostile = ["results-of-monday", "-rf", "--help", "a\nb\t", "<script>alert(1)<b>", "x\"'%2e%2e&?#", "ü" * 120, "20240101T000000"]
        for number, name in enumerate(hostile):
            put(number, name)
        put(20, "twice", "20240101T000000-else-0-abc")
        put(21, "own", job)
        ids = ["../../etc/passwd", "<b>x</b>", "x" * 300, "a/b", ".."]
        for number, id_ in enumerate(ids):
            put(30, f"id-{number}", id_)
        put(40, b"\xff\xfe")
        os.symlink("twice", os.path.join(drop, "link"))  # the same directory, not a second one
        os.symlink(source, os.path.join(drop, "20240101T000000-evil-1-abc"))
        os.symlink(source, os.path.join(drop, "out"))
        os.symlink("loop", os.path.join(drop, "loop"))
        os.mkdir(os.path.join(drop, "none"))
        for name, path in (("pipe", None), ("zero", "/dev/zero")):
            os.mkdir(os.path.join(drop, name))
            if path:
                os.symlink(path, os.path.join(drop, name, "job.json"))
            else:
                os.mkfifo(os.path.join(drop, name, "job.json"))
        server = servetest.Server(self.box, "--jobs", drop)
        server.log_in()
        # by its id and by its name, though nobody has asked for a list
        self.assertEqual(self.assertAnswer(server.ask("api/jobs/results-of-monday/report")).json["id"], "20240101T000000-else-0-abc")
        listed = self.assertAnswer(server.ask("api/jobs")).json
        names = {os.path.basename(row["path"]): row["id"] for row in listed["jobs"]}
        self.assertEqual(set(names), {*hostile, "twice", "own", *(f"id-{number}" for number in range(len(ids))), job})
        self.assertEqual(len(set(names.values())), len(names))
        for name, id_ in names.items():
            said = self.assertAnswer(server.ask(f"api/jobs/{id_}/report")).json["id"]
            if name in hostile[1:] or name == job:
                self.assertEqual(said, id_, name)
        self.assertEqual([names["twice"], names["own"][:len(job) + 1]], ["20240101T000000-else-0-abc", f"{job}."])
        notes = "\n".join(listed["notes"])
        for text in ("/out is left out", "no UTF-8", f"/own is a second directory of the job {job}", "/id-0 has no id"):
            self.assertIn(text, notes)
        self.assertEqual(server.ask("api/jobs/20240101T000000-evil-1-abc/report").status, 404)
        server.end()
        again = servetest.Server(self.box, "--jobs", drop)
        again.log_in()
        self.assertEqual(again.ask(f"api/jobs/{names['own']}/report").status, 200)

    def test_directories_that_are_none(self):
        """What is to be shown and is not there is said at once."""
        for path in ("/nonexistent", "/etc/passwd"):
            done = self.scry("serve", "--jobs", path, status=1)
            self.assertIn(path, done.stderr)

    def test_records_of_several_nodes_go_on(self):
        """Each part goes on where it was, whatever the order in which records came."""
        name = "20250101T000000-x-1-aa"
        spools = self.fake_job(name, "node1", "node2")
        server = servetest.Server(self.box, "--jobs", self.box.path("work", "drop"))
        server.log_in()
        seen, last = [], None
        for turn in range(4):
            headers = {"Last_Event_ID": last} if last else {}
            events = servetest.Events(server, f"api/jobs/{name}/records?types=warning", **headers)
            for number, spool in enumerate(spools):
                for seq in range(1 + 10 * turn, 1 + 10 * turn + number + turn):
                    spool.write(json.dumps({"seq": seq, "t": 100.0 * number + seq, "type": "warning", "kind": "x", "text": "y"}) + "\n")
            due = sum(number + turn for number in range(len(spools)))
            events.wait(lambda got, due=due: len(got) >= due, f"records of turn {turn}")
            events.close()
            self.assertEqual(len(events.seen), due)
            seen += events.seen
            last = seen[-1][2]
            if turn == 2:
                server.process.kill()
                server.process.wait()
                server = servetest.Server(self.box, "--jobs", self.box.path("work", "drop"))
                server.log_in()
        places = [(data["node"], data["seq"]) for _event, data, _id in seen]
        self.assertEqual(len(set(places)), len(places))

    def test_records_of_a_node_whose_clock_is_ahead(self):
        """They stand among the others by the job's clock."""
        name = "20250101T000000-x-1-aa"
        own, part = self.fake_job(name, "node1")
        with open(self.box.path("work", "drop", name, "parts", "node1", "clock.json"), "w", encoding="utf-8") as file:
            json.dump({"offset_ns": 50 * 10**9, "bound_ns": 1000, "at_ns": 0}, file)
        for spool, seq, t in ((own, 1, 10), (part, 1, 70), (own, 2, 30)):
            spool.write(json.dumps({"seq": seq, "t": t, "type": "warning", "kind": "x", "text": "y"}) + "\n")
        server = servetest.Server(self.box, "--jobs", self.box.path("work", "drop"))
        server.log_in()
        events = servetest.Events(server, f"api/jobs/{name}/records?types=warning")
        seen = events.wait(lambda got: len(got) >= 3, "all records")
        self.assertEqual([(data["node"], data["seq"]) for _event, data, _id in seen], [("node0", 1), ("node1", 1), ("node0", 2)])
        events.close()

    @scrytest.thorough
    def test_who_is_slow_is_skipped_forward(self):
        """One that does not read holds up nobody, and is told how many records were left out."""
        name, count = "20250101T000000-x-1-aa", 60000
        spool, = self.fake_job(name)
        server = servetest.Server(self.box, "--jobs", self.box.path("work", "drop"))
        server.log_in()
        slow = socket.create_connection(("127.0.0.1", server.port), servetest.TIMEOUT)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
        slow.sendall(f"GET /api/jobs/{name}/records HTTP/1.1\r\nHost: {server.host}\r\nCookie: {server.cookie}\r\n\r\n".encode())
        self.assertIn(b"200", slow.recv(1000))
        quick = servetest.Events(server, f"api/jobs/{name}/records")
        spool.reconfigure(line_buffering=False)
        for seq in range(1, count + 1):
            spool.write(json.dumps({"seq": seq, "t": seq / 1000, "type": "warning", "kind": "x", "text": "y" * 300}) + "\n")
        spool.flush()
        quick.wait(lambda got: got and got[-1][1].get("seq") == count, "who reads gets the last one")
        got = b""
        while f'"seq":{count},'.encode() not in got:
            more = slow.recv(1 << 20)
            self.assertTrue(more, got[-300:])
            got += more
        slow.close()
        lost = sum(int(number) for number in re.findall(rb'event: lost\ndata: \{"records":(\d+)\}', got))
        numbers = [int(number) for number in re.findall(rb'data: \{"seq":(\d+),', got)]
        self.assertGreater(lost, 0)
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertLessEqual(len(numbers) + lost, count + 1)
        self.assertGreaterEqual(len(numbers) + lost, count)

    @scrytest.thorough
    def test_pages_of_the_list(self):
        """Asked for piece by piece, the list is the same as at once: no job twice, none left out, the latest first."""
        first = self.job("--", "true")
        with open(self.box.path("jobs", first, "job.json"), encoding="utf-8") as file:
            info = json.load(file)
        for number in range(300):
            name = f"20250101T00{number // 60:02}{number % 60:02}-x-{number}-aa"
            shutil.copytree(self.box.path("jobs", first), self.box.path("jobs", name))
            with open(self.box.path("jobs", name, "job.json"), "w", encoding="utf-8") as file:
                json.dump({**info, "id": name}, file)
        server = servetest.Server(self.box)
        server.log_in()
        whole = [row["id"] for row in server.ask("api/jobs").json["jobs"]]
        self.assertEqual(len(set(whole)), 301)
        seen = []
        while len(seen) < 301:
            rows = self.assertAnswer(server.ask("api/jobs?limit=70" + (f"&before={seen[-1]}" if seen else ""))).json["jobs"]
            self.assertTrue(rows)
            seen += [row["id"] for row in rows]
        self.assertEqual(seen, whole)
        self.assertEqual(server.ask(f"api/jobs?limit=70&before={seen[-1]}").json["jobs"], [])
        self.assertEqual(server.ask("api/jobs?limit=x").status, 400)

    def test_a_job_that_is_removed_while_watched(self):
        """Its stream ends, questions say that there is no such job, and others are answered."""
        name = "20250101T000000-x-1-aa"
        spool, = self.fake_job(name)
        server = servetest.Server(self.box, "--jobs", self.box.path("work", "drop"))
        server.log_in()
        events = servetest.Events(server, f"api/jobs/{name}/records")
        spool.write(json.dumps({"seq": 1, "t": 1, "type": "warning", "kind": "x", "text": "y"}) + "\n")
        events.wait(lambda seen: len(seen) == 2, "a record")
        shutil.rmtree(self.box.path("work", "drop", name))
        events.wait(lambda seen: seen[-1][0] == "end", "the end of the stream")
        for path in ("", "/records", "/report", "/picture", "/files"):
            self.assertEqual(server.ask(f"api/jobs/{name}{path}").error, "unknown", path)
        self.assertEqual(len(server.ask("api/jobs").json["jobs"]), 1)

    def test_damaged_directories(self):
        """Whatever lies in a directory of others, each route has an answer; what is wrong is an error of one line."""
        drop = self.box.path("work", "drop")
        job = self.job("--", "true")
        damages = {"empty": b"", "cut": b'{"id": "x", "started', "other": b"[1, 2]", "deep": b"[" * 100000, "bytes": bytes(range(256)) * 40,
                   "wrong": b'{"id": 7, "started_ns": "x", "argv": {"a": 1}, "host": [], "state": -1}'}
        for name, text in damages.items():
            shutil.copytree(self.box.path("jobs", job), os.path.join(drop, name))
            with open(os.path.join(drop, name, "job.json"), "wb") as file:
                file.write(text)
        for name, text in (("spool", b"\0" * 5000 + b'{"seq":'), ("lines", b'{"seq": 1}\n[]\n7\n{"type": 3, "t": "x"}\n' * 50)):
            shutil.copytree(self.box.path("jobs", job), os.path.join(drop, name))
            with open(os.path.join(drop, name, "spool", "records.jsonl"), "wb") as file:
                file.write(text)
        os.makedirs(os.path.join(drop, "fifo"))
        os.mkfifo(os.path.join(drop, "fifo", "job.json"))
        server = servetest.Server(self.box, "--jobs", drop)
        server.log_in()
        self.assertIn(job, [row["id"] for row in self.assertAnswer(server.ask("api/jobs")).json["jobs"]])
        for name in [*damages, "spool", "lines", "fifo"]:
            for path in ("", "/report", "/why", "/picture", "/profile", "/tree", "/files", "/records"):
                answer = server.ask(f"api/jobs/{name}{path}", Range=None)
                self.assertIn(answer.status, (200, 404, 422), (name, path, answer.body))
                if answer.status != 200:
                    self.assertNotIn("\n", answer.json["error"]["text"].rstrip("\n"), (name, path))
        self.assertEqual(server.ask("api/session").status, 200)

    def test_files_can_be_taken_away(self):
        """The list, one file, a part of it, and all as an archive that tar unpacks."""
        job = self.job("--name", "taken", "--", "true")
        deep = self.box.path("jobs", job, *["d" * 60] * 3)
        os.makedirs(deep)
        with open(os.path.join(deep, "long"), "wb") as file:
            file.write(bytes(range(256)) * 400)
        with open(self.box.path("jobs", job, "..odd"), "wb") as file:
            file.write(b"odd")
        os.symlink("/etc/passwd", self.box.path("jobs", job, "link"))
        server = servetest.Server(self.box)
        server.log_in()
        files = {file["path"]: file["size_bytes"] for file in self.assertAnswer(server.ask(f"api/jobs/{job}/files")).json["files"]}
        self.assertNotIn("link", files)
        self.assertEqual(files["/".join(["d" * 60] * 3) + "/long"], 102400)
        whole = self.assertAnswer(server.ask(f"api/jobs/{job}/files/job.json"))
        with open(self.box.path("jobs", job, "job.json"), "rb") as file:
            self.assertEqual(whole.body, file.read())
        self.assertEqual(whole.headers["content-disposition"], "attachment")
        part = self.assertAnswer(server.ask(f"api/jobs/{job}/files/job.json", Range="bytes=3-9"), 206)
        self.assertEqual(part.body, whole.body[3:10])
        self.assertEqual(self.assertAnswer(server.ask(f"api/jobs/{job}/files/job.json", Range="bytes=-4"), 206).body, whole.body[-4:])
        self.assertAnswer(server.ask(f"api/jobs/{job}/files/job.json", Range="bytes=999999-"), 416)
        for path in ("link", "../job.json", "%2e%2e/job.json", "spool", ""):
            self.assertEqual(server.ask(f"api/jobs/{job}/files/{path}").status, 404, path)
        archive = self.assertAnswer(server.ask(f"api/jobs/{job}/files.tar"))
        with tarfile.open(fileobj=io.BytesIO(archive.body)) as tar:
            self.assertEqual({member.name: member.size for member in tar}, {f"{job}/{path}": size for path, size in files.items()})
            self.assertEqual(tar.extractfile(f"{job}/" + "/".join(["d" * 60] * 3) + "/long").read(), bytes(range(256)) * 400)
            self.assertEqual(tar.extractfile(f"{job}/..odd").read(), b"odd")
        self.assertEqual(subprocess.run(["tar", "-tf", "-"], input=archive.body, capture_output=True, timeout=60, check=True).stderr, b"")

    def test_the_api_is_as_documented(self):
        """doc/reference/api.json has the paths of the table, their methods and arguments, and no others."""
        done = self.box.run([self.box.path("libexec", "scry-serve"), "--routes"])
        with open(os.path.join(scrytest.SOURCE, "doc", "reference", "api.json"), encoding="utf-8") as file:
            api = json.load(file)
        documented = {}
        for path, methods in api["paths"].items():
            for method, rule in methods.items():
                if method == "parameters":
                    continue
                pattern = re.sub(r"\{[^}]*\}", "*", path.lstrip("/").replace("{file}", "**"))
                arguments = sorted(rule_of["name"] for rule_of in rule.get("parameters", []) if rule_of.get("in") == "query")
                documented[method, pattern] = (arguments, rule.get("security") != [])
        routes = {}
        for line in done.stdout.splitlines():
            method, path, arguments, session = line.split("\t")
            if path != "*":
                routes[method, path] = (sorted(arguments.split()), session == "session")
        self.assertEqual(routes, documented)


scrytest.main()
