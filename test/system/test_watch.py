# SPDX-License-Identifier: Apache-2.0
"""`scry watch`: the records of a job, while it runs and afterwards."""

import json
import os

import schematest
import scrytest
from jobtest import JobCase
from scrytest import wait_until


class Watch(JobCase):
    def records(self, *args):
        return [json.loads(line) for line in self.scry("watch", "--json", *args, "@last").stdout.splitlines()]

    def test_records_follow_the_schema(self):
        """Every record of a job with processes, a crash, a rule, a setting: the schema knows it, and it says where it is from."""
        self.scry_run("-q", "--rule", "proc_has_terminated([]): print([1])", "--", "sh", "-c", "sh -c 'kill -SEGV $$'; exit 3")
        records, schema = self.records(), schematest.schema("records")
        for record in records:
            self.assertEqual(list(schematest.violations(record, schema)), [], record)
        self.assertEqual([record["seq"] for record in records], list(range(len(records))))
        times = [record["t"] for record in records]
        self.assertEqual(times, sorted(times))
        self.assertEqual({record["node"] for record in records}, {os.uname().nodename})
        self.assertEqual(len({record["job"] for record in records}), 1)
        types = [record["type"] for record in records]
        self.assertEqual(types[0], "spool")
        self.assertLessEqual({"node", "method", "process_end", "crash", "sample", "end", "rules"}, set(types))

    def test_streams_and_patterns(self):
        self.scry_run("-q", "--", "sh", "-c", "true; exit 3")
        self.assertEqual({record["stream"] for record in self.records("--stream", "process", "--stream", "job")},
                         {"process", "job"})
        line = self.scry("watch", "--grep", "exit status 3,", "@last").stdout
        self.assertRegex(line, r"\A +\d+\.\d{3}  job       exit status 3, .* of CPU time\n\Z")
        self.assertEqual(self.records("--since", "1h"), [])
        self.assertIn("no regular expression", self.scry("watch", "--grep", "(", "@last", status=2).stderr)
        self.assertIn("expected", self.scry("watch", "--stream", "x", "@last", status=2).stderr)

    def test_follows_until_the_end(self):
        work = self.box.path("work", "go")
        os.mkfifo(work)
        run = self.start_run("-q", "--", "sh", "-c", f"read line <{work}; exit 5")
        wait_until(lambda: json.loads(self.scry("ps", "--json").stdout)["jobs"])
        watch = self.box.start(self.box.scry("watch", "@last"))
        seen = watch.stdout.readline()
        self.assertRegex(seen, r" job +job ")
        with open(work, "w", encoding="ascii") as file:
            file.write("go\n")
        rest = watch.stdout.read()
        self.assertEqual((run.wait(), watch.wait()), (5, 0))
        self.assertRegex(rest, r"(?m)^ +\d+\.\d{3}  job       exit status 5, ")

    def test_cut_off(self):
        """A spool that ends in the middle of a line, as on a full disk."""
        self.scry_run("-q", "--", "true")
        self.assertEqual(self.scry("watch", "@last").stderr, "")
        spool = os.path.join(json.loads(self.scry("ps", "--json").stdout)["jobs"][0]["path"], "spool", "records.jsonl")
        os.truncate(spool, os.path.getsize(spool) - 5)
        self.assertIn("the last records of the job are missing", self.scry("watch", "@last").stderr)

    def test_reader_goes(self):
        """Nobody reads any more: it ends although the job is silent."""
        run = self.start_run("-q", "--sample", "1000", "--", "sleep", "1000")
        wait_until(lambda: json.loads(self.scry("ps", "--json").stdout)["jobs"])
        watch = self.box.start(self.box.scry("watch", "@last"))
        watch.stdout.readline()
        watch.stdout.close()
        watch.wait()
        run.terminate()
        run.wait()

    def test_full_output(self):
        """What cannot be written is said, with the reason."""
        self.scry_run("-q", "--", "true")
        for command in "watch @last", "report @last", "report --json @last":
            with self.subTest(command=command):
                done = self.box.run(["sh", "-c", '"$@" >/dev/full', "sh", *self.box.scry(*command.split())])
                self.assertEqual((done.returncode, done.stderr), (1, "scry: cannot write to standard output: No space left on device\n"))


scrytest.main()
