# SPDX-License-Identifier: Apache-2.0
"""Faults on the way of a job's records, and what they cost: its own records, those of a reader elsewhere, those of the record.

    test_faults.py --table      prints what each fault costs, as a table

A job writes lines of a log, a process for each, with figures in between. `scry watch` and `scry record` follow it through a
broker. Amidst all that the fault is injected. Then each record of the job directory is looked for where it was sent.
What a recorder has said that it has (`stored`), must be there whatever happens.
"""

import collections
import contextlib
import glob
import json
import os
import pwd
import signal
import subprocess
import sys
import time
import unittest

import brokertest
import jobtest
import recordtest
import scrytest
from scrytest import wait_until

# Goes on until there is a file "go": a failed command, a line of a log, and processes.
JOB = "i=0; until [ -e GO ]; do i=$((i+1)); echo ERROR $i >&2; /bin/sh -c 'exit 4'; sleep 0.1; done; exit 3"
# Always: a broker that comes back, a silent network, repeats, a full disk, and what dies at each place.
WHOLE = scrytest.THOROUGH or bool(sys.argv[1:])
thorough = unittest.skipUnless(WHOLE, "in thorough runs")
Row = collections.namedtuple("Row", "fault job reader record stored lost doubled note")


class Faults(jobtest.JobCase):
    """One method for each fault. Each says in its first line what the table calls it."""

    case_seconds = 240
    rows = []

    def setUp(self):
        super().setUp()
        self.user = self.box.run(["id", "-un"]).stdout.strip() if self.box.identity else pwd.getpwuid(os.geteuid()).pw_name
        self.record = recordtest.Sqlite(self.box)

    def begin(self, broker, run_url=None, away_url=None, store=None):
        """A job, a reader, and a recorder; until all three have some records."""
        self.broker, self.store = broker, store
        self.addCleanup(self.end_all)
        self.run_url, self.away_url = run_url or broker.url, away_url or broker.url
        self.marks = broker.client("scry/v1/+/+/stored/+")
        self.states = broker.client("scry/v1/+/+/state", "scry/v1/+/+/beat")
        self.start_recorder()
        self.run_ = self.start_run("-q", "--name", "job", "--sample", "0.1", "--broker", self.run_url, "--", "sh", "-c", JOB,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.states.wait(lambda: self.states.of("/state"))
        self.path = os.path.realpath(glob.glob(self.box.path("jobs", "2*"))[0])
        self.job_id = os.path.basename(self.path)
        self.watched = self.box.path("work", "watched")
        self.start_reader()
        self.more()

    def end_all(self):
        """So that a case that failed ends, too."""
        self.go()
        for pid in self.box.processes("scry-publisher"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def start_reader(self):
        with open(self.watched, "w", encoding="utf-8") as file:
            place = self.away_url + ("//" if self.away_url.startswith("unix:") else "/")
            self.reader = self.box.start(self.box.scry("watch", "--json", f"{place}{self.user}/{self.job_id}"), stdout=file, stderr=file)

    def start_recorder(self):
        words = ["--record", self.store] if self.store else []
        self.log = self.box.path("work", "recorder")
        with open(self.log, "a", encoding="utf-8") as file:
            self.recorder = self.box.start(self.box.scry("record", "--broker", self.away_url, *words), stdout=file, stderr=file)

    def own(self):
        """{number: record} of the job directory."""
        with open(os.path.join(self.path, "spool", "records.jsonl"), encoding="utf-8") as file:
            return {record["seq"]: record for record in map(json.loads, (line for line in file if line.endswith("\n")))}

    def read(self):
        """The numbers that the reader has printed."""
        with open(self.watched, encoding="utf-8") as file:
            return [json.loads(line)["seq"] for line in file if line.startswith("{") and line.endswith("\n") and '"seq"' in line]

    def recorded(self):
        if not os.path.exists(os.path.join(self.record.place, "all.sql")):
            return []
        return [row["seq"] for row in self.record.query(f"SELECT seq FROM record_list WHERE id = '{self.job_id}'")]

    def promised(self):
        """Up to which number the recorder has said that it has all."""
        return max((json.loads(message.payload)["last_seq"] for message in self.marks.messages), default=-1)

    def more(self, count=20, reader=True, recorder=True):
        """Until so many more records have been made, and have come to both."""
        last = max(self.own(), default=0)
        wait_until(lambda: max(self.own(), default=0) >= last + count, 30, "records are made")
        if reader:
            wait_until(lambda: max(self.read(), default=-1) > last, 40, lambda: f"the reader has {self.read()[-3:]} of {last}")
        if recorder:
            wait_until(lambda: max(self.recorded(), default=-1) > last, 40, self.said)

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return f"the recorder has {sorted(self.recorded())[-3:]}; {file.read()[-500:]}"

    def go(self):
        with open(self.box.path("work", "GO"), "w", encoding="ascii"):
            pass

    def finish(self, status=3):
        """The job ends, and all follows to its end."""
        self.go()
        self.assertEqual(self.run_.wait(40 * scrytest.SCALE), status)
        self.reader.wait(60 * scrytest.SCALE)
        wait_until(lambda: self.recorded() and self.record.query(f"SELECT 1 FROM jobs WHERE id = '{self.job_id}' AND complete = 1"),
                   60, self.said)
        self.count()

    def count(self, gone=(), note=""):
        """Compares. `gone`: numbers of records that nobody could have sent any more."""
        own, read, recorded, promised = self.own(), self.read(), self.recorded(), self.promised()
        for name, numbers in (("reader", read), ("record", recorded)):
            self.assertEqual(len(numbers), len(set(numbers)), f"doubled at the {name}")
            self.assertEqual(set(own) - set(numbers) - set(gone), set(), f"lost at the {name}")
            self.assertEqual(set(numbers) - set(own), set(), f"at the {name} only")
        self.assertEqual([number for number in range(promised + 1) if number not in set(recorded)], [], "said to be stored")
        fault = self._testMethodDoc.splitlines()[0].rstrip(".")
        doubled = len(read) - len(set(read)) + len(recorded) - len(set(recorded))
        self.rows.append(Row(fault, len(own), len(read), len(recorded), promised + 1,
                             len((set(own) - set(read)) | (set(own) - set(recorded))), doubled, note))

    def publisher(self):
        (pid,) = wait_until(lambda: list(self.box.processes("scry-publisher")), 10, "a publisher")
        return pid

    def mosquitto(self, **options):
        broker = brokertest.Mosquitto(self.box, **options)
        self.addCleanup(broker.close)
        return broker

    # ---- the broker ----

    @thorough
    def test_none(self):
        """none"""
        self.begin(self.mosquitto())
        self.more()
        self.finish()

    def test_broker_killed(self):
        """broker killed; started again with what it had kept"""
        self.begin(self.mosquitto(persistent=True))
        self.broker.stop(signal.SIGKILL)
        self.more(reader=False, recorder=False)
        self.broker.start()
        self.more()
        self.finish()

    @thorough
    def test_broker_forgets(self):
        """broker ended; started again without anything that it had"""
        self.begin(self.mosquitto())
        self.broker.stop()
        self.more(reader=False, recorder=False)
        self.broker.start()
        self.more()
        self.finish()

    @thorough
    def test_broker_stopped(self):
        """broker hangs (SIGSTOP) for some seconds"""
        self.begin(self.mosquitto())
        self.broker.pause()
        self.more(50, reader=False, recorder=False)
        self.broker.resume()
        self.more()
        self.finish()

    @thorough
    def test_broker_disk_full(self):
        """disk of the broker full; killed, and started again on it"""
        place = self.box.path("work", "disk")
        os.mkdir(place)
        self.mount(place, "size=256k")
        self.begin(self.mosquitto(lines=("persistence true", f"persistence_location {place}/", "autosave_interval 1",
                                         "autosave_on_changes true")))
        self.fill(place)
        self.more(50)
        self.broker.stop(signal.SIGKILL)
        self.broker.start()
        self.more()
        self.finish()

    @staticmethod
    def fill(place):
        """What takes all room there; the path."""
        path = os.path.join(place, "ballast")
        fd = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
        with contextlib.suppress(OSError):
            while os.write(fd, b"\0" * 4096):
                pass
        os.close(fd)
        return path

    def mount(self, place, options):
        if self.box.run(["mount", "-t", "tmpfs", "-o", f"{options},mode=700", "none", place]).returncode:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(self.box.run, ["umount", "-l", place])

    def liar(self):
        """A broker behind a proxy for the job, and one for those who follow it."""
        broker = self.mosquitto()
        proxies = [brokertest.LyingBroker(broker) for _ in range(2)]
        for proxy in proxies:
            self.addCleanup(proxy.close)
        self.begin(broker, proxies[0].url, proxies[1].url)
        return proxies

    # ---- the network ----

    @thorough
    def test_job_cut_off(self):
        """network of the job away"""
        job, _ = self.liar()
        job.refuse = True
        job.cut()
        self.more(40, reader=False, recorder=False)
        job.refuse = False
        self.more()
        self.finish()

    def test_job_silent(self):
        """network of the job swallows what is sent, without an error"""
        job, _ = self.liar()
        job.stalled = job.deaf = True
        self.more(40, reader=False, recorder=False)
        job.cut()
        job.stalled = job.deaf = False
        self.more()
        self.finish()

    @thorough
    def test_readers_cut_off(self):
        """network of reader and recorder away"""
        _, away = self.liar()
        away.refuse = True
        away.cut()
        self.more(40, reader=False, recorder=False)
        away.refuse = False
        self.more()
        self.finish()

    def test_repeats(self):
        """broker repeats each message, and changes their order"""
        job, away = self.liar()
        for proxy in (job, away):
            proxy.duplicate = proxy.reorder = True
        self.more(60)
        self.finish()

    @thorough
    def test_drops_figures(self):
        """broker drops all of QoS 0, that is all figures"""
        job, away = self.liar()
        job.drop_qos0 = away.drop_qos0 = True
        self.more(60)
        self.finish()

    @thorough
    def test_hangs_up(self):
        """broker ends each connection after a second"""
        job, away = self.liar()
        job.hang_up = away.hang_up = 1
        self.more(80)
        away.hang_up = None  # a publisher stays two seconds for readers, which may be away just then,
        self.more()  # or not at all, if it is cut off when all is said: so they are back before the end
        self.finish()

    # ---- the processes ----

    def test_publisher_killed(self):
        """publisher killed (SIGKILL)"""
        self.begin(self.mosquitto())
        first = self.publisher()
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: [pid for pid in self.box.processes("scry-publisher") if pid != first], 20, "another publisher")
        self.more()
        self.finish()

    @thorough
    def test_run_killed(self):
        """`scry run` killed (SIGKILL): nothing more is recorded"""
        self.begin(self.mosquitto())
        self.run_.kill()
        self.run_.wait()
        self.states.wait(lambda: not json.loads(self.states.of("/state")[-1].payload)["watched"], 30)
        self.finish(-signal.SIGKILL)

    def test_recorder_killed(self):
        """recorder killed (SIGKILL) ten times"""
        self.begin(self.mosquitto())
        for turn in range(10 if WHOLE else 4):
            self.recorder.kill()
            self.recorder.wait()
            have = set(self.recorded())
            self.assertEqual([number for number in range(self.promised() + 1) if number not in have], [])
            self.start_recorder()
            self.more(3, recorder=turn % 3 == 0)
        self.finish()

    @thorough
    def test_reader_killed(self):
        """reader killed (SIGKILL), and another one started"""
        self.begin(self.mosquitto())
        self.reader.kill()
        self.reader.wait()
        for pid in self.box.processes("scry-mirror"):
            os.kill(pid, signal.SIGKILL)
        self.start_reader()
        self.more()
        self.finish()

    def test_record_disk_full(self):
        """disk of the record full for some seconds"""
        place = self.box.path("work", "disk")
        os.mkdir(place)
        self.mount(place, "size=4m")
        self.record = recordtest.Sqlite(self.box, place + "/r")
        self.begin(self.mosquitto(), store=place + "/r")
        ballast = self.fill(place)

        def full():
            with open(self.log, encoding="utf-8") as file:
                return "disk is full" in file.read()
        wait_until(full, 30, self.said)
        self.more(recorder=False)
        os.unlink(ballast)
        self.more()
        self.finish()

    def test_node_gone(self):
        """node gone: job, `scry run` and publisher killed at once"""
        self.begin(self.mosquitto())
        self.more()
        for pid in self.box.processes():
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read()
            if b"mosquitto" not in words and b"watch" not in words and b"record" not in words and b"scry-mirror" not in words:
                os.kill(pid, signal.SIGKILL)
        own = self.own()
        self.states.wait(lambda: not json.loads(self.states.of("/beat")[-1].payload)["connected"], 30)
        before = -1

        def settled():
            nonlocal before
            seen, before = before, len(self.recorded())
            time.sleep(1.5)  # nothing more comes: there is nobody who could send it
            return seen == before
        wait_until(settled, 30)
        gone = set(own) - (set(self.recorded()) & set(self.read()))
        # nobody could send these any more; all that the broker had is there
        self.assertLess(len(gone), 30)
        self.count(gone, f"the last {len(gone)} were not sent yet")
        self.reader.kill()


def table():
    """Runs all, and prints the table."""
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=2).run(unittest.TestSuite(Faults(name) for name in vars(Faults) if name.startswith("test")))
    print("| fault | records of the job | at the reader | in the record | said to be stored | lost | doubled |\n|---|---|---|---|---|---|---|")
    for row in Faults.rows:
        print(f"| {row.fault} | {row.job} | {row.reader} | {row.record} | {row.stored} | {row.lost}{': ' + row.note if row.lost and row.note else ''} "
              f"| {row.doubled} |")
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        table()
    scrytest.main()
