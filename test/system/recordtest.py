# SPDX-License-Identifier: Apache-2.0
"""The record in tests: its tables through stock clients (sqlite3, psql), jobs made in numbers, a publisher that is a test."""

import glob
import json
import os
import pwd
import shutil
import signal
import subprocess
import time
import unittest

import scrytest

SQLITE = shutil.which("sqlite3", path=scrytest.SYSTEM_PATH)


def postgres_programs():
    """The folder of initdb and postgres, the newest."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    return os.path.dirname(found[-1]) if found else None


class Sqlite:
    """The record of the box, or in a directory."""

    def __init__(self, box, place=None):
        self.box = box
        self.place = place or box.path("home", ".local", "state", "scry", "record")
        self.url = self.place

    def query(self, sql, database=None):
        """The rows, as dictionaries, as the stock client prints them."""
        if not SQLITE:
            raise AssertionError("sqlite3 is missing")
        words = [SQLITE, "-json", "-cmd", ".timeout 10000"]
        if database is None and os.path.exists(os.path.join(self.place, "all.sql")):
            words += ["-init", os.path.join(self.place, "all.sql")]
        done = self.box.run([*words, database or os.path.join(self.place, "record.db"), sql])
        if done.returncode or "Error" in done.stderr:
            raise AssertionError(f"{sql}: {done.stderr}{done.stdout}")
        return json.loads(done.stdout or "[]")

    def days(self):
        return sorted(glob.glob(os.path.join(glob.escape(self.place), "day-*.db")))


class Postgres:
    """A server of its own, on a unix socket below the box, as an ordinary user; and a database there, see postgres()."""

    def __init__(self, box):
        self.box = box
        programs = postgres_programs()
        if not programs:
            raise AssertionError("postgresql is missing")
        self.place, self.user = box.path("tmp", "pg"), {}
        os.mkdir(self.place, 0o700)
        if os.getuid() == 0:  # as root it refuses to run
            entry = pwd.getpwnam("nobody")
            self.user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
            os.chown(self.place, entry.pw_uid, entry.pw_gid)
            for path in (box.root, box.path("tmp")):
                os.chmod(path, 0o711)
        self._run(os.path.join(programs, "initdb"), "-D", self.place + "/data", "-U", "scry", "-A", "trust", "-N", "--no-locale",
                  "-E", "UTF8")
        self.programs, self.databases = programs, 0
        self.url = f"postgresql://scry@/postgres?host={self.place}"
        self.start()

    def next_database(self):
        self.databases += 1
        self._run("psql", "-X", "-c", f"CREATE DATABASE d{self.databases}", self.url)
        self.url = f"postgresql://scry@/d{self.databases}?host={self.place}"

    def start(self):
        with open(os.path.join(self.place, "log"), "ab") as log:
            self.process = subprocess.Popen(
                [os.path.join(self.programs, "postgres"), "-D", self.place + "/data", "-k", self.place, "-c", "listen_addresses="],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", **self.user)
        self.box.started.append(self.process)
        scrytest.wait_until(lambda: os.path.exists(self.place + "/.s.PGSQL.5432") and
                            self.box.run(["psql", "-c", "SELECT 1", self.url]).returncode == 0, 30, "PostgreSQL")

    def _run(self, *command):
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd="/", **self.user)
        if done.returncode:
            raise AssertionError(f"{command[0]}: {done.stdout}{done.stderr}")

    def query(self, sql):
        done = self.box.run(["psql", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c",
                             f"SELECT coalesce(json_agg(row_to_json(the_row)), '[]') FROM ({sql}) the_row", self.url])
        if done.returncode:
            raise AssertionError(f"{sql}: {done.stderr}")
        return json.loads(done.stdout)

    def stop(self):
        self.process.send_signal(signal.SIGINT)  # at once: it does not wait for its clients
        self.process.wait(30)


_server = None


def postgres():
    """The one server of all cases of a file, which goes on in an empty database: to make a server takes some seconds."""
    global _server
    if not _server:
        box = scrytest.Sandbox()
        unittest.addModuleCleanup(box.close)
        _server = Postgres(box)
    _server.next_database()
    return _server


class Publisher:
    """Publishes made-up jobs as doc/reference/broker.md says, and answers what is asked of it."""

    def __init__(self, broker, owner, job, records=0, node="n1"):
        self.owner, self.job, self.node, self.lines = owner, job, node, []
        self.base = f"scry/v1/{owner}/{job}"
        self.asks = 0
        self.client = broker.client(self.base + "/ask")
        self.client.mqtt.on_message = self._asked
        self.add(records)

    def record(self, seq, **fields):
        if seq == 0:
            fields = {"type": "spool", "format": "scry-spool", "version": 1}
        return {"job": self.job, "node": self.node, "stream": "job", "seq": seq, "t": seq / 100,
                "type": "untraced", "text": f"record {seq} of {self.job}", **fields}

    def add(self, count, publish=False):
        first = len(self.lines)
        self.lines += [json.dumps(self.record(seq)) for seq in range(first, first + count)]
        if publish:
            self.client.mqtt.publish(self.base + "/job", "\n".join(self.lines[first:]) + "\n", 1)

    def say(self, complete=False, connected=True, state=None, lease=15, **info):
        state = state or ("finished" if complete else "running")
        job_json = {"format": "scry-job", "version": 1, "id": self.job, "name": "made", "host": self.node, "user": self.owner,
                    "cwd": "/", "argv": ["made"], "started_ns": 1700000000000000000, "boot_id": "b", **info}
        self.client.mqtt.publish(self.base + "/state", json.dumps(
            {"version": 1, "job": self.job, "owner": self.owner, "node": self.node, "state": state, "info": job_json, "dir": "/d",
             "boot_id": "b", "last_seq": len(self.lines) - 1, "address": None, "complete": complete}), 1, True)
        self.client.mqtt.publish(self.base + "/beat", json.dumps(
            {"connected": connected, "beat": 1, "time": time.time(), "lease_seconds": lease, "last_seq": len(self.lines) - 1}), 1, True)

    def _asked(self, mqtt, _ctx, message):
        ask = json.loads(message.payload)
        self.asks += 1
        first, to = ask["from"], ask["to"] if ask["to"] >= 0 else len(self.lines)
        to = min(to, len(self.lines), first + 2000)
        reader = f"{self.base}/again/{ask['reader']}"
        for at in range(first, to, 200):
            mqtt.publish(reader + "/records", "\n".join(self.lines[at:min(at + 200, to)]) + "\n", 1)
        mqtt.publish(reader + "/end", json.dumps({"from": first, "to": to, "last_seq": len(self.lines) - 1}), 1)


def copies(box, path, count, name="copy"):
    """Job directories like this one, under other ids."""
    made = []
    for number in range(count):
        place = box.path("work", f"{name}{number}")
        shutil.copytree(path, place, symlinks=True)
        with open(os.path.join(place, "job.json"), encoding="utf-8") as file:
            info = json.load(file)
        old, info["id"], info["name"] = info["id"], f"{info['id']}-{name}{number}", f"{name}{number}"
        with open(os.path.join(place, "job.json"), "w", encoding="utf-8") as file:
            json.dump(info, file)
        spool = os.path.join(place, "spool", "records.jsonl")
        with open(spool, encoding="utf-8") as file:
            text = file.read()
        with open(spool, "w", encoding="utf-8") as file:
            file.write(text.replace(old, info["id"], 1))
        made.append(place)
    return made
