# SPDX-License-Identifier: Apache-2.0
"""The record: jobs in SQLite and PostgreSQL, as they are followed and imported, killed in the middle, lied to, and read back
when nothing else is left."""

import glob
import json
import os
import pwd
import random
import re
import select
import shutil
import signal
import subprocess
import time
import unittest

import brokertest
import jobtest
import recordtest
import scrytest

FAILS = "for i in 1 2 3; do sleep 0.1; done; ls /nowhere; exit 3"


class RecordCase(jobtest.JobCase):
    def setUp(self):
        super().setUp()
        self.record = recordtest.Sqlite(self.box)

    def job(self, *arguments, name="made", command=("sh", "-c", FAILS)):
        self.scry_run("-q", "--name", name, *arguments, "--", *command)
        return self.only(os.path.join(self.box.path("jobs"), "2*"))

    def only(self, pattern):
        found = [path for path in glob.glob(pattern) if os.path.isdir(path)]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def lines(self, path):
        with open(os.path.join(path, "spool", "records.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def stored(self, job, record=None):
        """The records of a job, in order, as the stock client sees them."""
        rows = (record or self.record).query(f"SELECT seq, record FROM record_list WHERE id = '{job}' ORDER BY seq")
        return [json.loads(row["record"]) if isinstance(row["record"], str) else row["record"] for row in rows]

    def check_whole(self, job, count, record=None):
        """Each once, none missing."""
        rows = (record or self.record).query(f"SELECT seq FROM record_list WHERE id = '{job}' ORDER BY seq")
        self.assertEqual([row["seq"] for row in rows], list(range(count)))

    @staticmethod
    def said(process):
        """What it has said since it was last asked."""
        return (os.read(process.stdout.fileno(), 1 << 16) if select.select([process.stdout], [], [], 0)[0] else b"").decode(errors="replace")

    def recorder(self, broker, *arguments):
        return self.box.start(self.box.scry("record", "--broker", broker.url, *arguments), stderr=subprocess.STDOUT)


class Import(RecordCase):
    def test_again_and_again(self):
        """A directory is stored as it is, once; views, files and minutes with it."""
        path = self.job()
        spool = self.lines(path)
        del spool[0]["job"], spool[0]["node"]
        for turn in range(3):
            said = self.scry("record", "--import", path).stdout
            self.assertIn(f"{len(spool) if turn == 0 else 0} new records, {len(spool)} in all", said)
        self.assertEqual(self.stored(os.path.basename(path)), spool)
        row, = self.record.query("SELECT * FROM job_list")
        self.assertEqual((row["name"], row["state"], row["exit_code"], row["complete"], row["records"], row["behind"]),
                         ("made", "failed", 3, 1, len(spool), 0))
        with open(os.path.join(path, "job.json"), encoding="utf-8") as file:
            result = json.load(file)["result"]
        self.assertEqual((row["processes"], row["peak_tree_rss_bytes"]), (result["processes"], result["peak_tree_rss_bytes"]))
        self.assertAlmostEqual(row["wall_seconds"], result["wall_seconds"], 6)
        self.assertEqual(sum(row["records"] for row in self.record.query("SELECT records FROM minutes")), len(spool))
        self.assertIn("report.txt", [row["path"] for row in self.record.query("SELECT path FROM files")])
        self.assertEqual(self.record.query("SELECT node, jobs, failed FROM node_list")[0]["failed"], 1)

    def test_parts(self):
        """What other nodes of a job have recorded comes back with it."""
        part = "scry run --anyway --quiet --part-of $(basename $SCRY_JOB):$SCRY_JOB -- sh -c 'ls /nowhere'"
        path = self.job(command=("sh", "-c", part))
        self.scry("record", "--import", path)
        def parts(job):
            found = json.loads(self.scry("report", "--json", job).stdout)["parts"]
            for each in found:
                each["job"].pop("path")
            return found
        before = parts(path)
        self.assertIn("ls", [process["name"] for each in before for process in each["processes"]])
        shutil.rmtree(path)
        self.assertEqual(parts("made"), before)

    def test_while_it_runs(self):
        run = self.start_run("-q", "--sample", "0.05", "--", "sleep", "60")
        path = scrytest.wait_until(lambda: glob.glob(self.box.path("jobs", "2*", "spool")), 20)[0][:-len("/spool")]
        said = scrytest.wait_until(lambda: self.box.run(self.box.scry("record", "--import", path)).stdout, 20)
        self.assertIn("it is not over", said)
        before = len(self.stored(os.path.basename(path)))
        scrytest.wait_until(lambda: len(self.lines(path)) > before + 3, 20)
        run.terminate()
        run.wait(20)
        self.scry("record", "--import", path)
        self.check_whole(os.path.basename(path), len(self.lines(path)))
        row, = self.record.query("SELECT state, complete, signal FROM job_list")
        self.assertEqual((row["state"], row["complete"], row["signal"]), ("killed", 1, 15))

    def test_newer(self):
        self.scry("record", "--import", self.job())
        self.record.query("UPDATE meta SET version = 99, scry = '9.1'")
        for command in (["record", "--import", "@last"], ["record", "--keep", "1d"]):
            self.assertIn("in format 99 of scry 9.1", self.scry(*command, status=1).stderr)

    def test_bad_input(self):
        path = self.job()
        for arguments, said in (
                (["record"], "give --broker URL, --import DIR or --remove JOB"),
                (["record", "--import"], "name job directories"),
                (["record", "x"], "jobs are named with"),
                (["record", "--import", "--remove", "x"], "not both")):
            self.assertIn(said, self.scry(*arguments, status=2).stderr)
        self.assertIn("no job 'nowhere'", self.scry("record", "--import", "nowhere", status=1).stderr)
        self.assertIn("there is no record", self.scry("ps", "--all", "--record", "/nowhere", status=1).stderr)
        self.assertIn("neither a directory nor", self.scry("record", "--import", "--record", "mysql://x", path, status=1).stderr)
        self.assertIn("No such file", self.scry("record", "--once", "--broker", "unix:/nowhere", status=1).stderr)
        self.assertIn("no job \"x\"", self.scry("record", "--remove", "x", status=1).stderr)
        with open(os.path.join(self.record.place, "record.db"), "r+b") as file:
            file.write(b"this is no database, but something else altogether" * 100)
        self.assertIn("is damaged", self.scry("record", "--import", path, status=1).stderr)

    @unittest.skipUnless(os.getuid() == 0, "only root can make directories of others")
    def test_of_another_user(self):
        """Whoever imports for others stores neither what their jobs' links lead to, nor jobs in the name of a third."""
        path = self.job(command=("true",))
        nobody = pwd.getpwnam("daemon").pw_uid
        secret = self.box.path("tmp", "secret")
        with open(secret, "w", encoding="ascii") as file:
            file.write("a-secret-of-somebody-4711")
        os.chmod(secret, 0o600)
        shutil.copytree(path, self.box.path("tmp", "own"))
        os.makedirs(os.path.join(path, "stats"), exist_ok=True)
        os.symlink(secret, os.path.join(path, "stats", "linked"))
        os.symlink(self.box.path("tmp"), os.path.join(path, "stats", "tree"))
        os.link(secret, os.path.join(path, "stats", "hard"))
        os.mkfifo(os.path.join(path, "stats", "pipe"))
        for place, folders, files in os.walk(path):
            for name in [place, *(os.path.join(place, each) for each in folders + files)]:
                if not name.endswith("/hard"):
                    os.chown(name, nobody, -1, follow_symlinks=False)
        description = os.path.join(path, "job.json")
        with open(description, encoding="utf-8") as file:
            info = json.load(file)
        command = [*self.box.scry("record", "--import", path)]
        said = self.box.run(command)
        self.assertIn(f"is a directory of daemon, and its job.json says that the job is {info['user']}'s", said.stderr)
        with open(description, "w", encoding="utf-8") as file:
            json.dump({**info, "user": "daemon"}, file)
        said = self.box.run(command)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual([row for row in self.record.query("SELECT path FROM files") if row["path"].startswith("stats/")], [])
        spool = os.path.join(path, "spool", "records.jsonl")
        os.unlink(spool)
        os.symlink(self.box.path("tmp", "own", "spool", "records.jsonl"), spool)
        self.assertIn("is no file of the job's owner", self.box.run(command).stderr)
        os.unlink(spool)
        os.mkfifo(spool)
        self.assertEqual(self.box.run(command).returncode, 1)
        os.unlink(description)
        os.mkfifo(description)
        self.assertIn("is no file of the directory's owner", self.box.run(command).stderr)

    def test_killed_in_mid_write(self):
        """Again and again, anywhere: what is there is whole, each record once, and the next one goes on."""
        lines = scrytest.rounds(1500, 6000)
        base = self.job(command=("true",))
        places = recordtest.copies(self.box, base, 4)
        for place in places:
            with open(os.path.join(place, "spool", "records.jsonl"), "a", encoding="utf-8") as file:
                start = len(self.lines(place))
                for seq in range(start, start + lines):
                    file.write(json.dumps({"seq": seq, "t": 0.5, "type": "untraced", "text": f"line {seq} " + "x" * 200}) + "\n")
        rounds, kills = scrytest.rounds(25, 100), 0
        for turn in range(rounds):
            run = self.box.start(self.box.scry("record", "--import", *places))
            time.sleep(random.random() * 0.12)  # anywhere: it is not waited for anything
            kills += run.poll() is None
            run.kill()
            run.wait(20)
            if turn % 10 == 0:
                for database in [os.path.join(self.record.place, "record.db"), *self.record.days()]:
                    if os.path.exists(database):
                        self.assertEqual(self.record.query("PRAGMA integrity_check", database), [{"integrity_check": "ok"}])
            if turn % 25 == 24:
                shutil.rmtree(self.record.place, ignore_errors=True)
        self.assertGreater(kills, rounds // 4)
        self.scry("record", "--import", *places)
        for place in places:
            with open(os.path.join(place, "job.json"), encoding="utf-8") as file:
                job = json.load(file)["id"]
            self.check_whole(job, len(self.lines(place)))
            row, = self.record.query(f"SELECT records, last_seq, complete, (SELECT sum(minutes.records) FROM minutes WHERE "
                                     f"minutes.job = jobs.job) AS minutes FROM jobs WHERE id = '{job}'")
            self.assertEqual(set(row.values()), {len(self.lines(place)), len(self.lines(place)) - 1, 1})

    def test_full_disk(self):
        place = self.box.path("work", "disk")
        os.mkdir(place)
        if self.box.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "none", place]).returncode:
            self.skipTest("no file system can be mounted here")
        try:
            base, = recordtest.copies(self.box, self.job(command=("true",)), 1)
            with open(os.path.join(base, "spool", "records.jsonl"), "a", encoding="utf-8") as file:
                start = len(self.lines(base))
                for seq in range(start, start + 8000):
                    file.write(json.dumps({"seq": seq, "t": 0.5, "type": "untraced", "text": f"line {seq} " + "x" * 200}) + "\n")
            self.assertIn("the disk is full", self.scry("record", "--record", place + "/r", "--import", base, status=1).stderr)
            self.assertEqual(self.box.run(["mount", "-o", "remount,size=64m", place]).returncode, 0)
            self.scry("record", "--record", place + "/r", "--import", base)
            record = recordtest.Sqlite(self.box, place + "/r")
            with open(os.path.join(base, "job.json"), encoding="utf-8") as file:
                self.check_whole(json.load(file)["id"], len(self.lines(base)), record)
        finally:
            self.box.run(["umount", place])


class Follow(RecordCase):
    @scrytest.thorough
    def test_job_and_its_directory_gone(self):
        """Followed from its start; then the record alone says all that the directory said."""
        with brokertest.Mosquitto(self.box) as broker:
            recorder = self.recorder(broker)
            broker.client("#").wait(lambda: True)
            path = self.job("--broker", broker.url)
            job = os.path.basename(path)
            scrytest.wait_until(lambda: os.path.exists(self.record.place + "/all.sql") and
                                self.record.query(f"SELECT id FROM jobs WHERE id = '{job}' AND complete = 1"), 20)
            self.assertEqual(self.stored(job)[1:], self.lines(path)[1:])
            before, watched = self.report(path), self.scry("watch", "--json", path).stdout
            marks = broker.client(f"scry/v1/+/{job}/stored/+")
            marks.wait(lambda: any(json.loads(message.payload)["complete"] for message in marks.messages))
            shutil.rmtree(path)
            after = self.report("made")
            for report in (before, after):
                for changing in ("path", "directory", "remote", "from", "mirror"):
                    report.pop(changing, None)
            self.assertEqual(after, before)
            self.assertEqual(self.scry("watch", "--json", "made").stdout, watched)
            recorded = json.loads(self.scry("ps", "--all", "--json").stdout)["jobs"]
            self.assertEqual([(each["id"], each["status"], each["exit_code"]) for each in recorded], [(job, "exited", 3)])
            self.assertNotIn(job, self.scry("ps").stdout)
            recorder.terminate()
            self.assertEqual(recorder.wait(20), 0)
            self.assertIn("stored", recorder.stdout.read())

    def test_wrong_certificate(self):
        """What does not go away by itself ends it at once, with the reason."""
        tls = brokertest.Certificates(self.box)
        with brokertest.Mosquitto(self.box, tls=tls) as broker:
            for ca, why in (("", "certificate verify failed"), ("?ca=/nothing.pem", "/nothing.pem: No such file")):
                done = self.box.run(self.box.scry("record", "--broker", f"mqtts://localhost:{broker.port}{ca}"))
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, why)

    def test_node_burnt_down(self):
        """Publisher, scry run and job killed at once, and the directory gone: the record says what they did last."""
        with brokertest.Mosquitto(self.box) as broker:
            self.recorder(broker)
            run = self.start_run("-q", "--name", "burnt", "--sample", "0.1", "--broker", broker.url, "--", "sh", "-c",
                                 "echo before; ls /nowhere; sleep 100")
            scrytest.wait_until(lambda: os.path.exists(self.record.place + "/all.sql") and self.record.query(
                "SELECT 1 FROM record_list WHERE type = 'sample' AND stream = 'node'") and self.record.query(
                "SELECT 1 FROM record_list WHERE type = 'process_end' AND record ->> 'name' = 'ls'"), 30)
            path = self.only(self.box.path("jobs", "2*"))
            for pid in self.box.processes():
                command = scrytest.process_command_line(pid)
                if pid != run.pid and b"mosquitto" not in command and b"record" not in command:
                    os.kill(pid, signal.SIGKILL)
            run.kill()
            run.wait(20)
            shutil.rmtree(path)
            scrytest.wait_until(lambda: self.record.query("SELECT 1 FROM job_list WHERE state = 'unreachable'"), 30)
            report = self.scry("report", "burnt").stdout
            for said in ("ls", "/nowhere", "sleep", "out of reach"):
                self.assertIn(said, report)

    @scrytest.hasten(4)
    def test_comes_late(self):
        """What was published before is asked for."""
        with brokertest.Mosquitto(self.box) as broker:
            publisher = recordtest.Publisher(broker, "ada", "late", 5000)
            publisher.say()
            recorder = self.recorder(broker, "--owner", "ada", "--once")
            publisher.client.wait(lambda: publisher.asks)
            publisher.add(100, publish=True)
            publisher.say(complete=True)
            self.assertEqual(recorder.wait(60), 0, self.said(recorder))
            self.check_whole("late", 5100)

    @scrytest.hasten(3)
    def test_nobody_answers(self):
        """The broker remembers beats of publishers that went without a word: they are named, and not waited for."""
        with brokertest.Mosquitto(self.box) as broker:
            for number in range(20):
                publisher = recordtest.Publisher(broker, "ada", f"gone{number}", 5)
                publisher.say(lease=1)
                publisher.client.close()
            recorder = self.recorder(broker, "--owner", "ada", "--once")
            self.assertEqual(recorder.wait(40), 1)
            self.assertEqual(recorder.stdout.read().count("is not whole, and nobody publishes it any more"), 20)

    def test_recorder_killed(self):
        """Nothing that is marked as stored is lost, and in the end all is there once."""
        with brokertest.Mosquitto(self.box) as broker:
            publishers = [recordtest.Publisher(broker, "ada", f"job{number}") for number in range(5)]
            marks = broker.client("scry/v1/ada/+/stored/+")
            for turn in range(scrytest.rounds(15, 100)):
                recorder = self.recorder(broker, "--owner", "ada", "-q")
                for publisher in publishers:
                    publisher.add(50, publish=True)
                    publisher.say()
                time.sleep(random.random() * 0.5)  # anywhere
                recorder.kill()
                recorder.wait(20)
                said = {message.topic.split("/")[3]: json.loads(message.payload)["last_seq"] for message in marks.messages}
                for row in self.record.query("SELECT id, last_seq FROM jobs") if os.path.exists(
                        self.record.place + "/all.sql") else []:
                    self.assertGreaterEqual(row["last_seq"], said.get(row["id"], -1))
            for publisher in publishers:
                publisher.say(complete=True)
            recorder = self.recorder(broker, "--owner", "ada", "--once")
            self.assertEqual(recorder.wait(90), 0)
            for publisher in publishers:
                self.check_whole(publisher.job, len(publisher.lines))

    @scrytest.hasten(4)
    def test_many_jobs(self):
        count = scrytest.rounds(40, 100)  # a few of them are asked at a time
        with brokertest.Mosquitto(self.box) as broker:
            publishers = [recordtest.Publisher(broker, "user0", "job0", 20)]
            publishers[0].say()  # it is waited for, and so for all others
            recorder = self.recorder(broker, "--owner", "all", "--once")
            publishers[:0] = [recordtest.Publisher(broker, f"user{number % 7}", f"job{number}", 20) for number in range(1, count)]
            for publisher in publishers:
                publisher.add(30, publish=True)
                publisher.say(complete=True)
            self.assertEqual(recorder.wait(120), 0)
            row, = self.record.query("SELECT count(*) AS jobs, sum(complete) AS complete, sum(records) AS records FROM jobs")
            self.assertEqual(row, {"jobs": count, "complete": count, "records": 50 * count})

    def test_broker_away(self):
        """It is not there at first, and goes away in the middle."""
        broker = brokertest.Mosquitto(self.box, persistent=True)
        with broker:
            broker.stop()
            recorder = self.recorder(broker, "--owner", "ada")
            scrytest.wait_until(lambda: recorder.poll() is None, 5)
            broker.start()
            publisher = recordtest.Publisher(broker, "ada", "away")
            publisher.add(100, publish=True)
            publisher.say()
            scrytest.wait_until(lambda: os.path.exists(self.record.place + "/all.sql") and self.record.query(
                "SELECT 1 FROM jobs WHERE last_seq = 99"), 40)
            broker.stop()
            broker.start()
            scrytest.wait_until(lambda: publisher.client.mqtt.is_connected(), 20)
            publisher.client.mqtt.subscribe(publisher.base + "/ask", 1)
            publisher.add(100, publish=True)
            publisher.say(complete=True)
            scrytest.wait_until(lambda: self.record.query("SELECT 1 FROM jobs WHERE complete = 1"), 60)
            self.check_whole("away", 200)

    def test_lying_broker(self):
        """It repeats, changes the order, drops what has QoS 0, and hangs up each second: each record is stored once."""
        with brokertest.Mosquitto(self.box) as honest, brokertest.LyingBroker(honest) as broker:
            broker.duplicate, broker.reorder, broker.drop_qos0, broker.hang_up = True, True, True, 1.0
            recorder = self.recorder(broker, "--owner", "ada")
            publisher = recordtest.Publisher(honest, "ada", "lied")
            for part in range(20):
                publisher.add(100)
                lines = "\n".join(publisher.lines[-100:]) + "\n"
                publisher.client.publish(publisher.base + "/job", lines, qos=part % 2)
                publisher.say()
            publisher.say(complete=True)
            scrytest.wait_until(lambda: os.path.exists(self.record.place + "/all.sql") and
                                self.record.query("SELECT 1 FROM jobs WHERE complete = 1"), 50, lambda: self.said(recorder))
            self.check_whole("lied", 2000)

    def test_disk_full_for_a_while(self):
        place = self.box.path("work", "disk")
        os.mkdir(place)
        if self.box.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "none", place]).returncode:
            self.skipTest("no file system can be mounted here")
        try:
            with brokertest.Mosquitto(self.box) as broker:
                recorder = self.recorder(broker, "--owner", "ada", "--record", place + "/r")
                publisher = recordtest.Publisher(broker, "ada", "full")
                for _ in range(20):
                    publisher.add(500, publish=True)
                publisher.say(complete=True)
                scrytest.wait_until(lambda: "the disk is full; nothing is lost yet" in self.said(recorder), 20)
                self.assertEqual(self.box.run(["mount", "-o", "remount,size=64m", place]).returncode, 0)
                record = recordtest.Sqlite(self.box, place + "/r")
                scrytest.wait_until(lambda: "full  stored, 10000 records" in self.said(recorder), 30)
                self.check_whole("full", 10000, record)
                recorder.terminate()
                recorder.wait(20)
        finally:
            self.box.run(["umount", place])

    def test_hostile(self):
        """Another user's records: statements, terminal escapes, somebody else's name, damaged, huge."""
        evil = "x'); DROP TABLE jobs; --\x1b[2J"
        with brokertest.Mosquitto(self.box) as broker:
            ada, eve = recordtest.Publisher(broker, "ada", "same", 3), recordtest.Publisher(broker, "eve", "same")
            eve.lines = [json.dumps(eve.record(0)),
                         json.dumps(eve.record(1, owner="ada", job="other", node=evil, stream="warning", type=evil, text=evil)),
                         json.dumps(eve.record(2, type="warning", kind=evil, text=evil))]
            bad = ["", "{", "[]", "null", '{"seq": 3}', '{"seq": -1, "t": 0, "type": "x"}', '{"seq": 1e30, "t": 0, "type": "x"}',
                   '{"seq": 9223372036854775807, "t": 0, "type": "x"}', '{"seq": 4, "t": 1e300, "type": "x"}',
                   '{"seq": 5, "t": 0, "type": "' + "y" * 100 + '"}', '{"seq": 6, "t": 0, "type": "x", "a": "\\u0000"}', "\xff\x00"]
            recorder = self.recorder(broker, "--owner", "all", "--once")
            for publisher in (ada, eve):
                publisher.say(name=evil)
            scrytest.wait_until(lambda: os.path.exists(self.record.place + "/all.sql") and
                                self.record.query("SELECT sum(records) FROM jobs HAVING sum(records) = 6"), 20)
            eve.client.publish(eve.base + "/warning", "\n".join(bad))
            for payload in ("[]", "{}", '{"path": "../../x", "bytes": 1, "part": 0, "parts": 1, "version": 1, "text": "x"}',
                            '{"path": "a", "bytes": 1, "part": 9, "parts": 2, "version": 1, "text": "x"}'):
                eve.client.publish(eve.base + "/file", payload)
            for payload in ("[]", '{"state": 1, "info": [], "last_seq": "x"}', '{"state": "' + "z" * 1000 + '", "last_seq": 2}'):
                eve.client.publish(eve.base + "/state", payload)
            ada.say(complete=True, name=evil)
            eve.say(complete=True, name=evil, argv=[evil], host=evil, started_ns=9 * 10 ** 18)
            self.assertEqual(recorder.wait(60), 0)
            self.assertNotIn("\x1b", recorder.stdout.read())
            rows = self.record.query("SELECT owner, id, records, refused, name FROM jobs ORDER BY owner")
            self.assertEqual([(row["owner"], row["id"], row["records"]) for row in rows], [("ada", "same", 3), ("eve", "same", 3)])
            self.assertEqual([row["name"] for row in rows], [evil, evil])
            self.assertGreaterEqual(rows[1]["refused"], 5)
            self.assertEqual(rows[0]["refused"], 0)
            for command in (["ps", "--all"], ["report", "eve/same"], ["watch", "eve/same"]):
                shown = self.scry(*command).stdout
                self.assertNotIn("\x1b", shown)
            self.assertFalse(os.path.exists(self.box.path("x")))
            self.assertIn("record 2 of same", self.scry("watch", "ada/same").stdout)
            self.assertIn("may be several jobs", self.scry("report", "same", status=1).stderr + self.scry(
                "record", "--remove", "same", status=1).stderr)
            self.scry("record", "--remove", "eve/same")
            self.assertEqual([row["owner"] for row in self.record.query("SELECT owner FROM jobs")], ["ada"])
            self.check_whole("same", 3)


