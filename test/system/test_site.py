# SPDX-License-Identifier: Apache-2.0
"""What a site's administrator sees: scry site, and what scry record tells Prometheus and OpenTelemetry."""

import glob
import json
import os

import jobtest
import recordtest
import schematest
import scrytest
import sitetest
from sitetest import GB


class SiteCase(jobtest.JobCase):
    def setUp(self):
        super().setUp()
        self.record = recordtest.Sqlite(self.box)
        self.database = os.path.join(self.record.place, "record.db")
        self.scry_run("-q", "--", "true")
        base, = glob.glob(self.box.path("jobs", "2*"))
        self.maker = sitetest.Maker(self.box, base)


class Site(SiteCase):

    def site(self, *arguments):
        said = json.loads(self.scry("site", "--json", *arguments).stdout)
        self.assertEqual(list(schematest.violations(said, schematest.schema("site"))), [])
        return said

    def found(self, said):
        """{job: {rule}}, {node: {rule}}"""
        jobs, nodes = {}, {}
        for problem in said["problems"]:
            self.assertTrue(problem["text"] and problem["advice"], problem)
            if problem["job"]:
                jobs.setdefault(problem["job"]["id"], set()).add(problem["rule"])
            else:
                nodes.setdefault(problem["node"], set()).add(problem["rule"])
        return jobs, nodes

    def test_rules(self):
        """Each rule holds for the job that was made for it, and for none that does what it should."""
        make, stalled = self.maker.job, [{"t": 1100.0, "type": "stall", "seconds": 60, "ranks": 2, "why": "all wait for rank 1"}]
        make("fine1")
        make("fine2")
        make("young", minutes=3, used=0.0)
        make("interactive", used=0.0, batch=False)
        make("idle", used=0.01)
        make("unused", used=1.0, cpus_asked=8)
        make("thrashing", pressure=0.5, node="n2")
        make("swapping", iowait=0.5, swap=8 * GB, node="n3")
        make("stalled", extra=stalled)
        make("short", rss=int(7.9 * GB))
        make("killed", oom_kills=2, node="n4")
        make("wide", rss=1 * GB, memory_asked=32 * GB)
        make("throttled", throttled=0.5)
        make("alone", ranks=(900, 5, 5, 5))
        make("together", ranks=(900, 800, 700, 850))
        make("late", time_limit=3600, extra=[{"t": 1190.0, "type": "progress", "source": "stdout", "done": 1, "total": 10,
                                              "left_seconds": 9000}])
        make("heavy", load=40.0, available=GB, node="n5")
        names = [os.path.basename(path) for path in self.maker.made]
        over = {"unused", "killed", "alone"}
        self.maker.take(self.record, running=set(names) - over)
        said = self.site()
        jobs, nodes = self.found(said)
        self.assertEqual(jobs, {
            "idle": {"idle"}, "unused": {"unused"}, "thrashing": {"thrashing"}, "swapping": {"thrashing"}, "stalled": {"stalled"},
            "short": {"memory_short"}, "killed": {"memory_short"}, "wide": {"memory_unused"}, "throttled": {"throttled"},
            "alone": {"one_rank"}, "late": {"overtime"}})
        self.assertEqual(nodes, {"n2": {"memory"}, "n3": {"disk"}, "n4": {"memory"}, "n5": {"memory", "overloaded"}})
        texts = {problem["job"]["id"]: problem for problem in said["problems"] if problem["job"]}
        self.assertIn("0.01 of 4 reserved processors", texts["idle"]["text"])
        self.assertAlmostEqual(texts["idle"]["value"], 0.01, 3)
        self.assertIn("all wait for rank 1", texts["stalled"]["text"])
        self.assertIn("1.0 GB of 32 GB", texts["wide"]["text"])
        self.assertIn("ask for 1.2 GB", texts["wide"]["advice"])
        self.assertIn("rank 0 of 4 computed 15 min", texts["alone"]["text"])
        self.assertIn("needs 2 h 50 min at its pace, has 1 h 00 min", texts["late"]["text"])
        shown = self.scry("site").stdout
        for words in ("idle: reserves processors", "ada/idle (idle) on n1", "scry why", "n5"):
            self.assertIn(words, shown)

    def test_thousand(self):
        """1000 jobs of ten users on fifty nodes: all are counted, wherever they are looked for."""
        count, times = 1000, 20
        for number in range(count // times):
            self.maker.job(f"job{number}", minutes=5, user=f"u{number % 10}", node=f"n{number}", ranks=(1, 2),
                           state="running" if number % 2 else "finished")
        self.maker.take(self.record, running=[f"job{number}" for number in range(1, count // times, 2)])
        sitetest.multiply(self.record, times)
        said = self.site()
        self.assertEqual((said["jobs"], {row["state"]: row["jobs"] for row in said["states"]}), (count, {"running": 500, "finished": 500}))
        self.assertEqual([(row["jobs"], row["cpus"]) for row in said["nodes"]], [(times, 4)] * 50)
        self.assertEqual({row["owner"]: row["jobs"] for row in said["users"]}, {f"u{user}": count // 10 for user in range(10)})
        self.assertEqual(self.site("--owner", "u3")["jobs"], 100)
        self.assertEqual(self.site("--node", "n7", "--owner", "u7")["jobs"], 20)
        self.assertEqual(self.site("--node", "n7", "--owner", "u3")["jobs"], 0)
        self.record.query("UPDATE jobs SET ended = ended - 172800 WHERE state = 'finished'", self.database)
        self.assertEqual(self.site()["jobs"], 500)
        self.assertEqual(self.site("--since", "7d")["jobs"], count)
        self.record.query("UPDATE jobs SET connected = 0 WHERE node = 'n1'", self.database)
        said = self.site()
        self.assertEqual(self.found(said)[1], {"n1": {"away"}})
        self.assertIn({"state": "unreachable", "jobs": 20}, said["states"])

    def test_same_from_postgresql(self):
        server = recordtest.Postgres(self.box)
        self.maker.job("idle", used=0.01)
        self.maker.job("alone", ranks=(900, 5, 5, 5))
        self.maker.job("thrashing", pressure=0.5)
        self.maker.take(self.record)
        self.maker.take(None, "--store", server.url)
        ours, theirs = self.site(), self.site("--record", server.url)
        for said in (ours, theirs):
            for member in ("record", "time"):
                said.pop(member)
        self.assertEqual(ours, theirs)
        self.assertEqual([problem["rule"] for problem in ours["problems"]], ["thrashing", "one_rank", "unused"])

    def test_hostile_and_bad(self):
        """What jobs say of themselves moves no cursor; what is asked wrongly is said."""
        self.assertIn("no record", self.scry("site", "--record", self.box.path("nowhere"), status=1).stderr)
        self.maker.job("bad\x1b[31m", user="x';--", node="n\n1", extra=[
            {"t": 1000.0, "type": "stall", "seconds": 60, "ranks": 2, "why": "\x1b]0;title\x07 évil"}])
        self.maker.take(self.record)
        self.record.query("UPDATE jobs SET state = 'running', connected = 1, lease_seconds = 1e6, ended = NULL",
                          self.database)
        shown = self.scry("site").stdout
        self.assertFalse([byte for byte in shown if ord(byte) < 32 and byte != "\n"], shown)
        self.assertEqual(self.site("--owner", "x';--")["jobs"], 1)
        self.assertIn("an age", self.scry("site", "--since", "soon", status=2).stderr)
        self.scry("site", "extra", status=2)

    def test_older_format(self):
        """A record of the first format is brought up to date by the recorder, and only by it."""
        self.maker.job("idle")
        self.maker.take(self.record)
        self.record.query("DROP VIEW job_list; DROP VIEW node_list; DROP VIEW minute_list; DROP TABLE ranks; DROP TABLE exported;"
                          "DROP INDEX jobs_node; ALTER TABLE jobs DROP COLUMN stalled_t; ALTER TABLE jobs DROP COLUMN stalled_text;"
                          "ALTER TABLE minutes DROP COLUMN node_swap_used_bytes; ALTER TABLE minutes DROP COLUMN throttled;"
                          "UPDATE meta SET version = 1, scry = '0.1'", self.database)
        self.assertIn("brings it up to date", self.scry("site", status=1).stderr)
        self.maker.take(self.record)
        self.assertEqual(self.site()["jobs"], 1)


scrytest.main()
