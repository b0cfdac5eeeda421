# SPDX-License-Identifier: Apache-2.0
"""A job seen through a broker: the same as from its directory, whenever one looks, and whatever the network does."""

import contextlib
import glob
import json
import os
import pty
import pwd
import re
import signal
import subprocess
import tempfile
import time
import urllib.parse

import brokertest
import mpitest
import recordtest
import scrytest
from jobtest import JobCase
from scrytest import wait_until


def encoded(text):
    """A level of a topic, as doc/reference/broker.md says."""
    return "".join(chr(byte) if chr(byte).isalnum() and byte < 128 or byte == ord("-") else f"_{byte:02x}"
                   for byte in text.encode("utf-8", "surrogateescape"))


class FakePublisher:
    """Publishes a made-up job with the stock client, by the reference alone."""

    def __init__(self, broker, job, owner="", node="elsewhere", started=None, boot="b1", name="", answers=True, state="running"):
        self.owner = owner or pwd.getpwuid(os.geteuid()).pw_name
        self.job, self.records, self.answers, self.files = job, [], answers, []
        self.root = f"scry/v1/{encoded(self.owner)}/{encoded(job)}"
        self.client = broker.client(self.root + "/ask")
        self.answered = 0
        info = {"format": "scry-job", "version": 1, "id": job, "name": name, "host": node, "user": self.owner, "cwd": "/",
                "argv": ["x"], "started_ns": int((started or time.time()) * 1e9), "boot_id": boot, "sample_seconds": 1,
                "supervisor": None, "command": None}
        self.state = {"version": 1, "job": job, "owner": self.owner, "node": node, "state": state, "info": info,
                      "dir": "/d", "boot_id": boot, "last_seq": 0, "address": None, "complete": False}
        self.put(type="spool", format="scry-spool", version=1, stream="job")

    def put(self, **record):
        self.records.append({"job": self.job, "node": self.state["node"], "seq": len(self.records), "t": len(self.records), **record})

    def line(self, record):
        return (json.dumps(record) + "\n").encode()

    def say_state(self):
        self.state["last_seq"] = len(self.records) - 1
        self.client.publish(self.root + "/state", json.dumps(self.state), retain=True)

    def beat(self, number=1, connected=True, ahead=0, **other):
        beat = {"connected": connected, "beat": number, "time": time.time() + ahead, "lease_seconds": 15,
                "last_seq": len(self.records) - 1, **other}
        self.client.publish(self.root + "/beat", json.dumps(beat), retain=True)

    def answer(self):
        """What was asked since. True: somebody has asked."""
        asked = self.client.of("/ask")
        for message in asked[self.answered:] if self.answers else []:
            ask = json.loads(message.payload)
            to = len(self.records) if ask["to"] < 0 else min(ask["to"], len(self.records))
            again = f"{self.root}/again/{ask['reader']}"
            self.client.publish(again + "/records", b"".join(self.line(record) for record in self.records[ask["from"]:to]))
            for file in self.files if ask["files"] else []:
                self.client.publish(again + "/file", json.dumps(file))
            self.client.publish(again + "/end", json.dumps({"from": ask["from"], "to": to, "last_seq": len(self.records) - 1}))
        self.answered = len(asked)
        return bool(asked)


class MirrorCase(JobCase):
    def setUp(self):
        super().setUp()
        self.user = pwd.getpwuid(os.geteuid()).pw_name if not self.box.identity else self.box.run(["id", "-un"]).stdout.strip()

    def url(self, broker, job="@last", owner=None):
        return f"{broker.url if isinstance(broker, brokertest.LyingBroker) else broker.tcp_url}/{owner or self.user}/{job}"

    def start_job(self, broker, script, *arguments, **options):
        """Goes on when go() is called."""
        os.mkfifo(self.box.path("work", "go"))
        run = self.start_run("-q", "--sample", "0.1", "--broker", broker.url, *arguments, "--", "sh", "-c",
                             script.replace("GO", f"read line <{self.box.path('work', 'go')}"), **options)
        watcher = broker.client("scry/v1/#")
        watcher.wait(lambda: watcher.of("/state") and watcher.of("/beat"))
        return run, watcher

    def go(self):
        with open(self.box.path("work", "go"), "w", encoding="ascii") as file:
            file.write("go\n")

    def own_directory(self):
        return glob.glob(self.box.path("jobs", "2*"))[0]

    def records(self, job):
        return self.scry("watch", "--json", job).stdout.splitlines()

    def expect_same(self, job):
        """What the commands show of the mirror, and of the directory itself."""
        own = self.own_directory()
        self.assertEqual(self.records(job), self.records(own))
        reports = [json.loads(self.scry("report", "--json", which).stdout) for which in (job, own)]
        mirror = reports[0].pop("mirror")
        self.assertEqual((mirror["complete"], mirror["note"]), (True, None))
        self.assertIsNone(reports[1].pop("mirror"))
        for report in reports:
            report.pop("path")
        self.assertEqual(*reports)
        self.assertIn(", all of it but the traces", self.scry("report", job).stdout)

    def expect_lines(self, reader, who=""):
        """The rest of what `scry watch --json` prints, after its first line, is what is in the directory."""
        lines, own = reader.stdout.read().splitlines(), self.records(self.own_directory())[1:]
        self.assertEqual(reader.wait(), 0)
        numbers = [[json.loads(line)["seq"] for line in each] for each in (lines, own)]
        self.assertEqual(numbers[0], numbers[1], who)
        self.assertEqual(lines, own, who)

    def watch_fake(self, fake, *commands):
        """Runs commands while the fake answers. Their results."""
        running = [self.start_apart(*command) for command in commands]
        wait_until(lambda: fake.answer() and False or all(one.poll() is not None for one, _, _ in running), 40, "commands")
        return [self.result(*one) for one in running]

    def start_apart(self, *command, env=None):
        """Its output goes to files: nobody has to read it."""
        files = [tempfile.TemporaryFile(mode="w+", dir=self.box.path("tmp")) for _ in range(2)]
        return self.box.start(self.box.scry(*command), env=env, stdout=files[0], stderr=files[1]), *files

    def result(self, process, *files):
        texts = []
        status = process.wait()
        for file in files:
            file.seek(0)
            texts.append(file.read())
            file.close()
        return status, *texts