class Owner(RecordCase):
    """A record has one recorder."""

    def check_second(self, *place):
        with brokertest.Mosquitto(self.box) as broker:
            first = self.recorder(broker, *place)
            scrytest.wait_until(lambda: "following" in self.said(first), 20)
            second = self.recorder(broker, *place)
            self.assertEqual(second.wait(30), 1)
            self.assertRegex(self.said(second), rf"another recorder \(process {first.pid} on \S+\) writes the record")
            self.assertEqual(self.said(first), "")  # it was left in peace
            self.assertEqual(self.scry("record", *place, "--import", self.job()).returncode, 0)
            first.kill()
            third = self.recorder(broker, *place)
            def connections():
                with open(broker.log, encoding="utf-8") as file:
                    return file.read().count("as scry-record")
            scrytest.wait_until(lambda: connections() == 2, 20, lambda: f"{connections()} connections: {self.said(third)}")

    @scrytest.hasten(4)
    def test_second_recorder(self):
        self.check_second()

    @scrytest.thorough
    @scrytest.hasten(4)
    def test_second_recorder_of_a_server(self):
        self.check_second("--record", recordtest.postgres().url)

    def test_records_of_one_name(self):
        """Two directories of one relative name are two records: their recorders have two names at the broker."""
        with brokertest.Mosquitto(self.box) as broker:
            for place in ("one", "two"):
                os.mkdir(self.box.path("work", place))
                recorder = self.box.start(self.box.scry("record", "--broker", broker.url, "--record", "record"),
                                          cwd=self.box.path("work", place))
                scrytest.wait_until(lambda: "following" in self.said(recorder), 20)
            def names():
                with open(broker.log, encoding="utf-8") as file:
                    return set(re.findall(r"as (scry-record\w+)", file.read()))
            scrytest.wait_until(lambda: len(names()) == 2, 10, names)


