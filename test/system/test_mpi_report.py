# SPDX-License-Identifier: Apache-2.0
"""Reports of many ranks, from statistics that were generated: every number is known, and it does not take long."""

import json
import os
import resource

import scrytest

EDGE, SEND_NS, REDUCE_NS, COMPUTE_NS = 800, 2000, 10000, 1000000  # of mpi_ranks.c
BUILD_ID = "00112233445566778899aabbccddeeff00112233"
SECONDS = 2  # of a processor


def worked():
    """Seconds of a processor that ended children have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Report(scrytest.TestCase):
    def make(self, width, height, steps):
        path = self.box.path("work", "job")
        self.assertEqual(self.box.run(self.box.scry("run", "-q", "-o", path, "true")).returncode, 0)
        program = scrytest.built("test", "system", "targets", "mpi_ranks")
        done = self.box.run([program, path, width, height, steps])
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def report(self, path, *options):
        """What it prints, and how long it worked: others may have the processors meanwhile."""
        begun = worked()
        done = self.box.run(self.box.scry("report", *options, path))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout, worked() - begun

    def check(self, width, height, steps):
        path, ranks = self.make(width, height, steps), width * height
        text, seconds = self.report(path, "--json")
        mpi = json.loads(text)["mpi"]
        self.assertEqual([rank["rank"] for rank in mpi["ranks"]], list(range(ranks)))
        rows = {row["name"]: row for row in mpi["calls"]}
        self.assertEqual(rows["MPI_Sendrecv"], {
            "name": "MPI_Sendrecv", "class": "p2p", "calls": 4 * steps * ranks, "bytes": 8 * steps * ranks * EDGE,
            "sent_bytes": 4 * steps * ranks * EDGE, "received_bytes": 4 * steps * ranks * EDGE,
            "total_ns": 4 * steps * ranks * SEND_NS, "min_ns": SEND_NS, "max_ns": SEND_NS,
            "other_threads_calls": 0, "other_threads_ns": 0, "open": 0, "open_ns": 0})
        reduce_ns = sum(steps * (REDUCE_NS + rank) for rank in range(ranks))
        self.assertEqual((rows["MPI_Allreduce"]["total_ns"], rows["MPI_Allreduce"]["min_ns"],
                          rows["MPI_Allreduce"]["max_ns"]), (reduce_ns, REDUCE_NS, REDUCE_NS + ranks - 1))
        communicate = reduce_ns + rows["MPI_Sendrecv"]["total_ns"]
        self.assertEqual((mpi["time"]["computation_ns"], mpi["time"]["communication_ns"]),
                         (5 * steps * COMPUTE_NS * ranks, communicate))
        expected = {}
        for rank in range(ranks):
            x, y = rank % width, rank // width
            for right, down in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                other = (y + down) % height * width + (x + right) % width
                expected[rank, other] = expected.get((rank, other), 0) + steps
        self.assertEqual({(cell["from"], cell["to"]): (cell["messages"], cell["bytes"]) for cell in mpi["matrix"]},
                         {pair: (count, count * EDGE) for pair, count in expected.items()})
        (comm,) = mpi["communicators"]
        self.assertEqual((comm["name"], comm["size"], comm["collectives"], comm["messages"]),
                         ("MPI_COMM_WORLD", ranks, steps, 4 * steps * ranks))
        self.assertEqual(len(mpi["sites"]), 16)
        self.assertEqual({site["ranks"] for site in mpi["sites"]}, {ranks})
        return path, seconds

    def test_few(self):
        path, _ = self.check(3, 2, 100)
        text, _ = self.report(path)
        for line in (r"MPI: 6 ranks under Open MPI", r"MPI_Sendrecv +2400 +2.00 us +2.00 us +4.80 ms +2.00 us",
                     r"computation granularity +3006 +1.00 ms", r"communication overhead +3000 +2.00 us +10.0 us",
                     r"\n +0 +\. +100 +100 +200", r"the user's messages +3.7 MB +1.8 MB +1.8 MB", r"ocean\+0x1000",
                     r"communication +1\.80 ms +0 "):
            self.assertRegex(text, line)
        one, _ = self.report(path, "--rank", "5")
        self.assertRegex(one, r"\n +5 +node0 +1005 ")
        self.assertRegex(one, r"MPI_Sendrecv +400 ")
        self.assertNotRegex(one, r"\b1004\b")  # as a time of day may be
        done = self.box.run(self.box.scry("report", "--rank", "6", path))
        self.assertEqual((done.returncode, done.stdout), (1, ""))

    def test_copies_of_a_call(self):
        """A call in a function that was inlined twice is one row of the table, with the ranks counted once."""
        path = self.make(2, 2, 10)
        before = json.loads(self.report(path, "--json")[0])["mpi"]["sites"]
        copies = sorted((site for site in before if site["name"] == "MPI_Allreduce" and site["module"] == before[0]["module"]),
                        key=lambda site: site["offset"])[:3]
        with open(os.path.join(path, "stats", "sites.json"), "w", encoding="utf-8") as file:
            json.dump({"version": 1, "sites": [
                {"key": f"{BUILD_ID} {site['offset']:x} {site['module']}", "function": "do_reduce", "file": "ocean.c",
                 "line": line} for site, line in zip(copies, (193, 193, 194))]}, file)
        after = json.loads(self.report(path, "--json")[0])["mpi"]["sites"]
        self.assertEqual(len(after), len(before) - 1)
        rows = {site["line"]: site for site in after if site["line"]}
        self.assertEqual([site["function"] for site in rows.values()], ["do_reduce"] * 2)
        self.assertEqual({line: site["ranks"] for line, site in rows.items()}, {193: 4, 194: 4})
        for key in ("calls", "total_ns", "bytes"):
            self.assertEqual((rows[193][key], rows[194][key]), (copies[0][key] + copies[1][key], copies[2][key]))
        self.assertEqual(rows[193]["max_ns"], max(copies[0]["max_ns"], copies[1]["max_ns"]))

    def test_many(self):
        """1024 ranks, in text and as JSON."""
        path, seconds = self.check(32, 32, 1000)
        self.assertLess(seconds, SECONDS * scrytest.SCALE)
        text, seconds = self.report(path)
        self.assertLess(seconds, SECONDS * scrytest.SCALE)
        self.assertIn("32 ranks a character", text)
        self.assertIn("1008 ranks between these", text)
        self.assertLess(len(text.splitlines()), 200)

    def test_damaged(self):
        """A truncated file is reported, and so are the other ranks."""
        path = self.make(2, 2, 10)
        node = os.path.join(path, "stats", "node0")
        with open(os.path.join(node, "1001-0.json"), "r+b") as file:
            file.truncate(200)
        with open(os.path.join(node, "1002-0.json"), "wb") as file:
            file.write(b"\xff\x00{" * 100)
        text, _ = self.report(path)
        self.assertIn("2 files of statistics could not be read", text)
        mpi = json.loads(self.report(path, "--json")[0])["mpi"]
        self.assertEqual(([rank["rank"] for rank in mpi["ranks"]], mpi["unreadable"]), ([0, 3], 2))

    def test_none(self):
        path = self.box.path("work", "job")
        self.box.run(self.box.scry("run", "-q", "-o", path, "true"))
        self.assertIsNone(json.loads(self.report(path, "--json")[0])["mpi"])
        self.assertNotIn("MPI", self.report(path)[0])


scrytest.main()