class Mirror(MirrorCase):
    # ---- real jobs ----

    # As a launcher's daemon on another node does it, where the job directory is seen.
    PART = "scry run --anyway --quiet --part-of $(basename $SCRY_JOB):$SCRY_JOB -- "

    def parts_of(self, job):
        parts = json.loads(self.scry("report", "--json", job).stdout)["parts"]
        for part in parts:
            part["job"].pop("path")
        return parts

    def test_parts(self):
        """Also of other nodes: while they run, and when they have ended."""
        with brokertest.Mosquitto(self.box) as broker:
            run, _ = self.start_job(broker, f"{self.PART} sh -c 'ls /nowhere; GO'; exit 3")
            reader = self.box.start(self.box.scry("watch", "--stream", "process", self.url(broker)))
            wait_until(lambda: any("ls" in [process["name"] for process in part["processes"]] for part in self.parts_of(self.url(broker))), 60)
            part, = self.parts_of(self.url(broker))
            self.assertEqual(part["job"]["status"], "running")
            self.go()
            self.assertEqual(run.wait(), 3)
            self.assertRegex(reader.stdout.read(), rf"process   {part['name']}: \d+ ls ended with ")
            reader.wait(60)
            own = self.own_directory()
            self.assertEqual(self.parts_of(self.url(broker, os.path.basename(own))), self.parts_of(own))

    def test_same_as_the_directory(self):
        """Two readers follow it to its end, one from its start and one that comes late; then it is whole, also without a broker."""
        with brokertest.Mosquitto(self.box) as broker:
            run, _ = self.start_job(broker, "echo ERROR one >&2; (exit 4); GO; sh -c 'kill -SEGV $$'; exit 3", "--name", "figure one")
            first = self.box.start(self.box.scry("watch", "--json", self.url(broker)))
            self.assertIn('"seq":0', first.stdout.readline())
            listed = json.loads(self.scry("ps", "--json", broker.tcp_url).stdout)["jobs"]
            self.assertEqual([(job["state"], job["name"]) for job in listed], [("running", "figure one")])
            second = self.box.start(self.box.scry("watch", "--json", self.url(broker, "figure%20one")))
            self.assertIn('"seq":0', second.stdout.readline())
            top = json.loads(self.scry("top", "--once", "--json", self.url(broker)).stdout)
            self.assertEqual(top["status"], "running")
            self.assertIn("is running", self.scry("why", self.url(broker)).stdout)
            self.assertIn("stay on its node", self.scry("replay", self.url(broker), status=1).stderr)
            self.go()
            self.assertEqual(run.wait(), 3)
            self.expect_lines(first)
            self.expect_lines(second)
            job = self.url(broker, os.path.basename(self.own_directory()))
            self.expect_same(job)
            broker.stop()
            self.expect_same(job)
            refused = self.scry("rm", job, status=1)
            self.assertRegex(refused.stderr, r"does not answer")
            self.expect_same(job)
            forced = self.scry("rm", "--force", job)
            self.assertIn("removed", forced.stdout)
            self.assertIn("only the mirror that is here is removed", forced.stderr)
            self.assertTrue(os.path.exists(self.own_directory()))

    def test_bad_networks(self):
        """Messages that come twice, in another order, or not at all, and connections that end each second (where many programs want to
        run, later: to find out what a job is takes its time, too)."""
        with brokertest.Mosquitto(self.box) as broker, brokertest.LyingBroker(broker) as twice, \
                brokertest.LyingBroker(broker) as lossy, brokertest.LyingBroker(broker) as cut:
            twice.duplicate = twice.reorder = lossy.drop_qos0 = True
            cut.hang_up = scrytest.room(1)
            run, _ = self.start_job(broker, "for i in 1 2 3 4 5 6 7 8 9; do echo ERROR $i >&2; sleep 0.3; done; GO")
            readers = [self.box.start(self.box.scry("watch", "--json", self.url(place))) for place in (twice, lossy, cut)]
            for reader in readers:
                self.assertIn('"seq":0', reader.stdout.readline())
            wait_until(lambda: cut.connections >= 3, 20 * cut.hang_up, "cut connections")
            self.go()
            run.wait()
            for reader, place in zip(readers, ("twice", "lossy", "cut")):
                self.expect_lines(reader, place)

    def test_broker_restarts(self):
        with brokertest.Mosquitto(self.box) as broker:
            run, _ = self.start_job(broker, "GO; exit 0")
            reader = self.box.start(self.box.scry("watch", "--json", self.url(broker)))
            self.assertIn('"seq":0', reader.stdout.readline())
            broker.stop(signal.SIGKILL)
            broker.start()
            self.go()
            self.assertEqual(run.wait(), 0)
            self.expect_lines(reader)

    def test_mirror_ends(self):
        """The program that makes the mirror fails while the job runs, or is killed: who watches ends, and says why."""
        program, broken = self.box.path("libexec", "scry-mirror"), self.box.path("work", "broken")
        os.unlink(program)  # a link to the built one
        with open(program, "w", encoding="utf-8") as file:
            file.write(f"""#!/usr/bin/python3
import os, subprocess, sys, time
real = subprocess.Popen([{scrytest.built("src", "mirror", "scry-mirror")!r}, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
real.stdin.write(sys.stdin.readline())
real.stdin.flush()
line = ""
while not line.startswith("ready "):
    line = real.stdout.readline()
    print(line, end="", flush=True)
while not os.path.exists({broken!r}):
    time.sleep(0.01)
real.kill()
if os.path.getsize({broken!r}):
    print("error the disk\x1b is full", flush=True)
""")
        os.chmod(program, 0o755)
        with brokertest.Mosquitto(self.box) as broker:
            run, _ = self.start_job(broker, "GO")
            for said in ("the disk\\x1b is full", "the job is not followed any more: scry-mirror has ended"):
                watch = self.box.start(self.box.scry("watch", "--json", self.url(broker)), stderr=subprocess.PIPE)
                self.assertIn('"seq":0', watch.stdout.readline())
                with open(broken, "w", encoding="utf-8") as file:
                    file.write("x" if said.startswith("the disk") else "")
                self.assertEqual((watch.wait(scrytest.room(30)), watch.stderr.read()), (1, f"scry watch: {said}\n"))
                os.unlink(broken)
            self.go()
            self.assertEqual(run.wait(), 0)

    def test_killed(self):
        """scry run is killed, and then the whole node: what was heard last is shown, and nothing is called dead."""
        with brokertest.Mosquitto(self.box) as broker:
            run, watcher = self.start_job(broker, "GO")
            job, = json.loads(self.scry("ps", "--json", broker.tcp_url).stdout)["jobs"]
            self.assertEqual((job["state"], job.get("cpu_seconds"), job.get("peak_tree_rss_bytes")), ("running", None, None))
            self.assertEqual(self.scry("report", self.url(broker)).returncode, 0)
            publisher, = [pid for pid in self.box.processes() if scrytest.process_command_line(pid) == b"job-publisher\0"]
            run.kill()
            run.wait()
            state = lambda: json.loads(self.scry("ps", "--json", broker.tcp_url).stdout)["jobs"][0]["state"]
            wait_until(lambda: state() == "unwatched", 20, "unwatched")
            os.kill(publisher, signal.SIGKILL)
            wait_until(lambda: state() == "unreachable", 20, "unreachable")
            done = self.scry("report", self.url(broker))
            self.assertIn("it may still be running", done.stdout)
            self.assertIn("nobody publishes the job now", done.stderr)
            self.go()

    # ---- made-up jobs ----

    def test_heard_before(self):
        """What the broker remembers was heard when it was sent: a job that is gone since then is not called alive for longer."""
        with brokertest.Mosquitto(self.box) as broker:
            fake = FakePublisher(broker, "20260101T000001-h-1-aaaaaa", answers=False)
            fake.say_state()
            fake.beat(ahead=-10)

            def heard():
                for name in glob.glob(self.box.path("home", ".cache", "scry", "mirrors", "*", "*", fake.job, "remote.json")):
                    with open(name, encoding="utf-8") as file:
                        return json.load(file).get("heard")

            report = self.box.start(self.box.scry("report", self.url(broker, fake.job)))
            self.assertLess(wait_until(heard, 20), time.time() - 9)
            report.kill()
            report.wait()

    def test_states(self):
        """Running by a clock that is hours off; unreachable; lost, when the node was started again; never dead without that."""
        with brokertest.Mosquitto(self.box) as broker:
            skewed = FakePublisher(broker, "20260101T000001-h-1-aaaaaa", node="skewed", started=time.time() + 7200 - 100)
            gone = FakePublisher(broker, "20260101T000002-h-1-bbbbbb", node="gone")
            lost = FakePublisher(broker, "20260101T000003-h-1-cccccc", node="again", started=1000)
            later = FakePublisher(broker, "20260101T000004-h-1-dddddd", node="again", started=2000, boot="b2")
            for fake in (skewed, gone, lost, later):
                fake.say_state()
            gone.beat(connected=False)
            lost.beat(connected=False)
            later.beat()
            skewed.beat(1, ahead=7200)
            listing = self.box.start(self.box.scry("ps", "--json", broker.tcp_url))
            wait_until(lambda: skewed.beat(2, ahead=7200) or listing.poll() is not None, 20, "listing")
            jobs = {job["id"]: job for job in json.loads(listing.stdout.read())["jobs"]}
            self.assertEqual({job: jobs[job]["state"] for job in jobs},
                             {skewed.job: "running", gone.job: "unreachable", lost.job: "lost", later.job: "running"})
            self.assertTrue(95 < jobs[skewed.job]["wall_seconds"] < 160, jobs[skewed.job])
            for fake, state in ((gone, "unreachable"), (lost, "lost")):
                done = self.scry("report", "--json", self.url(broker, fake.job))
                self.assertEqual(json.loads(done.stdout)["status"], state)
                self.assertIn("nobody publishes the job now", done.stderr)

    def retain_many(self, broker, count, running=0):
        """So many jobs, of which the oldest run on a node that was started again."""
        client = broker.client()
        for number in range(count):
            job = f"20260101T{number // 3600:02}{number // 60 % 60:02}{number % 60:02}-h-{number}-aaaaaa"
            root = f"scry/v1/{encoded(self.user)}/{job}"
            info = {"format": "scry-job", "version": 1, "id": job, "name": "many", "host": "h", "user": self.user, "cwd": "/",
                    "argv": ["x"], "started_ns": (1767225600 + number) * 10 ** 9, "boot_id": "b", "sample_seconds": 1,
                    "supervisor": None, "command": None}
            if number >= running:
                info["result"] = {"exit_code": 0, "started": True, "wall_seconds": 1.0}
            state = {"version": 1, "job": job, "owner": self.user, "node": "h", "state": "running" if number < running else "finished",
                     "info": info, "dir": "/d", "boot_id": f"b{number < running}", "last_seq": 0, "address": None,
                     "complete": number >= running}
            client.mqtt.publish(root + "/state", json.dumps(state), 1, True)
            sent = client.mqtt.publish(root + "/beat", '{"connected": false, "last_seq": 0}', 1, True)
            if number % 400 == 399:
                sent.wait_for_publish(60)
        sent.wait_for_publish(60)

    def test_very_many(self):
        """All jobs are listed, also by a broker that drops what it has no room for: mosquitto has room for 1000 messages. The
        first lines come before the last ones, and nobody goes on when the command was ended."""
        count = scrytest.rounds(2000, 20000)
        with brokertest.Mosquitto(self.box, acl=["topic readwrite #"]) as broker:
            self.retain_many(broker, count, running=200)
            few = self.scry("ps", broker.tcp_url)
            self.assertIn(f"{count - 10} more that ended", few.stdout)
            self.assertEqual(few.stderr, "")
            mirrors = glob.glob(self.box.path("home", ".cache", "scry", "mirrors", "*", "*", "2*"))
            self.assertLess(len(mirrors), 300)  # those that are shown
            listing = self.box.start(self.box.scry("ps", "--all", broker.tcp_url), stderr=subprocess.PIPE)
            first = os.read(listing.stdout.fileno(), 1 << 16).decode()
            self.assertLess(first.count("\n"), count)
            listing.stdout.flush()
            rest = listing.stdout.read()
            self.assertEqual(listing.stderr.read(), "")
            self.assertEqual((first + rest).count("\n"), count + 1)
            self.assertEqual((first + rest).count(" lost "), 200)
            listing = self.box.start(self.box.scry("ps", "--all", broker.tcp_url))
            pids = wait_until(lambda: self.box.processes("scry-mirror"), 20, "it is asked")
            listing.terminate()
            wait_until(lambda: all(map(scrytest.process_gone, pids)), 5, "nobody asks any more")

    def test_progress(self):
        """While a list is waited for, a person at a terminal sees how far it is; nothing of that stays."""
        with brokertest.Mosquitto(self.box) as broker:
            self.retain_many(broker, 20)
            fake = FakePublisher(broker, "20260201T000000-h-1-bbbbbb")
            fake.say_state()
            fake.beat(ahead=3600)  # by a clock that is another one: what this job says next is waited for
            main, side = pty.openpty()
            listing = self.box.start(self.box.scry("ps", "--all", broker.tcp_url), stderr=side)
            os.close(side)
            said = ""
            while not re.search(r"\rasking the broker: +[1-9]\d* %", said):
                said += os.read(main, 1 << 12).decode()
            fake.beat(2, ahead=3600)
            self.assertEqual(listing.stdout.read().count("\n"), 22)
            with contextlib.suppress(OSError):
                while piece := os.read(main, 1 << 12):
                    said += piece.decode()
            os.close(main)
            self.assertRegex(said, r"\A(\rasking the broker: +\d+ %)+\r\x1b\[K\Z")

    def test_list_that_is_not_complete(self):
        """What the broker does not send is said to be missing."""
        with brokertest.Mosquitto(self.box) as broker:
            self.retain_many(broker, 20)
            client = broker.client()
            for number in range(3):
                client.publish(f"scry/v1/{encoded(self.user)}/20260201T00000{number}-h-1-bbbbbb/beat", '{"connected": false}', retain=True)
            done = self.scry("ps", "--all", broker.tcp_url)
            self.assertEqual(done.stdout.count("\n"), 21)
            self.assertIn("the list is not complete: the broker has not sent the state of 3 more jobs", done.stderr)

    def test_list_through_bad_networks(self):
        """What is told with QoS 0 may never come: then beats are asked for one by one, and the list says that there may be more."""
        with brokertest.Mosquitto(self.box) as broker, brokertest.LyingBroker(broker) as lossy:
            lossy.drop_qos0 = True
            fake = FakePublisher(broker, "20260101T000001-h-1-aaaaaa")
            fake.say_state()
            fake.beat()
            done = self.scry("ps", "--json", lossy.url)
            self.assertEqual([job["state"] for job in json.loads(done.stdout)["jobs"]], ["running"])
            self.assertIn("the list may not be complete", done.stderr)

    def test_forged_states(self):
        """What only says that it is a job is no line of a list."""
        with brokertest.Mosquitto(self.box) as broker:
            self.retain_many(broker, 2)
            client = broker.client()
            for number, info in enumerate(({"format": "scry-job"}, {"format": "scry-job", "version": 99}, {"version": 1}, {}, [])):
                job = f"20260201T00000{number}-h-1-bbbbbb"
                if info:
                    info["id"] = job
                client.publish(f"scry/v1/{encoded(self.user)}/{job}/state", json.dumps({"job": job, "info": info}), retain=True)
            done = self.scry("ps", "--all", broker.tcp_url)
            self.assertEqual(done.stdout.count("\n"), 3, done.stdout)
            self.assertIn("5 jobs there cannot be read: they are of another version of scry, or no jobs", done.stderr)

    def test_clock_that_is_set(self):
        """The clock of the node is set by an hour while a job runs: for how long it runs is said by another clock."""
        def seconds(*words):
            job, = json.loads(self.scry(*words).stdout)["jobs"]
            return job["wall_seconds"]

        with brokertest.Mosquitto(self.box) as broker:
            for ahead in (3600, -3600):
                fake = FakePublisher(broker, f"20260101T00000{ahead > 0:d}-h-1-aaaaaa", name=f"set{ahead}", started=time.time() - 28)
                fake.put(type="sample", stream="node")
                fake.say_state()
                fake.beat(ahead=ahead, age=28.5)
                listing = self.box.start(self.box.scry("ps", "--json", broker.tcp_url))
                wait_until(lambda: fake.beat(2, ahead=ahead, age=28.5) or listing.poll() is not None, 20, "listing")
                job, = [job for job in json.loads(listing.stdout.read())["jobs"] if job["id"] == fake.job]
                self.assertEqual(job["state"], "running")
                self.assertTrue(28 <= job["wall_seconds"] < 60, job)
                url = self.url(broker, fake.job)
                for status, out, err in self.watch_fake(fake, ("report", "--json", url), ("top", "--once", "--json", url)):
                    self.assertEqual(status, 0, err)
                    self.assertTrue(28 <= json.loads(out)["wall_seconds"] < 60, out)
                recorder = self.box.start(self.box.scry("record", "--broker", broker.url, "--record", self.box.path("work", fake.job)))
                def recorded():
                    fake.beat(3, ahead=ahead, age=28.5)
                    listed = json.loads(self.scry("ps", "--all", "--json", "--record", self.box.path("work", fake.job)).stdout)["jobs"]
                    return [job["wall_seconds"] for job in listed if job["id"] == fake.job and job["wall_seconds"] > 27]
                wait_until(lambda: os.path.exists(self.box.path("work", fake.job, "all.sql")) and recorded(), 20, "the record has it")
                self.assertTrue(28 <= recorded()[0] < 60, recorded())
                recorder.terminate()
                recorder.wait(20)
                fake.client.publish(fake.root + "/state", b"", retain=True)
        # a job here: its clock was an hour behind when it began
        os.mkfifo(self.box.path("work", "go"))
        run = self.start_run("-q", "--", "sh", "-c", f"read line <{self.box.path('work', 'go')}")
        def described():
            for path in glob.glob(self.box.path("jobs", "2*", "job.json")):
                with open(path, encoding="utf-8") as file:
                    info = json.load(file)
                if "began_monotonic_ns" in info:  # it runs
                    return path, info
            return None
        path, info = wait_until(described, 20, "the job runs")
        info["started_ns"] -= 3600 * 10 ** 9
        with open(path, "w", encoding="utf-8") as file:
            json.dump(info, file)
        self.assertLess(seconds("ps", "--json"), 60)
        for words in (("report", "--json"), ("top", "--once", "--json")):
            self.assertLess(json.loads(self.scry(*words, "@last").stdout)["wall_seconds"], 60, words)
        self.go()
        run.wait(20)

    def test_forget(self):
        """scry rm makes the broker forget a job that is over, and no other; the mirror goes with it."""
        def retained():
            with broker.client("scry/#") as client:
                client.publish("scry/end", "")
                client.wait(lambda: client.of("scry/end"))
                return sorted(message.topic for message in client.messages if message.retain)

        with brokertest.Mosquitto(self.box, users={"bob": "b"}, lines=["allow_anonymous true"],
                                  acl=["topic readwrite scry/#", "user bob", "topic read scry/#"]) as broker:
            fakes = ended, twin, gone, runs, last = [
                FakePublisher(broker, f"20260101T00000{i}-h-1-aaaaa{i}", name=name, node=f"n{i}")
                for i, name in enumerate(("same", "same", "gone", "runs", "last"))]
            for fake in fakes:
                if fake in (ended, twin, last):
                    fake.state["info"]["result"] = {"exit_code": 0}
                    fake.state.update(state="finished", complete=True)
                fake.client.publish(fake.root + "/stored/r1", '{"last_seq": 1, "complete": true, "time": 1}', retain=True)
                fake.say_state()
                fake.beat(connected=fake is runs)
            broker.client().publish(f"scry/v1/{encoded(ended.owner)}/keys/revoked", "a list", retain=True)
            before = retained()
            for word, options, why in (("same", (), "several jobs of .* have the name 'same'"), ("runs", ("--force",), "still runs"),
                                       ("gone", (), "may still run; --force"), ("none", (), "has no job 'none'")):
                self.assertRegex(self.scry("rm", *options, self.url(broker, word), status=1).stderr, rf"\Ascry rm: [^\n]*{why}[^\n]*\n\Z")
            bob = self.url(broker, ended.job).replace("mqtt://", "mqtt://bob:b@")
            refused = self.start_apart("rm", bob, env={"SCRY_TEST_HASTE": "4"})
            self.assertIn("would remove", self.scry("rm", "--dry-run", self.url(broker, ended.job)).stdout)
            status, _, err = self.result(*refused)
            self.assertEqual(status, 1)
            self.assertRegex(err, r"\Ascry rm: [^\n]* does not let you remove what it retains of job [^\n]*\n\Z")
            self.assertEqual(retained(), before)
            self.scry("ps", broker.tcp_url)
            mirrors = lambda: [name for _, names, _ in os.walk(self.box.path()) for name in names if "-aaaaa" in name]
            here = len(mirrors())
            self.assertGreaterEqual(here, len(fakes))
            twin.state["info"]["started_ns"] = 10**18
            twin.say_state()
            self.assertIn(twin.job, self.scry("rm", "--dry-run", "--older-than", "1h", broker.tcp_url).stdout)
            self.assertEqual(retained(), before)
            self.assertRegex(self.scry("rm", "--older-than", "1h", broker.tcp_url).stdout, rf"\Aremoved .*{twin.job}  same .*\n\Z")
            before = [topic for topic in before if not topic.startswith(twin.root + "/")]
            self.assertEqual(retained(), before)
            ended.beat()
            with brokertest.LyingBroker(broker) as counted:
                waits = self.start_apart("rm", "--dry-run", self.url(counted, ended.job))
                wait_until(lambda: counted.passed[brokertest.PUBLISH], 20, "scry rm looks")
                ended.beat(connected=False)
                self.assertEqual(self.result(*waits)[::2], (0, ""))
            for word, options, fake in (("same", (), ended), ("gone", ("--force",), gone), ("@last", (), last)):
                done = self.scry("rm", *options, self.url(broker, word))
                self.assertIn(fake.job, done.stdout)
                self.assertEqual(done.stderr, "")
                before = [topic for topic in before if not topic.startswith(fake.root + "/")]
                self.assertEqual(retained(), before)
            self.assertEqual(before, [*(f"{runs.root}/{name}" for name in ("beat", "state", "stored/r1")),
                                      f"scry/v1/{encoded(ended.owner)}/keys/revoked"])
            self.assertEqual(len(mirrors()), here - 4)

    @scrytest.hasten(4)
    def test_missing_records(self):
        """What cannot be had is a gap, and the rest is shown."""
        with brokertest.Mosquitto(self.box) as broker:
            fake = FakePublisher(broker, "20260101T000001-h-1-aaaaaa")
            for number in range(20):
                fake.put(type="progress", stream="log", source="x", done=number, total=20)
            fake.records = fake.records[:5] + [{}] * 3 + fake.records[8:]
            fake.say_state()
            fake.beat()
            fake.line = lambda record: (json.dumps(record) + "\n").encode() if record else b""
            (status, out, err), = self.watch_fake(fake, ("report", "--json", self.url(broker, fake.job)))
            self.assertEqual(status, 0, err)
            report = json.loads(out)
            self.assertIn("some records of the job are lost", report["mirror"]["note"])
            self.assertEqual([gap["reason"] for gap in report["gaps"]], ["the publisher had no such records any more"])

    @scrytest.hasten(4)
    def test_hostile(self):
        """Whatever others publish: nothing is written elsewhere, and no terminal gets it as it is."""
        escape = "\x1b[31mred\x07"
        with brokertest.Mosquitto(self.box) as broker:
            fake = FakePublisher(broker, "20260101T000001-h-1-aaaaaa", name=f"n{escape}", node=f"h{escape}")
            fake.state["dir"] = f"/d{escape}"
            for text in (escape, "\n\r\x00", "\u202e", "x" * 10000):
                fake.put(type="warning", stream="warning", kind="x", text=text, fields={})
            fake.put(type=escape, stream=escape, other=escape)
            bad = [b"\x00\xff{", b"[]", b'{"seq":9223372036854775808,"type":"x","t":1}', b'{"seq":9223372036854775807,"type":"x","t":1}',
                   b'{"seq":-1,"type":"x","t":1}', b'{"seq":3,"type":"x","t":1,"job":"other"}', b"{" * 10000]
            fake.line = lambda record: (json.dumps(record) + "\n").encode() + b"\n".join(bad) + b"\n"
            fake.files = [{"path": path, "bytes": 1, "part": 0, "parts": 1, "version": 1, "text": "x"}
                          for path in ("../../../../evil", "/tmp/evil", "spool/records.jsonl", "remote.json", "a/../../evil", "",
                                       f"stats/{escape}/1-1.json")]
            fake.files += [{"path": "stats/n/1-1.json", "bytes": 1, "part": -1, "parts": 10**12, "version": 1, "text": "x"}, {"path": 7}]
            fake.say_state()
            fake.beat(last_seq=2**62)
            self.assertEqual(self.scry("ps", broker.tcp_url).stdout.count("\x1b"), 0)
            job = self.url(broker, fake.job)
            results = self.watch_fake(fake, ("report", job), ("top", "--once", job), ("why", job))
            results.append(self.watch_fake(fake, ("replay", job))[0])
            for status, out, err in results:
                self.assertNotIn("\x1b", out + err)
                self.assertIn(status, (0, 1), err)
            self.assertIn("\\x1b[31mred", results[0][1])
            found = [os.path.join(place, name) for place, _, names in os.walk(self.box.path()) for name in names if "evil" in name]
            self.assertEqual(found, [])
            fake.state["info"]["result"] = {"exit_code": 1}
            fake.state["complete"] = True
            fake.say_state()
            (status, out, err), = self.watch_fake(fake, ("watch", job))
            self.assertNotIn("\x1b", out + err)
            self.assertIn("\\x1b[31mred", out)

    def test_any_names(self):
        """Users, jobs and names of jobs with any bytes."""
        owner, name = "us er/#+_.\u00e9", "a/b +#%_\u4e2d"
        with brokertest.Mosquitto(self.box) as broker:
            fake = FakePublisher(broker, "20260101T000001-h_x-1-aaaaaa", owner=owner, name=name)
            fake.say_state()
            fake.beat()
            quoted = urllib.parse.quote(owner, safe="")
            self.assertIn("a/b +#%_", self.scry("ps", f"{broker.tcp_url}/{quoted}").stdout)
            for word in (urllib.parse.quote(name, safe=""), fake.job, "@last", "20260101T"):
                (status, out, err), = self.watch_fake(fake, ("report", "--json", f"{broker.tcp_url}/{quoted}/{word}"))
                self.assertEqual((status, json.loads(out)["id"]), (0, fake.job), err)
            other = FakePublisher(broker, "20260101T000002-h-1-bbbbbb", owner=owner)
            other.say_state()
            self.assertIn("give more of the id", self.scry("report", f"{broker.tcp_url}/{quoted}/2026", status=1).stderr)
            self.assertIn("has no job 'none'", self.scry("report", f"{broker.tcp_url}/{quoted}/none", status=1).stderr)

    @scrytest.hasten(4)
    def test_printed(self):
        """With --publish-output what the job prints comes, too: of a file, and what --tee keeps. Else it is said where it is."""
        job, path = "echo one; echo two token=X >&2; GO; echo three", self.box.path("work", "out.txt")
        with brokertest.Mosquitto(self.box) as broker, open(path, "w", encoding="ascii") as out:
            run, _ = self.start_job(broker, job, "--tee", "--publish-output", stdout=out, stderr=subprocess.PIPE)
            url = self.url(broker)
            wait_until(lambda: self.scry("logs", url).stdout == "one\ntwo token=*\n", 20)
            follow = self.box.start(self.box.scry("logs", "-f", "--stdout", url))
            self.assertEqual(follow.stdout.readline(), "one\n")
            self.go()
            self.assertEqual(run.communicate()[1], "two token=X\n")
            self.assertEqual((follow.stdout.read(), follow.wait()), ("three\n", 0))
            self.assertEqual(self.scry("logs", "--grep", "t", url).stdout, "three\ntwo token=*\n")
            self.assertRegex(self.scry("logs", "--since", "1h", url, status=1).stderr, "have no times")
            self.scry("rm", "@last")
            self.assertEqual(self.scry("logs", "--stderr", url).stdout, "two token=*\n")

    def test_not_printed(self):
        path = self.box.path("work", "out.txt")
        with brokertest.Mosquitto(self.box) as broker, open(path, "w", encoding="ascii") as out:
            run = self.start_run("-q", "--tee", "--broker", broker.url, "--", "sh", "-c", "echo one; echo two >&2", stdout=out, stderr=subprocess.PIPE)
            self.assertEqual((run.communicate()[1], run.returncode), ("two\n", 0))
            done = self.scry("logs", "--stdout", self.url(broker), status=1)
            self.assertRegex(done.stderr, "the standard output of the job is in .*out.txt on .*, and not published: scry logs there, or")
            done = self.scry("logs", "--stderr", self.url(broker), status=1)
            self.assertRegex(done.stderr, "is not here, for its standard error went to a pipe: it was not published; what was kept of it is on")

    def test_no_broker(self):
        """One line after a while; and what was known before, if there is something."""
        with brokertest.Mosquitto(self.box) as broker:
            fake = FakePublisher(broker, "20260101T000001-h-1-aaaaaa")
            fake.say_state()
            fake.beat()
            job = self.url(broker, fake.job)
            self.assertEqual(self.watch_fake(fake, ("report", job))[0][0], 0)
            broker.stop()
            began = time.monotonic()
            running = [self.start_apart(*command)
                       for command in (("report", job), ("report", self.url(broker, "x")), ("ps", broker.tcp_url))]
            known, unknown, listed = [self.result(*one)[::2] for one in running]
            self.assertLess(time.monotonic() - began, scrytest.room(20))
            self.assertEqual(known[0], 0)
            self.assertRegex(known[1], "does not answer.*; this is what was known before\n$")
            for status, err in (unknown, listed):
                self.assertEqual(status, 1)
                self.assertRegex(err, r"\Ascry \w+: the broker mqtt://127.0.0.1:\d+ does not answer: .*\n\Z")