class Keep(RecordCase):
    def age(self, day="2020-01-01"):
        """Makes today's records older, as time would."""
        old, = self.record.days()
        os.rename(old, os.path.join(self.record.place, f"day-{day}.db"))
        self.record.query(f"UPDATE ranges SET day = '{day}'", os.path.join(self.record.place, "record.db"))
        os.unlink(os.path.join(self.record.place, "all.sql"))

    def test_by_days(self):
        """Records go with their day; minutes and summary stay, and what was dropped does not come again."""
        path = self.job()
        count = len(self.lines(path))
        self.scry("record", "--import", path)
        self.age()
        fresh, = recordtest.copies(self.box, path, 1, "fresh")
        self.scry("record", "--import", fresh)
        self.assertEqual(len(self.record.days()), 2)
        self.assertIn("dropped the records of 1 day", self.scry("record", "--keep", "30d").stdout)
        self.assertEqual([os.path.basename(day)[:8] for day in self.record.days()], ["day-" + time.strftime("%Y", time.gmtime())])
        self.assertEqual(self.stored(os.path.basename(path)), [])
        self.check_whole(os.path.basename(path) + "-fresh0", count)
        self.assertEqual([row["records"] for row in self.record.query("SELECT sum(records) AS records FROM minutes GROUP BY job")],
                         [count, count])
        self.assertIn("0 new records", self.scry("record", "--import", path).stdout)
        shutil.rmtree(path)
        said = self.scry("report", os.path.basename(path), status=1).stderr
        self.assertIn("the records of", said)
        self.record.query("UPDATE jobs SET heard = 1000 WHERE name = 'made'", os.path.join(self.record.place, "record.db"))
        self.scry("record", "--keep-minutes", "30d")
        self.assertEqual(len(self.record.query("SELECT DISTINCT job FROM minutes")), 1)
        self.assertEqual(len(self.record.query("SELECT * FROM job_list")), 2)

    def test_several_days(self):
        """A job whose records came on several days is read as a whole."""
        path = self.job()
        half, = recordtest.copies(self.box, path, 1, "half")
        spool = os.path.join(half, "spool", "records.jsonl")
        with open(spool, encoding="utf-8") as file:
            lines = file.readlines()
        with open(spool, "w", encoding="utf-8") as file:
            file.writelines(lines[:5])
        self.scry("record", "--import", half)
        self.age(time.strftime("%Y-%m-%d", time.gmtime(time.time() - 86400)))
        with open(spool, "w", encoding="utf-8") as file:
            file.writelines(lines)
        self.scry("record", "--import", half)
        self.assertEqual(len(self.record.days()), 2)
        self.assertEqual(len(self.scry("watch", "half0").stdout.splitlines()), len(self.scry("watch", path).stdout.splitlines()))


