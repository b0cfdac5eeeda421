# SPDX-License-Identifier: Apache-2.0
"""What scry run and scry publish send to a broker, read by a stock client as doc/reference/broker.md has it, and what
becomes of it in bad times."""

import base64
import collections
import json
import os
import re
import re
import signal
import time

import brokertest
import jobtest
import schematest
import scrytest


def level(text):
    return re.sub("[^A-Za-z0-9-]", lambda byte: f"_{ord(byte[0]):02x}", text) or "_"


class PublishCase(jobtest.JobCase):
    def setUp(self):
        super().setUp()
        self.broker = brokertest.Mosquitto(self.box)
        self.addCleanup(self.broker.close)
        self.reader = self.broker.client("scry/v1/#")
        self.owner = self.box.run(["id", "-un"]).stdout.strip()
        self.addCleanup(self.end_publishers)

    def end_publishers(self):
        """What was left behind would go on for a minute."""
        for pid in self.box.processes("scry-publisher"):
            os.kill(pid, signal.SIGKILL)

    def run_job(self, *command, status=0, options=(), **keywords):
        done = self.scry_run("--broker", self.broker.url, *options, "--", *command, **keywords)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def directory(self):
        [job] = self.box.run(["sh", "-c", f"ls -d {self.box.path('jobs')}/2*"]).stdout.split()[-1:]
        return job

    def spool(self, job=None):
        with open(os.path.join(job or self.directory(), "spool", "records.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def records(self, reader=None, name=None):
        """What came, in the order in which it came, as (topic's last level, record)."""
        found = []
        for message in list((reader or self.reader).messages):
            parts = message.topic.split("/")
            if len(parts) == 5 and parts[4] not in ("state", "beat", "file", "ask"):
                found += [(parts[4], json.loads(line), message.qos) for line in message.payload.splitlines()]
        return [each for each in found if name in (None, each[0])]

    def last(self, name, reader=None):
        found = (reader or self.reader).of("/" + name)
        return json.loads(found[-1].payload) if found else {}

    def wait_complete(self, timeout=20):
        self.reader.wait(lambda: self.last("state").get("complete"), timeout)

    def assertAllThere(self, job=None):
        """Each record of the spool came, once or more, as it is there."""
        spool = self.spool(job)
        got = {record["seq"]: record for _, record, _ in self.records()}
        self.assertEqual(sorted(got), [record["seq"] for record in spool])
        for record in spool:
            self.assertEqual({key: got[record["seq"]][key] for key in record}, record)

    def publisher(self):
        """The process that publishes for a scry run of the sandbox. Its name is one that pkill scry spares."""
        def find():
            for pid in self.box.processes("scry-publisher"):
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if file.read() == b"job-publisher\0":
                        return pid
            return None
        return scrytest.wait_until(find, 20, "a publisher")

    @staticmethod
    def cpu_ticks(pid):
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def start_job(self, script, *options, url=None, **keywords):
        """A job that ends when the file `go` is there."""
        job = self.start_run("--broker", url or self.broker.url, "-o", self.box.path("work", "job"), *options, "--",
                             "sh", "-c", script, **keywords)
        scrytest.wait_until(lambda: os.path.exists(self.box.path("work", "job", "job.json")), 20, "the job")
        return job

    def go(self):
        with open(self.box.path("work", "go"), "w", encoding="ascii"):
            pass


WAITS = "while ! [ -e go ]; do sleep 0.05; done"


class Reference(PublishCase):
    def test_records(self):
        """Each record is complete and as the schema has it, in the topic of its stream; figures have QoS 0."""
        done = self.run_job("sh", "-c", "for i in 1 2 3; do ls >/dev/null; sleep 0.1; done; exit 3", status=3,
                            options=("--sample", "0.05"))
        self.assertIn(f"scry: published at {self.broker.url}//{self.owner}/", done.stderr)
        self.assertNotIn("warning", done.stderr)
        self.wait_complete(5)  # scry run has waited until the broker had it
        self.assertAllThere()
        schema = schematest.schema("records")
        orders = collections.defaultdict(list)
        for name, record, qos in self.records():
            self.assertEqual(list(schematest.violations(record, schema)), [])
            self.assertLessEqual({"job", "node", "stream", "seq", "t", "type"}, set(record))
            self.assertEqual(name, record["stream"])
            self.assertEqual(qos, 0 if record["type"] in ("sample", "health") else 1, record["type"])
            orders[name].append(record["seq"])
        for name, order in orders.items():
            self.assertEqual(order, sorted(set(order)), name)

    @scrytest.hasten(4)
    def test_state_and_beat_and_files(self):
        self.run_job("sh", "-c", "exit 3", status=3)
        job = os.path.basename(self.directory())
        topic = f"scry/v1/{level(self.owner)}/{level(job)}"
        self.reader.wait(lambda: self.reader.messages)  # the job may be over before the first of them is here
        self.assertEqual({message.topic.rsplit("/", 1)[0] for message in self.reader.messages}, {topic})
        self.reader.wait(lambda: not self.last("beat")["connected"])  # it stays a moment for readers
        late = self.broker.client("scry/v1/#")
        late.wait(lambda: len(late.messages) >= 2)
        self.assertEqual({(message.topic, message.retain) for message in late.messages},
                         {(topic + "/state", True), (topic + "/beat", True)})
        with open(os.path.join(self.directory(), "job.json"), encoding="utf-8") as file:
            info = json.load(file)
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot_id = file.read().strip()
        self.assertEqual(self.last("state", late),
                         {"version": 1, "job": job, "owner": self.owner, "node": info["host"], "state": "failed", "info": info,
                          "dir": self.directory(), "boot_id": boot_id, "last_seq": self.spool()[-1]["seq"], "address": None,
                          "watched": True, "complete": True})
        beat = self.last("beat", late)
        self.assertEqual((beat["connected"], beat["last_seq"]), (False, self.spool()[-1]["seq"]))
        self.assertLess(abs(beat["time"] - time.time()), 60)
        first = json.loads(self.reader.of("/beat")[0].payload)
        self.assertEqual((first["connected"], first["beat"], first["lease_seconds"]), (True, 1, 15))
        files = {}
        for message in self.reader.of("/file"):
            part = json.loads(message.payload)
            self.assertEqual((part["part"], part["parts"]), (0, 1))
            files[part["path"]] = part["text"]
        for name in ("job.json", "report.txt"):
            with open(os.path.join(self.directory(), name), encoding="utf-8") as file:
                self.assertEqual(files[name], file.read())

    def test_states(self):
        for script, state in (("true", "finished"), ("exit 1", "failed"), ("kill -SEGV $$", "crashed"),
                              ("kill -KILL $$", "killed")):
            self.scry_run("--broker", self.broker.url, "--", "sh", "-c", script)
            self.wait_complete()
            self.assertEqual(self.last("state")["state"], state)

    def test_ask_again(self):
        """A reader that came late asks for what it lacks, and gets this and no more."""
        job = self.start_job(WAITS, "--sample", "0.05")
        self.reader.wait(lambda: len(self.records(name="node")) > 5)
        topic = self.reader.of("/state")[0].topic[:-len("/state")]
        late = self.broker.client(topic + "/again/+/+")
        late.publish(topic + "/ask", json.dumps({"reader": "r1", "from": 2, "to": 5, "files": True}))
        late.wait(lambda: late.of("/again/r1/end"))
        records = [json.loads(line) for message in late.of("/r1/records") for line in message.payload.splitlines()]
        self.assertEqual([record["seq"] for record in records], [2, 3, 4])
        self.assertEqual({record["job"] for record in records}, {self.last("state")["job"]})
        end = json.loads(late.of("/r1/end")[0].payload)
        self.assertEqual((end["from"], end["to"]), (2, 5))
        self.assertEqual([json.loads(message.payload)["path"] for message in late.of("/r1/file")], ["job.json"])
        for wrong in (b"", b"{", b"[]", b'{"reader": "../x", "from": 0}', b"\xff" * 5000):
            late.publish(topic + "/ask", wrong)
        for number in range(200):  # too many: some are dropped
            late.publish(topic + "/ask", json.dumps({"reader": f"x{number}", "from": 0, "to": -1}), qos=0)
        late.publish(topic + "/ask", json.dumps({"reader": "r2", "from": 0, "to": -1}))
        late.wait(lambda: late.of("/again/x0/end"))
        self.go()
        self.assertEqual(job.wait(20), 0)
        self.wait_complete()

    def test_names_with_any_bytes(self):
        os.mkdir(self.box.path("work", "a/b".replace("/", "\u00e4 #+\n")))
        self.run_job("sh", "-c", "printf 'error: \\377\\033[1m\\n' >&2", "\udcff\x1b[31m", options=(
            "--name", "n\u00e4me #/+ \u202e", "-o", self.box.path("work", "j \u00e4#+"), "--log-patterns", "all"))
        self.wait_complete()
        self.assertEqual(self.last("state")["info"]["name"], "n\u00e4me #/+ \u202e")
        self.assertAllThere(self.box.path("work", "j \u00e4#+"))

    def test_owner_of_the_url(self):
        self.scry_run("--broker", f"{self.broker.url}//a.b", "--", "true")
        self.wait_complete()
        self.assertTrue(self.reader.of("/state")[0].topic.startswith("scry/v1/a_2eb/"))
        self.assertEqual(self.last("state")["owner"], "a.b")

    def test_many_and_large_files(self):
        job = self.start_job(f"mkdir -p $SCRY_JOB/stats/n; head -c 700000 /dev/urandom > $SCRY_JOB/stats/n/large; "
                             f"mkdir $SCRY_JOB/trace; echo secret > $SCRY_JOB/trace/x; ln -s /etc/passwd $SCRY_JOB/stats/n/link")
        self.assertEqual(job.wait(20), 0)
        self.wait_complete()
        parts = [part for part in map(lambda message: json.loads(message.payload), self.reader.of("/file"))
                 if part["path"] == "stats/n/large"]
        parts = [part for part in parts if part["version"] == parts[-1]["version"]]
        self.assertEqual([part["part"] for part in parts], list(range(parts[0]["parts"])))
        with open(self.box.path("work", "job", "stats", "n", "large"), "rb") as file:
            self.assertEqual(b"".join(base64.b64decode(part["base64"]) for part in parts), file.read())
        names = {json.loads(message.payload)["path"] for message in self.reader.of("/file")}
        self.assertEqual(names, {"job.json", "report.txt", "stats/n/large"})

    def test_publish_afterwards(self):
        self.scry_run("--", "sh", "-c", "exit 2")
        self.assertEqual(self.reader.messages, [])
        done = self.scry("publish", "--broker", self.broker.url, "@last")
        self.assertRegex(done.stderr, r"scry: published \d+ records and 2 files")
        self.wait_complete()
        self.assertAllThere()
        self.assertEqual(self.last("state")["state"], "failed")

    def test_publish_what_is_not_here(self):
        for job in ("nowhere", f"{self.broker.url}//me/job"):
            done = self.box.run(self.box.scry("publish", "--broker", self.broker.url, job))
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r"\A[^\n]+\n\Z")
        self.assertEqual(self.box.run(self.box.scry("publish", "--broker", "x", "@last")).returncode, 2)
        self.assertEqual(self.box.run(self.box.scry("publish", "@last")).returncode, 2)

    def test_publish_old_directory(self):
        """One of another node and an earlier time, without a report: its scry run was killed."""
        self.scry_run("--", "true")
        path = os.path.join(self.directory(), "job.json")
        with open(path, encoding="utf-8") as file:
            info = json.load(file)
        del info["result"]
        info["boot_id"] = "00000000-0000-0000-0000-000000000000"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(info, file)
        os.unlink(os.path.join(self.directory(), "report.txt"))
        self.scry("publish", "--broker", self.broker.url, "@last")
        self.wait_complete()
        self.assertEqual(self.last("state")["state"], "lost")
        self.assertAllThere()


class Secrets(PublishCase):
    def test_password_is_nowhere(self):
        """Neither in what the job sees, nor in the list of processes, nor in the job directory, nor in what is printed."""
        url = f"mqtt://joe:pass-marker@127.0.0.1:{self.broker.port}"
        script = f"env; cat /proc/$PPID/cmdline /proc/$PPID/environ; {WAITS}"
        for options, env in ((("--broker", url), None), ((), {"SCRY_BROKER": url})):
            job = self.start_run(*options, "--", "sh", "-c", script, env=env, stderr=-2)
            pid = self.publisher()
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                self.assertNotIn(b"marker", file.read())
            self.go()
            said = job.communicate(timeout=30)[0]
            self.assertNotIn("marker", said)
            self.assertNotRegex(said, r"(?m)^SCRY_BROKER=.")
            self.assertIn("published at mqtt://joe@127.0.0.1", said)
            os.unlink(self.box.path("work", "go"))
        self.assertEqual(self.box.run(["grep", "-r", "marker", self.box.path("jobs")]).returncode, 1)

    def test_wrong_word(self):
        for word, reason in (("nonsense", "mqtt://HOST"), ("mqtt://h/me/job", "leave out the job"), ("@nowhere", "nowhere")):
            done = self.scry_run("--broker", word, "--", "echo", "ran")
            self.assertEqual((done.returncode, done.stdout), (125, ""))
            self.assertRegex(done.stderr, rf"\A[^\n]*{reason}[^\n]*\n\Z")


class BadTimes(PublishCase):
    def test_publisher_killed(self):
        """The broker says by the last will that it is gone; another one goes on where it was."""
        job = self.start_job(WAITS, "--sample", "0.05")
        self.reader.wait(lambda: len(self.records(name="node")) > 3)
        first = self.publisher()
        os.kill(first, signal.SIGKILL)
        self.reader.wait(lambda: any(not json.loads(message.payload)["connected"] for message in self.reader.of("/beat")))
        self.reader.wait(lambda: self.last("beat")["connected"])
        self.assertNotEqual(self.publisher(), first)
        self.go()
        self.assertEqual(job.wait(20), 0)
        self.wait_complete()
        self.assertAllThere(self.box.path("work", "job"))

    def test_publisher_killed_again_and_again(self):
        job = self.start_job(WAITS, stderr=-1)
        for killed in range(1, 4):
            self.reader.wait(lambda: self.last("beat").get("connected"))
            os.kill(self.publisher(), signal.SIGKILL)
            # all of them: the next one's may have come already
            self.reader.wait(lambda: sum(not json.loads(message.payload)["connected"] for message in self.reader.of("/beat")) >= killed)
        self.go()
        self.assertIn("ended again and again", job.communicate(timeout=20)[1])
        self.assertEqual(job.returncode, 0)

    def test_signals_are_for_the_job(self):
        """A batch system sends SIGTERM to all processes: the last records are published."""
        job = self.start_job(f"trap 'echo caught; exit 9' TERM; {WAITS}")
        self.reader.wait(lambda: self.records(name="process"))
        publisher = self.publisher()
        for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU):
            os.kill(publisher, sig)
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.communicate(timeout=20)[0], "caught\n")
        self.wait_complete()
        self.assertEqual((self.last("state")["state"], self.last("state")["info"]["result"]["exit_code"]), ("failed", 9))
        self.assertAllThere(self.box.path("work", "job"))

    @scrytest.hasten(4)
    def test_scry_run_killed(self):
        """The job goes on unwatched, and this is said; when it has ended, its result is not known."""
        job = self.start_job(WAITS)
        self.reader.wait(lambda: self.records(name="process"))
        self.assertTrue(self.last("state")["watched"])
        job.kill()
        job.wait()
        self.reader.wait(lambda: not self.last("state")["watched"])
        self.assertEqual(self.last("state")["state"], "running")
        self.go()
        self.wait_complete()
        self.assertEqual(self.last("state")["state"], "lost")
        scrytest.wait_until(lambda: not self.last("beat")["connected"], 20, "the publisher's end")

    def test_broker_away_at_the_start(self):
        self.broker.stop()
        job = self.start_job(WAITS, "--sample", "0.05", stderr=-1)
        scrytest.wait_until(lambda: len(self.spool(self.box.path("work", "job"))) > 5, 20, "records")
        before, (publisher,) = len(self.reader.granted), self.box.processes("scry-publisher")
        os.kill(publisher, signal.SIGSTOP)  # until the reader is back: it is no scry watch, which would ask for the rest
        self.broker.start()
        self.reader.wait(lambda: len(self.reader.granted) > before, 30)
        os.kill(publisher, signal.SIGCONT)
        self.reader.wait(lambda: self.last("beat").get("connected"), 30)
        self.go()
        said = job.communicate(timeout=30)[1]
        self.wait_complete()
        self.assertNotIn("not published", said)
        self.assertAllThere(self.box.path("work", "job"))

    def test_outage_in_the_middle(self):
        job = self.start_job(WAITS, "--sample", "0.02")
        for _ in range(2):
            count = len(self.records())
            self.reader.wait(lambda: len(self.records()) > count + 10, 30)
            self.broker.stop(signal.SIGKILL)
            at = len(self.spool(self.box.path("work", "job")))
            scrytest.wait_until(lambda: len(self.spool(self.box.path("work", "job"))) > at + 20, 20, "records")
            self.broker.start()
            scrytest.wait_until(self.reader.mqtt.is_connected, 20, "the reader is back")
        self.reader.wait(lambda: self.last("beat").get("connected"), 30)
        self.go()
        self.assertEqual(job.wait(30), 0)
        self.wait_complete()
        # What the broker got while this reader was away was for nobody: it asks again, as any reader does.
        spool = {record["seq"] for record in self.spool(self.box.path("work", "job"))}
        self.assertEqual({record["seq"] for _, record, _ in self.records() if record["seq"] not in spool}, set())
        self.assertIn(max(spool), {record["seq"] for _, record, _ in self.records()})

    @scrytest.hasten(4)
    def test_broker_gone_for_good(self):
        """The job ends as without; what is not published is said, and sent later."""
        job = self.start_job(WAITS, stderr=-1)
        self.reader.wait(lambda: self.records(name="process"))
        self.broker.stop(signal.SIGKILL)
        self.go()
        start = time.monotonic()
        said = job.communicate(timeout=30)[1]
        self.assertLess(time.monotonic() - start, scrytest.room(8))
        self.assertEqual(job.returncode, 0)
        self.assertRegex(said, r"scry: [1-9]\d* of \d+ records are not published[ :]")
        self.broker.start()
        scrytest.wait_until(self.reader.mqtt.is_connected, 20, "the reader is back")
        self.wait_complete(40)  # the one that was left behind

    @scrytest.hasten(4)
    def test_broker_stopped(self):
        """One that does not answer any more (SIGSTOP) keeps nobody waiting, and gets the rest when it goes on."""
        job = self.start_job(f"{WAITS}; i=0; while [ $i -lt 300 ]; do true & i=$((i+1)); done; wait", stderr=-1)
        self.reader.wait(lambda: self.records(name="process"))
        publisher = self.publisher()
        self.broker.pause()
        self.go()
        start, cpu = time.monotonic(), self.cpu_ticks(publisher)
        said = job.communicate(timeout=40)[1]
        self.assertLess(self.cpu_ticks(publisher) - cpu, 30, "it waits")
        self.assertLess(time.monotonic() - start, scrytest.room(15))
        self.assertEqual(job.returncode, 0)
        self.assertRegex(said, r"records are not published")
        self.broker.resume()
        self.wait_complete(40)
        self.assertAllThere(self.box.path("work", "job"))

    def test_broker_that_is_another(self):
        """Its certificate is of another authority, or of another name: that is said at once, by whoever publishes and reads."""
        tls, other, elsewhere = (brokertest.Certificates(self.box, name) for name in ("tls", "other", "elsewhere"))
        elsewhere.issue("server", "subjectAltName=DNS:elsewhere.example")
        os.mkfifo(self.box.path("work", "go"))
        with brokertest.Mosquitto(self.box, "first", tls=tls) as one, brokertest.Mosquitto(self.box, "second", tls=elsewhere) as two:
            for number, url in enumerate((one.tcp_url.replace(tls.place, other.place), two.tcp_url)):
                begun = time.monotonic()
                for words in (("ps", url), ("watch", f"{url.partition('?')[0]}/me/job?{url.partition('?')[2]}")):
                    done = self.box.run(self.box.scry(*words))
                    self.assertEqual(done.returncode, 1)
                    self.assertRegex(done.stderr, "verif|certificate")
                self.assertLess(time.monotonic() - begun, scrytest.room(8))
                run = self.start_run("-q", "--name", f"run{number}", "--broker", url, "--", "sh", "-c",
                                     f"read line <{self.box.path('work', 'go')}")
                begun = time.monotonic()
                scrytest.wait_until(lambda: re.search("is not published at .*(verif|certificate)", self.box.run(
                    self.box.scry("report", f"run{number}")).stdout), 20, "the warning comes while the job runs")
                self.assertIsNone(run.poll())
                self.assertLess(time.monotonic() - begun, scrytest.room(20))  # not after half a minute
                with open(self.box.path("work", "go"), "w", encoding="ascii") as file:
                    file.write("go\n")
                run.wait(40)

    def test_broker_refuses(self):
        other = brokertest.Mosquitto(self.box, "strict", users={"joe": "right"})
        self.addCleanup(other.close)
        start = time.monotonic()
        done = self.scry_run("--broker", f"mqtt://joe:wrong@127.0.0.1:{other.port}", "--", "sleep", "1")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"warning +the job is not published at mqtt://joe@127.0.0.1:\d+/.*(refused|authori)")
        self.assertLess(time.monotonic() - start, scrytest.room(8))

    @scrytest.hasten(4)
    def test_broker_that_drops_it(self):
        """A site's broker acknowledges what its list of rights forbids, and drops it. That is found out, and said."""
        other = brokertest.Mosquitto(self.box, "strict", users={"joe": "right"}, acl=["user joe", "topic readwrite scry/v1/joe/#"])
        self.addCleanup(other.close)
        url = f"mqtt://joe:right@127.0.0.1:{other.port}"
        done = self.scry_run("--broker", f"{url}/ann", "--", "sleep", "2.5")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"warning +the job is not published at .*gives nothing of it back.*scry/v1/ann")
        done = self.scry_run("--broker", f"{url}/ann", "--", "true")
        self.assertRegex(done.stderr, r"(?m)^scry: it is not published: .*scry/v1/ann\?$")
        done = self.box.run(self.box.scry("publish", "--broker", f"{url}/ann", "@last"))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\A.*gives nothing of it back.*\n\Z")
        reader = other.client("scry/v1/joe/#", user="joe", password="right")
        done = self.scry_run("--broker", f"{url}/joe", "--", "true")
        self.assertNotIn("not published", done.stderr)
        reader.wait(lambda: self.last("state", reader).get("complete"))

    def test_quiet(self):
        done = self.scry_run("-q", "--broker", "unix:/nowhere/x", "--", "true")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_broker_that_lies(self):
        with brokertest.LyingBroker(self.broker) as liar:
            liar.duplicate = liar.reorder = True
            liar.hang_up = 1
            job = self.start_job(f"i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done; {WAITS}", "--sample", "0.02",
                                 url=liar.url)
            scrytest.wait_until(lambda: liar.connections > 2, 30, "connections")
            liar.hang_up = None
            self.go()
            self.assertEqual(job.wait(60), 0)
            self.wait_complete(40)
            self.assertAllThere(self.box.path("work", "job"))

    def test_figures_dropped(self):
        """What a broker drops of QoS 0 is asked for again by readers; all others are there."""
        with brokertest.LyingBroker(self.broker) as liar:
            liar.drop_qos0 = True
            self.scry_run("--broker", liar.url, "--sample", "0.05", "--", "sleep", "0.3")
            self.wait_complete()
            got = {record["seq"] for _, record, _ in self.records()}
            self.assertEqual({record["type"] for record in self.spool() if record["seq"] not in got} | {"health"},
                             {"sample", "health"})

    def test_publisher_does_not_start(self):
        os.unlink(self.box.path("libexec", "scry-publisher"))
        with open(self.box.path("libexec", "scry-publisher"), "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nexit 1\n")
        os.chmod(file.name, 0o755)
        done = self.run_job("echo", "ran")
        self.assertEqual(done.stdout, "ran\n")
        self.assertRegex(done.stderr, r"(?m)^scry: \d+ of \d+ records are not published.*: use scry publish ")

    def test_why_is_said_once(self):
        said = self.box.run(self.box.scry("run", "--broker", "unix:/nowhere/socket", "--", "true")).stderr
        self.assertEqual(said.count("No such file or directory"), 1, said)
        ca = self.box.path("not-there.pem")
        said = self.box.run(self.box.scry("run", "--broker", f"mqtts://localhost:1?ca={ca}", "--", "true")).stderr
        self.assertEqual(said.count(f"{ca}: No such file or directory"), 1, said)

    def test_spool_is_full(self):
        """What was recorded before recording stopped is published, and the warning."""
        self.run_job("sh", "-c", "sleep 1", options=("--sample", "0.01", "--max-size", "4K"))
        self.wait_complete()
        self.assertAllThere()
        self.assertTrue(self.last("state")["info"]["result"]["lost_records"])

    def test_much_at_once(self):
        """A log of many lines, and thousands of processes: all that is recorded arrives."""
        self.run_job("sh", "-c", "yes 'error: something' | head -c 30000000 >&2; i=0; while [ $i -lt 1000 ]; do /bin/true; "
                     "i=$((i+1)); done", timeout=120)
        self.wait_complete(40)
        self.assertAllThere()

    def test_recorder_is_waited_for(self):
        """A recorder that has begun to store the job gets a moment to finish, while the publisher still answers."""
        job = self.start_job(WAITS)
        self.reader.wait(lambda: self.records(name="process"))
        topic = self.reader.of("/state")[0].topic[:-len("/state")]
        self.reader.publish(topic + "/stored/r1", json.dumps({"last_seq": 0, "complete": False, "time": 0}), retain=True)
        self.go()
        self.assertEqual(job.wait(20), 0)
        self.wait_complete()
        self.assertTrue(self.last("beat")["connected"])
        self.reader.publish(topic + "/stored/r1", json.dumps({"last_seq": self.last("state")["last_seq"], "complete": True}))
        self.reader.wait(lambda: not self.last("beat")["connected"], 4)


if __name__ == "__main__":
    scrytest.main()