class Mpi(mpitest.MpiCase):
    mpi = "openmpi"

    def test_ranks(self):
        """Where the ranks were when they published last."""
        with brokertest.Mosquitto(self.box) as broker:
            job = self.start_job(2, mpitest.example("mpi_deadlock", self.mpi),
                                 options=("--broker", broker.url), stdout=subprocess.DEVNULL)
            url = f"{broker.tcp_url}/{pwd.getpwuid(os.geteuid()).pw_name}/@last"
            watcher = broker.client("scry/v1/#")
            watcher.wait(lambda: watcher.of("/state"))

            def told():
                text = self.box.run(self.box.scry("why", url)).stdout
                return all(re.search(rf"rank {rank} .*: MPI_Send of 7.6 MB to rank {1 - rank}, .*mpi_deadlock.c:", text) for rank in (0, 1))
            wait_until(told, 40, "scry why tells where both ranks are")
            for launcher in scrytest.children(job.pid):
                os.kill(launcher, signal.SIGKILL)
            job.wait()
            done = self.box.run(self.box.scry("report", "--json", url))
            self.assertEqual(len(json.loads(done.stdout)["mpi"]["ranks"]), 2)


class Signed(MirrorCase):
    """What a job signs, and what strangers who may write at the broker say in its name."""

    FAR = 2000000

    def setUp(self):
        super().setUp()
        self.scry("keys", "init")
        self.without_key = {"XDG_CONFIG_HOME": self.box.path("tmp", "no-keys"), "SCRY_CACHE_DIR": self.box.path("tmp", "other-cache")}

    def forge(self, broker, state, retain=True):
        """A record far behind the last, holes, a beat, a file, and a state that says that all is over."""
        root = f"scry/v1/{encoded(self.user)}/{encoded(state['job'])}"
        client = broker.client()
        for seq in (self.FAR, *range(1001, 1201, 2)):
            client.publish(root + "/warning", json.dumps({"job": state["job"], "type": "warning", "kind": "x", "text": "forged", "seq": seq, "t": 1}) + "\n")
        client.publish(root + "/beat", json.dumps({"connected": True, "beat": 1, "time": time.time(), "lease_seconds": 15, "last_seq": self.FAR}), retain=retain)
        client.publish(root + "/file", json.dumps({"path": "stats/forged", "bytes": 1, "part": 0, "parts": 1, "version": 1, "text": "x"}))
        info = {**state["info"], "name": "forged", "result": {"exit_code": 0}}
        client.publish(root + "/state", json.dumps({**state, "state": "finished", "info": info, "last_seq": self.FAR, "complete": True}), retain=retain)

    def recorder(self, broker):
        record = recordtest.Sqlite(self.box, self.box.path("work", "record"))
        running = self.box.start(self.box.scry("record", "--broker", broker.url, "--record", record.place), stderr=subprocess.STDOUT)
        wait_until(lambda: os.path.exists(os.path.join(record.place, "all.sql")) and record.query("SELECT 1 FROM jobs WHERE is_signed = 1"), 20)
        return record, running

    @scrytest.hasten(4)
    def test_what_strangers_say(self):
        """Who has the key takes only what the job has signed, while it runs and at its end, and its true state comes back;
        who has none has what the strangers said."""
        with brokertest.Mosquitto(self.box) as broker:
            run, watcher = self.start_job(broker, "echo ERROR one >&2; GO; exit 3")
            state = json.loads(watcher.of("/state")[-1].payload)
            readers = [self.box.start(self.box.scry("watch", "--json", self.url(broker)), **more)
                       for more in ({}, {"env": self.without_key})]
            for reader in readers:
                self.assertIn('"seq":0', reader.stdout.readline())
            record, recorder = self.recorder(broker)
            before = len(watcher.of("/state"))
            self.forge(broker, state)
            wait_until(lambda: len(watcher.of("/state")) > before + 1, 20, "the job says its state again")
            self.assertNotIn(b"forged", watcher.of("/state")[-1].payload)
            late = broker.client(f"scry/v1/{encoded(self.user)}/{encoded(state['job'])}/state")
            late.wait(lambda: late.messages)
            self.assertNotIn(b"forged", late.messages[0].payload)
            job, = json.loads(self.scry("ps", "--json", broker.tcp_url).stdout)["jobs"]
            self.assertEqual((job["state"], job["name"], job["signed"]), ("running", "", True))
            self.go()
            self.assertEqual(run.wait(), 3)
            self.expect_lines(readers[0])
            readers[1].terminate()
            self.expect_same(self.url(broker, state["job"]))
            forged = glob.glob(self.box.path("**", "stats", "forged"), recursive=True)
            self.assertEqual([path for path in forged if not path.startswith(self.without_key["SCRY_CACHE_DIR"])], [])
            report = json.loads(self.scry("report", "--json", self.url(broker, state["job"])).stdout)
            self.assertIs(report["mirror"]["signed"], True)
            numbers = "SELECT complete, known_seq, last_seq, is_signed, lost FROM jobs"
            last = len(self.records(self.own_directory())) - 1
            wait_until(lambda: record.query(numbers)[0]["complete"], 20, lambda: f"the record has all of it: {record.query(numbers)}")
            self.assertEqual(record.query(numbers), [{"complete": 1, "known_seq": last, "last_seq": last, "is_signed": 1, "lost": 0}])
            self.assertGreater(record.query("SELECT refused FROM jobs")[0]["refused"], 100)
            recorder.terminate()
            recorder.wait(20)

    def test_one_signature_a_batch(self):
        """Of many records that are published together only the whole is signed."""
        with brokertest.Mosquitto(self.box) as broker, broker.client("scry/v1/#") as watcher:
            self.scry_run("-q", "--", "sh", "-c", "i=0; while [ $((i += 1)) -le 300 ]; do /bin/true; done")
            own = [json.loads(line)["seq"] for line in self.records(self.own_directory()) if '"process_end"' in line]
            self.assertGreaterEqual(len(own), 200)
            self.scry("publish", "--broker", broker.tcp_url, self.own_directory())

            def published():
                batches = [[json.loads(line) for line in message.payload.splitlines()] for message in watcher.messages if b'"process_end"' in message.payload]
                return batches if {record["seq"] for batch in batches for record in batch} >= set(own) else None
            batches = wait_until(published, 20, "all is published")
            kinds = [[record["type"] == "signature" for record in batch] for batch in batches]
            self.assertEqual(kinds, [[False] * (len(batch) - 1) + [True] for batch in batches])
            self.assertLess(len(batches), len(own) / 10)

    @scrytest.hasten(4)
    def test_afterwards(self):
        """When nobody publishes the job any more: what is known of it stays, and who comes late is told that it is unsigned."""
        with brokertest.Mosquitto(self.box) as broker:
            run, watcher = self.start_job(broker, "GO; exit 3")
            reader = self.box.start(self.box.scry("watch", "--json", self.url(broker)))
            self.assertIn('"seq":0', reader.stdout.readline())
            self.go()
            run.wait()
            reader.stdout.read()
            wait_until(lambda: not list(self.box.processes("scry-publisher")), 20, "the publisher has left")
            state = json.loads(watcher.of("/state")[-1].payload)
            self.forge(broker, state)
            remote, = glob.glob(self.box.path("home", ".cache", "scry", "mirrors", "*", "*", state["job"], "remote.json"))
            for is_whole in (True, False):  # the second time nobody is left who could be asked
                with open(remote, encoding="utf-8") as file:
                    said = json.load(file)
                with open(remote, "w", encoding="utf-8") as file:
                    json.dump({**said, "complete": is_whole}, file)
                report = json.loads(self.scry("report", "--json", self.url(broker, state["job"])).stdout)
                self.assertEqual((report["exit_code"], report["mirror"]["signed"]), (3, True))
            late = {"SCRY_CACHE_DIR": self.box.path("tmp", "late")}
            listed = self.box.run(self.box.scry("ps", broker.tcp_url), env=late)
            self.assertIn(", unsigned", listed.stdout)
            self.assertIn("1 of them unsigned", listed.stderr)
            nobody = self.box.run(self.box.scry("ps", broker.tcp_url), env=self.without_key)
            self.assertNotIn("unsigned", nobody.stdout + nobody.stderr)

    @scrytest.hasten(4)
    def test_forged_first(self):
        """A stranger's state and answer come before what the job has signed: that is waited for, and nothing has to be taken back."""
        with brokertest.Mosquitto(self.box) as broker:
            run, watcher = self.start_job(broker, "GO; exit 3")
            self.go()
            run.wait()
            wait_until(lambda: not list(self.box.processes("scry-publisher")), 20, "the publisher has left")
            job = json.loads(watcher.of("/state")[-1].payload)["job"]
            signed = [watcher.of("/" + kind)[-1] for kind in ("state", "beat")]
            self.assertFalse(json.loads(signed[1].payload)["connected"])
            stranger = FakePublisher(broker, job)
            stranger.say_state()
            stranger.beat()
            reader = self.start_apart("report", "--json", self.url(broker, job))
            wait_until(lambda: stranger.client.of("/ask"), 20, "the reader asks")
            mirror, = self.box.processes("scry-mirror")
            os.kill(mirror, signal.SIGSTOP)  # all of it lies there when it goes on
            seen = len(watcher.messages)
            stranger.answer()
            for message in signed:
                stranger.client.publish(message.topic, message.payload)
            watcher.wait(lambda: [message.payload for message in watcher.messages[seen:]][-1:] == [signed[1].payload])
            os.kill(mirror, signal.SIGCONT)
            status, out, err = self.result(*reader)
            self.assertEqual(status, 0, err)
            report = json.loads(out)
            self.assertEqual((report["exit_code"], report["mirror"]["signed"]), (3, True))

    def test_without_a_key(self):
        """Who has no key gets the same of a job that signs, to the byte; nobody says whether it is signed."""
        with brokertest.Mosquitto(self.box) as broker:
            run, _ = self.start_job(broker, "echo ERROR one >&2; GO; exit 3")
            reader = self.box.start(self.box.scry("watch", "--json", self.url(broker)), env=self.without_key)
            self.assertIn('"seq":0', reader.stdout.readline())
            self.go()
            self.assertEqual(run.wait(), 3)
            self.expect_lines(reader)
            mirror, = glob.glob(os.path.join(self.without_key["SCRY_CACHE_DIR"], "scry", "mirrors", "*", "*", "2*"))
            spools = []
            for directory in (self.own_directory(), mirror):
                with open(os.path.join(directory, "spool", "records.jsonl"), "rb") as file:
                    spools.append(file.read())
            self.assertEqual(*spools)
            with open(os.path.join(mirror, "remote.json"), encoding="utf-8") as file:
                self.assertNotIn("signed", json.load(file))

    def test_old_jobs(self):
        """A job that signs nothing is read as it was, and shown as unsigned."""
        with brokertest.Mosquitto(self.box) as broker:
            fake = FakePublisher(broker, "20260101T000001-h-1-aaaaaa")
            fake.put(type="warning", stream="warning", kind="x", text="one", fields={})
            fake.say_state()
            fake.beat()
            (status, out, err), = self.watch_fake(fake, ("report", "--json", self.url(broker, fake.job)))
            self.assertEqual(status, 0, err)
            self.assertIs(json.loads(out)["mirror"]["signed"], False)
            (status, out, err), = self.watch_fake(fake, ("report", self.url(broker, fake.job)))
            self.assertRegex(out, r"from .*; unsigned")


if __name__ == "__main__":
    scrytest.main()
