# SPDX-License-Identifier: Apache-2.0
"""The health of the node and of the job: records, and warnings while the job runs."""

import base64
import json
import os
import subprocess
import sys
import unittest

import schematest
import scrytest
from jobtest import JobCase
from scrytest import wait_until


class Health(JobCase):
    def records(self, kind, job=None):
        """Of a job directory, also while the job runs; of the last job."""
        job = job or json.loads(self.scry("ps", "--json").stdout)["jobs"][0]["path"]
        with open(os.path.join(job, "spool", "records.jsonl"), encoding="utf-8") as file:
            records = [json.loads(line) for line in file if line.endswith("\n")]
        return [record for record in records if record["type"] == kind]

    def notes(self, name, **options):
        return [each for each in self.records("warning", **options) if each.get("note") == name]

    def start_waiting(self, *arguments, **options):
        """Starts a job that waits for a file at its end; it, and its job directory."""
        directory = self.box.path("work", "job")
        run = self.start_run("-q", "-o", directory, "--sample", "0.1", *arguments, **options)
        wait_until(lambda: os.path.exists(os.path.join(directory, "spool", "records.jsonl")))
        return run, directory

    def wait_for_note(self, name, directory):
        def found():
            return self.notes(name, job=directory)
        return wait_until(found, message=lambda: self.records("warning", job=directory))[0]["fields"]

    def finish(self, run, go):
        with open(self.box.path("work", go), "w", encoding="ascii"):
            pass
        self.assertEqual(run.wait(), 0, run.stderr.read() if run.stderr else "")

    def test_record(self):
        """Figures of a job that does a little: all parts, as the schema has them."""
        writes = "import time; open('out', 'wb').write(bytes(5000000)); time.sleep(1.5)"
        self.scry_run("-q", "--sample", "0.2", sys.executable, "-c", writes)
        lines, schema = self.scry("watch", "--json", "--stream", "node", "@last").stdout.splitlines(), schematest.schema("records")
        records = [record for record in map(json.loads, lines) if record["type"] == "health"]
        self.assertTrue(records)
        for record in records:
            self.assertEqual(list(schematest.violations(record, schema)), [], record)
            self.assertLessEqual(record["load"]["cpu"], 1)
            self.assertGreater(record["memory"]["available_bytes"], 0)
            uses = ", ".join(each["uses"] for each in record["filesystems"])
            for use in ("work", "temporary", "job directory"):
                self.assertIn(use, uses)
        rows = [row for record in records for row in record.get("processes", [])]
        self.assertTrue(any(written >= 5000000 and files >= 3 for _, _, written, files, _ in rows), rows)

    @unittest.skipUnless(os.getuid() == 0, "only root can mount a small disk")
    def test_disk_fills(self):
        disk = self.box.path("work", "disk")
        os.mkdir(disk)
        done = self.box.run(["mount", "-t", "tmpfs", "-o", "size=20m", "scry-test", disk])
        if done.returncode:
            self.skipTest(f"no file system can be mounted here: {done.stderr.strip()}")
        self.addCleanup(self.box.run, ["umount", "-l", disk])
        fills = "for i in $(seq 80); do head -c 256k /dev/zero >>fill; sleep 0.1; done 2>/dev/null; while [ ! -e ../go ]; do sleep 0.05; done"
        run, job = self.start_waiting("sh", "-c", fills, cwd=disk)
        filling = self.wait_for_note("disk_filling", job)
        self.assertEqual((filling["path"], filling["uses"], filling["total_mb"]), (disk, "work", 20))
        self.assertLess(filling["free_mb"], 10)
        self.assertGreater(filling["left_seconds"], 0)
        self.assertLess(filling["left_seconds"], 600)
        low = self.wait_for_note("disk_low", job)
        self.assertLess(low["free_mb"], 20 * 0.02)
        self.finish(run, "go")

    def group(self):
        """A control group for memory, and the file with its limit."""
        for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            group = os.path.join(root, f"scry-health-{os.getpid()}")
            try:
                os.mkdir(group)
            except OSError:
                continue
            self.addCleanup(self.remove, group)
            if os.path.exists(os.path.join(group, limit)):
                return group, os.path.join(group, limit)
        self.skipTest("no control group with a limit of memory can be made")

    def remove(self, group):
        """When the job is over."""
        def removed():
            try:
                os.rmdir(group)
            except OSError:
                return False
            return True
        for name in ("more", "go"):
            with open(self.box.path("work", name), "w", encoding="ascii"):
                pass
        wait_until(removed)

    def test_group_memory(self):
        """A job in a group with a limit: it comes near, then a process is killed, and the warning is there while the job runs."""
        group, limit = self.group()
        with open(limit, "w", encoding="ascii") as file:
            file.write(str(100 << 20))
        used = os.path.join(group, "memory.usage_in_bytes" if limit.endswith("in_bytes") else "memory.current")
        hungry = ("import os, sys, time\nkept = []\n"
                  "while int(open(sys.argv[1]).read()) < 97 << 20: kept.append(b'x' * (1 << 18))\n"
                  "while not os.path.exists('more'): time.sleep(0.05)\n"
                  "while True: kept.append(b'x' * (1 << 20))")
        script = f"echo 0 >{group}/cgroup.procs; {sys.executable} -c \"$0\" {used}; while [ ! -e go ]; do sleep 0.05; done"
        run, job = self.start_waiting("sh", "-c", script, hungry)
        low = self.wait_for_note("group_memory_low", job)
        self.assertEqual(low["limit_mb"], 100)
        self.assertGreater(low["used_mb"], 95)
        with open(self.box.path("work", "more"), "w", encoding="ascii"):
            pass
        self.assertEqual(self.wait_for_note("out_of_memory", job), {"processes": 1, "own_group": True})
        self.finish(run, "go")
        cgroup = [record for record in self.records("health", job=job) if "cgroup" in record][-1]["cgroup"]
        self.assertTrue(cgroup["path"].endswith(os.path.basename(group)), cgroup)
        self.assertEqual(len(self.notes("out_of_memory", job=job)), 1)

    def test_expired_credentials(self):
        """An expired proxy, a token that expires soon, and a token without an end."""
        proxy, key, token = (self.box.path("work", name) for name in ("proxy", "key", "token"))
        for command in (["req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-subj", "/CN=user", "-out", "request"],
                        ["x509", "-req", "-in", "request", "-signkey", key, "-days", "-1", "-out", proxy]):
            if self.box.run(["openssl", *command]).returncode:
                self.skipTest("openssl makes no expired certificate here")
        def write(claims):
            part = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
            with open(token, "w", encoding="ascii") as file:
                file.write(f"e30.{part}.c2ln")
        write({"exp": int(subprocess.check_output(["date", "+%s"])) + 500, "sub": "secret-subject"})
        env = {"X509_USER_PROXY": proxy, "BEARER_TOKEN_FILE": "token"}
        done = self.scry_run("true", env=env)
        self.assertEqual(self.notes("credential_expired")[0]["fields"], {"credential": "X.509 proxy", "path": proxy})
        expires = self.notes("credential_expires")[0]["fields"]
        self.assertEqual((expires["credential"], expires["path"]), ("bearer token", token))
        self.assertLessEqual(expires["left_seconds"], 500)
        self.assertIn("the X.509 proxy", done.stderr)
        self.assertNotIn("secret-subject", self.scry("watch", "--json", "@last").stdout)
        write({"sub": "x"})
        self.scry_run("-q", "true", env={**env, "X509_USER_PROXY": "missing"})
        self.assertEqual(self.notes("credential_expires"), [])
        self.assertEqual(self.notes("credential_unreadable")[0]["fields"]["path"], self.box.path("work", "missing"))

    def test_stands_still(self):
        run, job = self.start_waiting("--stall", "0.5", "sh", "-c", "sleep 1000 & wait")
        still = self.wait_for_note("stands_still", job)
        self.assertIn(still["program"], ("sh", "sleep"))
        self.assertGreaterEqual(still["seconds"], 0.5)
        run.terminate()
        run.wait()
        self.assertEqual(len(self.notes("stands_still", job=job)), 1)
        self.scry_run("-q", "--stall", "0", "--sample", "0.1", "sleep", "1")
        self.assertEqual(self.notes("stands_still"), [])

    @scrytest.hasten(20)
    def test_stuck(self):
        """Threads that wait for each other: it is a warning, and the reason when the job is ended. Not of one that sleeps."""
        run = self.start_run("-q", "--sample", "0.1", scrytest.example("hang"))
        listed, = wait_until(lambda: json.loads(self.scry("ps", "--json").stdout)["jobs"])
        job = listed["path"]
        stuck = self.wait_for_note("stuck", job)
        self.assertTrue(stuck["deadlock"])
        self.assertRegex(stuck["text"], r"^2 threads of hang \(pid \d+\) wait for each other, at take_both \(hang.c:\d+\) and at take_both")
        for command in (("ps",), ("top", "--once", job), ("report", job)):
            self.assertRegex(self.scry(*command).stdout, r"deadlock for \d\S* s: 2 threads of hang ", command)
        listed, = json.loads(self.scry("ps", "--json").stdout)["jobs"]
        self.assertEqual((listed["standing"]["deadlock"], listed["standing"]["text"]), (True, stuck["text"]))
        run.terminate()
        run.wait()
        self.assertRegex(self.scry("watch", "--stream", "process", job).stdout, r" stands still: 2 threads of hang ")
        listed, = json.loads(self.scry("ps", "--json").stdout)["jobs"]
        self.assertIsNone(listed["standing"])
        reason = json.loads(self.scry("report", "--json", job).stdout)["last"]["reason"]["text"]
        self.assertTrue(reason.startswith("probably a deadlock, until it was ended by SIGTERM"), reason)
        self.scry_run("-q", "--sample", "0.1", "sleep", "2")
        self.assertEqual(self.notes("stuck"), [])

    def test_open_files(self):
        opens = "import os, time\nfiles = [open('/dev/null') for _ in range(90)]\nwhile not os.path.exists('go'): time.sleep(0.05)"
        run, job = self.start_waiting("sh", "-c", f"ulimit -n 100; exec {sys.executable} -c \"$0\"", opens)
        fields = self.wait_for_note("open_files", job)
        self.assertEqual((fields["limit"], fields["program"][:6]), (100, "python"))
        self.assertGreaterEqual(fields["open"], 90)
        self.finish(run, "go")


scrytest.main()
