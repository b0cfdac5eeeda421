# SPDX-License-Identifier: Apache-2.0
"""What reports, replays and exports of MPI programs keep apart: threads that are not the rank, communicators that two
groups make together, counts that begin anew, and each rank by its number and each call by its line."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree

import mpitest
import scrytest

SVG = "{http://www.w3.org/2000/svg}"


class Apart(mpitest.MpiCase):
    def run_part(self, ranks, part, *options):
        job = self.box.path("work", "job")
        done = self.job(ranks, self.target("apart.c"), part, options=["-q", "-o", job, *options])
        self.assertEqual(done.returncode, 0, done.stderr)
        return job

    def shown(self, *arguments, status=0):
        done = self.box.run(self.box.scry(*arguments))
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def test_merged(self):
        """One communicator, whatever group a rank comes from."""
        job = self.run_part(4, "merged")
        comms = [comm for comm in self.mpi_report(job)["communicators"] if comm["name"] == "merged"]
        self.assertEqual([(comm["size"], comm["seen_by"], comm["collectives"]) for comm in comms], [(4, 4, 2)])  # the barrier, and freeing it
        self.assertEqual(len(re.findall(r"(?m)^  merged +\d", self.shown("report", job))), 1)  # and no function of that name in its profile

    def test_persistent(self):
        """What they send and receive belongs to the call that starts them."""
        job = self.run_part(2, "persistent")
        rows = {row["name"]: row for row in self.mpi_report(job)["calls"]}
        self.assertEqual([rows["MPI_Startall"][name] for name in ("bytes", "sent_bytes", "received_bytes")],
                         [2 * 2 * 3 * 80, 2 * 3 * 80, 2 * 3 * 80])
        for name in ("MPI_Send_init", "MPI_Recv_init"):
            self.assertEqual((rows[name]["sent_bytes"], rows[name]["received_bytes"]), (0, 0), name)
        text = self.shown("report", job)
        self.assertRegex(text, r"\nBegun until completed +count +min +max +total +average arguments\n")

    def test_reset(self):
        job = self.run_part(2, "reset")
        mpi = self.mpi_report(job)
        self.assertEqual([rank["resets"] for rank in mpi["ranks"]], [1, 1])
        for rank in mpi["ranks"]:
            self.assertGreater(rank["reset_ns"], 0)
        names = {row["name"] for row in mpi["calls"]}
        self.assertIn("MPI_Barrier", names)
        self.assertNotIn("MPI_Allreduce", names)
        self.assertRegex(self.shown("report", job),
                         r"\n  counting began anew on 2 ranks \(MPI_Pcontrol\(2\), or a tool\), [\d.]+ \w+ after MPI_Init: ")

    @scrytest.thorough
    def test_off(self):
        """The time without counting is reported, only where there was one."""
        mpi = self.mpi_report(self.run_part(2, "off"))
        for rank in mpi["ranks"]:
            self.assertGreaterEqual(rank["paused_ns"], 50_000_000)
        self.assertRegex(self.shown("report", self.box.path("work", "job")),
                         r"\n  counting was off for [\d.]+ m?s of the ranks' time together ")
        done = self.job(2, self.target("apart.c"), "merged", options=["-q"])
        self.assertEqual((done.returncode, [rank["paused_ns"] for rank in self.mpi_report()["ranks"]]), (0, [0, 0]))

    @scrytest.thorough
    def test_diff(self):
        """Two runs side by side."""
        for name, part in (("a", "persistent"), ("b", "thread")):
            done = self.job(2, self.target("apart.c"), part, options=["-q", "-o", self.box.path("work", name)])
            self.assertEqual(done.returncode, 0, done.stderr)
        paths = [self.box.path("work", name) for name in "ab"]
        diff = self.valid("report-diff", json.loads(self.shown("diff", "--json", *paths)))["mpi"]
        values = {row["name"]: (row["a"], row["b"]) for row in diff["values"]}
        self.assertEqual([values[name] for name in ("ranks", "messages", "bytes")], [(2, 2), (6, 40), (480, 320)])
        calls = {row["name"]: (row["a"]["calls"], row["b"]["calls"]) for row in diff["calls"]}
        self.assertEqual((calls["MPI_Startall"], calls["MPI_Wait"]), ((6, 0), (0, 40)))
        text = self.shown("diff", *paths)
        self.assertRegex(text, r"\nmessages +6 +40 +\+566\.7%\n")
        self.assertRegex(text, r" new +0 +40  MPI_Wait\n")

    def test_threads(self):
        """The calls of another thread are no part of the rank's time in MPI, in the report as in the picture."""
        job = self.run_part(2, "thread", "--mpi", "trace")
        mpi = self.mpi_report(job)
        sites = {site["name"]: site for site in mpi["sites"]}
        for name in ("MPI_Send", "MPI_Irecv", "MPI_Wait"):
            self.assertEqual((sites[name]["calls"], sites[name]["other_threads_calls"]), (40, 40), name)
            self.assertEqual(sites[name]["other_threads_ns"], sites[name]["total_ns"], name)
        self.assertEqual((sites["MPI_Barrier"]["calls"], sites["MPI_Barrier"]["other_threads_calls"]), (2, 0))
        others = sum(site["other_threads_ns"] for site in mpi["sites"])
        self.assertEqual(mpi["other_threads"]["calls"], 3 * 40)
        self.assertLess(abs(mpi["other_threads"]["total_ns"] - others), 20)
        text = self.shown("report", job)
        self.assertRegex(text, r"\n  120 calls of other threads took [\d.]+ \w+; ")
        self.assertRegex(text, r"\n  calls of other threads +120 ")
        self.assertRegex(text, r"\n  MPI_Wait +40 .* -  +[\d.]+ \w+ +2  exchange \(apart.c:\d+\)\n")
        slowest = re.search(r"\nSlowest calls.*\n((?:  .*\n)+)", text).group(1)
        self.assertRegex(slowest, r"  MPI_Finalize\(\)(  cpu [^()\n]*)?  main \(apart.c:\d+\)  rank 1\n")
        self.assertNotIn("site = 0x", slowest)
        self.assertLessEqual(max(float(part) for part in re.findall(r" ([\d.]+) %", text)), 100)
        root = ElementTree.fromstring(self.shown("export", "--format", "spacetime", "-o", "-", job))
        lanes = {group.get("id"): group for group in root.iter(SVG + "g") if group.get("class") == "rank"}
        for rank in mpi["ranks"]:
            lane = lanes[f"rank-0-{rank['rank']}"]
            title = lane.find(f"{SVG}rect/{SVG}title").text
            self.assertIn("\n60 calls in other threads: ", title)
            self.assertNotIn("send, receive: ", title)
            shown = [float(text.text[:-2]) for text in root.iter(SVG + "text")
                     if text.get("class") == "share" and text.text.endswith(" %")]
            parts = {name: float(part) for name, part in re.findall(r"\n([a-z A-Z,/]+): .* \(([\d.]+) %\)", title)}
            self.assertAlmostEqual(sum(parts.values()), 100, delta=0.5)
            self.assertLessEqual(shown[rank["rank"]], 100 - parts["computation"] + 0.2)
            heights = {bar.find(SVG + "title").text.split(",")[0]: float(bar.get("height")) for bar in lane}
            self.assertLess(heights["MPI_Wait in another thread"], heights["MPI_Barrier"])

    @scrytest.thorough
    def test_replay(self):
        """Ranks in their order, each with its number; calls with the line that they came from."""
        job = self.run_part(3, "persistent", "--mpi", "trace")
        text = self.shown("replay", job)
        self.assertEqual(re.findall(r"(?m)^(?:rank (\d), )?process \d+  \S+apart", text), ["0", "1", "2"])
        lines = [line for line in text.splitlines() if "MPI_Startall(" in line]
        self.assertEqual(len(lines), 9)
        for line in lines:
            self.assertRegex(line, r"persistent \(apart.c:\d+\)$")
        self.assertNotIn("site = 0x", text)
        one = self.shown("replay", "--rank", "1", job)
        self.assertEqual(re.findall(r"(?m)^rank (\d), process ", one), ["1"])
        self.assertIn(one.strip(), text)
        self.assertIn("there is no trace of rank 7", self.shown("replay", "--rank", "7", job, status=1))
        self.assertIn("--rank: expected the number of a rank", self.shown("replay", "--rank", "x", job, status=2))
        for line in self.shown("replay", "--json", "--rank", "2", job).splitlines():
            event = json.loads(line)
            self.assertEqual(event["rank"], 2)
            if event["event"] == "message":
                self.assertEqual(event["comm_name"], "MPI_COMM_WORLD")
            elif event["function"] == "MPI_Startall":
                self.assertRegex(event["file"], r"apart\.c$")
                self.assertEqual((event["caller"], event["line"] > 0), ("persistent", True))

    def test_exports(self):
        job = self.run_part(2, "persistent", "--mpi", "trace")
        rows = [row for row in csv.DictReader(io.StringIO(self.shown("export", "--format", "csv", "-o", "-", job)))
                if row["function"] == "MPI_Startall"]
        self.assertEqual([row["rank"] for row in rows], 3 * ["0"] + 3 * ["1"])
        for row in rows:
            self.assertRegex(row["file"], r"apart\.c$")
            self.assertGreater(int(row["line"]), 0)
            self.assertNotIn("site", row["args"])
        events = json.loads(self.shown("export", "--format", "chrome", "-o", "-", job))["traceEvents"]
        starts = [event["args"] for event in events if event.get("name") == "MPI_Startall" and event["ph"] == "B"]
        self.assertEqual(len(starts), 6)
        for arguments in starts:
            self.assertRegex(arguments["source"], r"apart\.c:\d+$")
            self.assertEqual(arguments["caller"], "persistent")

    def test_one_rank(self):
        """Tables by rank add up, and --rank is for all of the report."""
        job = self.run_part(3, "persistent", "--mpi", "trace")
        whole = self.report(job)
        rows = [(row["name"], row["calls"], row["total_ns"], row["ranks"]) for row in whole["functions"]]
        rows += [(row["name"], row["calls"], row["total_ns"], row["by_rank"]) for row in whole["mpi"]["sites"]]
        self.assertGreater(len(rows), 8)
        for name, calls, total_ns, ranks in rows:
            self.assertEqual([cell["rank"] for cell in ranks], [0, 1, 2], name)
            self.assertEqual(sum(cell["calls"] for cell in ranks), calls, name)
            self.assertAlmostEqual(sum(cell["total_ns"] for cell in ranks), total_ns, delta=3, msg=name)
        text = self.shown("report", job)
        self.assertRegex(text, r"\nFunctions by rank +least \(rank\) .*\n +\S+ \S+ +[012] ")
        self.assertRegex(text, r"\nCall sites by rank +least \(rank\) .*\n(?:.*\n)*?.* x  MPI_Waitall  persistent \(apart\.c:\d+\)\n")
        pid = next(rank["pid"] for rank in whole["mpi"]["ranks"] if rank["rank"] == 1)
        one = self.valid("report", json.loads(self.shown("report", "--json", "--rank", "1", job)))
        self.assertEqual([process["pid"] for process in one["processes"]], [pid])
        self.assertEqual([rank["pid"] for rank in one["mpi"]["ranks"]], [pid])
        self.assertEqual({call["pid"] for call in one["slowest_calls"]}, {pid})
        self.assertEqual({name: calls for name, calls in self.calls(one).items()},
                         {row["name"]: next(cell["calls"] for cell in row["ranks"] if cell["rank"] == 1)
                          for row in whole["functions"]})
        self.assertEqual({row["name"]: row["calls"] for row in one["mpi"]["calls"]},
                         {row["name"]: row["calls"] // 3 for row in whole["mpi"]["calls"]})
        text = self.shown("report", "--rank", "1", job)
        self.assertEqual(re.findall(r"rank ([02])\b", text), [])
        self.assertNotIn("by rank", text)

    def test_not_traced(self):
        """The remedy is printed."""
        job = self.run_part(2, "merged")
        self.assertIn("for its MPI calls, run it with `scry run --mpi trace`", self.shown("replay", job, status=1))


mpitest.for_each_mpi(Apart, globals())
scrytest.main()