class PostgreSQL(RecordCase):
    def test_same_as_sqlite(self):
        """The same jobs in both say the same, to psql and sqlite3, and through scry."""
        server = recordtest.postgres()
        path = self.job()
        places = [path, *recordtest.copies(self.box, path, 2)]
        for _ in range(2):
            self.scry("record", "--import", *places)
            self.scry("record", "--record", server.url, "--import", *places)
        for view, order in (("job_list", "id"), ("minute_list", "id, minute"), ("warning_list", "id, time_at, text"),
                            ("failure_list", "id, time_at, text"), ("node_list", "node")):
            ours, theirs = (store.query(f"SELECT * FROM {view} ORDER BY {order}") for store in (self.record, server))
            for row in ours + theirs:
                for clock in [name for name in row if name.endswith("_at") or name.startswith("heard") or name == "job"]:
                    row.pop(clock)
                for name, value in row.items():
                    row[name] = round(value, 6) if isinstance(value, float) else value
            self.assertEqual(ours, theirs)
        for place in places:
            job = json.load(open(os.path.join(place, "job.json"), encoding="utf-8"))["id"]
            self.assertEqual(self.stored(job, server), self.stored(job))
        self.assertEqual(len(server.query("SELECT inhrelid FROM pg_inherits WHERE inhparent = 'records'::regclass")), 1)
        with open(os.path.join(scrytest.SOURCE, "doc", "howto", "site.md"), encoding="utf-8") as file:
            block = file.read().split("```sql\n")[1].split("```")[0]
        lines = [line for line in block.split("\n") if not line.startswith("--")]
        examples = [text for text in "\n".join(lines).split(";") if text.strip()]
        self.assertGreater(len(examples), 3)
        for sql in examples:
            self.assertEqual(len(self.record.query(sql)), len(server.query(sql)), sql)
        shutil.rmtree(path)
        self.assertIn("exit status 3", self.scry("report", "--record", server.url, "made").stdout)
        self.assertIn("made", self.scry("ps", "--all", "--record", server.url).stdout)
        # a day goes as a partition
        today = time.strftime("%Y-%m-%d", time.gmtime())
        self.box.run(["psql", "-c", f'ALTER TABLE records DETACH PARTITION "records_{today}"', "-c",
                      f"UPDATE \"records_{today}\" SET day = '2020-01-01'", "-c",
                      f'ALTER TABLE "records_{today}" RENAME TO "records_2020-01-01"', "-c",
                      "ALTER TABLE records ATTACH PARTITION \"records_2020-01-01\" FOR VALUES IN ('2020-01-01')", "-c",
                      "UPDATE ranges SET day = '2020-01-01'", server.url])
        self.assertIn("dropped the records of 1 day", self.scry("record", "--record", server.url, "--keep", "8w").stdout)
        self.assertEqual(server.query("SELECT count(*) AS n FROM records"), [{"n": 0}])
        self.scry("record", "--record", server.url, "--remove", "copy0")
        self.assertEqual(server.query("SELECT count(*) AS n FROM jobs"), [{"n": 2}])

    @scrytest.thorough
    def test_server_restarts(self):
        """What comes while the server is away is stored when it is back."""
        server = recordtest.postgres()
        with brokertest.Mosquitto(self.box) as broker:
            recorder = self.recorder(broker, "--owner", "ada", "--record", server.url)
            publisher = recordtest.Publisher(broker, "ada", "job")
            publisher.add(100, publish=True)
            publisher.say()
            scrytest.wait_until(lambda: server.query("SELECT 1 AS x FROM pg_class WHERE relname = 'record_list'") and
                                server.query("SELECT 1 AS x FROM jobs WHERE last_seq = 99"), 30)
            server.stop()
            publisher.add(100, publish=True)
            publisher.say(complete=True)
            scrytest.wait_until(lambda: "it is tried again" in self.said(recorder), 20)
            server.start()
            scrytest.wait_until(lambda: server.query("SELECT 1 AS x FROM jobs WHERE complete = 1"), 40)
            self.check_whole("job", 200, server)


scrytest.main()
