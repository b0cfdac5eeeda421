# SPDX-License-Identifier: Apache-2.0
"""Messages out of the traces of MPI programs: matched, as arrows, as a table, as a picture, in report and replay."""

import csv
import io
import json
import os
import shutil
import xml.etree.ElementTree as ElementTree

import mpitest
import scrytest

SVG = "{http://www.w3.org/2000/svg}"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def neighbours(arrows):
    """{(from, to): [bytes of each message]}"""
    pairs = {}
    for one, other, size in arrows:
        pairs.setdefault((one, other), []).append(size)
    return pairs


class Traced(mpitest.MpiCase):
    def traced(self, ranks, *program, **keywords):
        done = self.job(ranks, *program, options=["-q", "--mpi", "trace", "-o", self.box.path("work", "job")],
                        **keywords)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.box.path("work", "job")

    def export(self, form, *options):
        done = self.box.run(self.box.scry("export", "--format", form, "-o", "-", *options,
                                          self.box.path("work", "job")))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def messages(self, *options):
        return list(csv.DictReader(io.StringIO(self.export("messages", *options), newline="")))


class Stommel(Traced):
    NX, NY, STEPS, RANKS = 48, 40, 30, 4

    def setUp(self):
        super().setUp()
        name = "stommel" if self.mpi == "openmpi" else "stommel_mpich"
        self.traced(self.RANKS, scrytest.example(name), self.NX, self.NY, self.STEPS, 10)

    def check_halo(self, pairs):
        """Two by two blocks: each has two neighbours, and gets a line of the grid from each in each step."""
        self.assertEqual(len(pairs), 8)
        for (one, other), sizes in pairs.items():
            self.assertEqual(len(sizes), self.STEPS)
            self.assertEqual(set(sizes), set(pairs[other, one]))
            self.assertIn(set(sizes), ({4 * self.NX}, {4 * self.NY}))
        self.assertEqual(sorted(one for one, _ in pairs), sorted(2 * list(range(self.RANKS))))

    def test_arrows(self):
        events = json.loads(self.export("chrome"))["traceEvents"]
        names = {event["pid"]: event["args"]["name"] for event in events if event.get("name") == "process_name"}
        ranks = {pid: int(name.split()[1]) for pid, name in names.items() if name.startswith("rank ")}
        order = {event["pid"]: event["args"]["sort_index"] for event in events
                 if event.get("name") == "process_sort_index"}
        self.assertEqual(ranks, order)
        self.assertEqual(sorted(ranks.values()), list(range(self.RANKS)))
        starts = {event["id"]: event for event in events if event["ph"] == "s"}
        ends = {event["id"]: event for event in events if event["ph"] == "f"}
        self.assertEqual((len(starts), set(starts)), (8 * self.STEPS, set(ends)))
        for number, start in starts.items():
            self.assertLess(start["ts"], ends[number]["ts"])
            self.assertEqual(start["args"], ends[number]["args"])
        self.check_halo(neighbours((ranks[start["pid"]], ranks[ends[number]["pid"]], start["args"]["bytes"])
                                   for number, start in starts.items()))
        self.check_slices(events, [*starts.values(), *ends.values()])

    def check_slices(self, events, tips):
        """Each end of an arrow lies in a slice of MPI_Sendrecv of its thread."""
        slices, begun = {}, {}
        for event in events:
            track = event.get("pid"), event.get("tid")
            if event["ph"] == "B":
                begun.setdefault(track, []).append(event)
            elif event["ph"] == "E":
                begin = begun[track].pop()
                if begin["name"] == "MPI_Sendrecv":
                    slices.setdefault(track, []).append((begin["ts"], event["ts"]))
        for tip in tips:
            self.assertTrue(any(begin <= tip["ts"] <= end for begin, end in slices[tip["pid"], tip["tid"]]), tip)

    def test_table(self):
        rows = self.messages()
        self.check_halo(neighbours((int(row["from"]), int(row["to"]), int(row["bytes"])) for row in rows))
        self.assertEqual({row["state"] for row in rows}, {"matched"})
        self.assertEqual({row["comm"] for row in rows},
                         {f"MPI_Comm_split {i} of MPI_COMM_WORLD" for i in (1, 2)})
        self.assertEqual({(row["send_call"], row["receive_call"]) for row in rows}, {("MPI_Sendrecv", "MPI_Sendrecv")})
        for row in rows:
            self.assertRegex(row["send_at"], r"(do_transfer_x|shift_line) \(stommel.c:\d+\)")
            self.assertGreater(int(row["latency_ns"]), 0)
            self.assertAlmostEqual(float(row["received_s"]) - float(row["sent_s"]), int(row["latency_ns"]) / 1e9, 8)
        times = [float(row["sent_s"]) for row in rows]
        self.assertEqual(times, sorted(times))
        part = self.messages("--from", f"{times[10]:.9f}", "--to", f"{times[20]:.9f}")
        self.assertIn(len(part), range(10, 13))

    def test_picture(self):
        picture = self.box.path("work", "picture.svg")
        with open(picture, "w", encoding="utf-8") as file:
            file.write(self.export("spacetime"))
        self.check_picture(ElementTree.parse(picture).getroot())
        browser = next(filter(None, map(shutil.which, BROWSERS)), None)
        if browser:
            done = self.box.run([browser, "--headless", "--no-sandbox", "--disable-gpu",
                                 f"--user-data-dir={self.box.path('work', 'browser')}", "--dump-dom",
                                 f"file://{picture}"], timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.count('class="rank"'), self.RANKS, done.stderr)
            self.assertEqual(done.stdout.count('class="m" d="'), 8 * self.STEPS)

    def check_picture(self, root):
        self.assertEqual(root.tag, SVG + "svg")
        self.assertEqual([group.get("id") for group in root.iter(SVG + "g") if group.get("class") == "rank"],
                         [f"rank-0-{rank}" for rank in range(self.RANKS)])
        self.assertFalse(list(root.iter(SVG + "script")))
        lines = [path for group in root.iter(SVG + "g") if group.get("id") == "messages" for path in group]
        self.assertEqual(len(lines), 8 * self.STEPS)
        for line in lines:
            left, right = (float(part.split()[0]) for part in line.get("d")[1:].split("L"))
            self.assertLessEqual(left, right)
            self.assertRegex(line.find(SVG + "title").text, r"rank \d → rank \d, tag [1234], ")
        texts = " ".join("".join(text.itertext()) for text in root.iter(SVG + "text"))
        for text in ("4 ranks", "stommel", "computation", "after the start of the job", "240 messages; "):
            self.assertIn(text, texts)

    def test_report_and_replay(self):
        job = self.box.path("work", "job")
        trace = self.report(job)["mpi_trace"]
        size = sum(int(row["bytes"]) for row in self.messages())
        self.assertEqual((trace["messages"], trace["bytes"]), (8 * self.STEPS, size))
        for name in ("unreceived", "unsent", "ambiguous_sent", "ambiguous_received", "other_programs", "not_looked_at"):
            self.assertEqual(trace[name], 0, name)
        self.assertGreaterEqual(trace["collectives"], self.STEPS)
        self.assertEqual([host["how"] for host in trace["clocks"]["hosts"]], ["reference"])
        self.assertEqual((trace["clocks"]["arrived_too_early"], trace["clocks"]["corrected"]), (0, 0))
        each = [(rank["rank"], rank["sent"], rank["received"], rank["from_start"]) for rank in trace["ranks"]]
        self.assertEqual(each, [(rank, 2 * self.STEPS, 2 * self.STEPS, True) for rank in range(self.RANKS)])
        text = self.box.run(self.box.scry("report", job)).stdout
        self.assertIn(f"\nMessages in the trace: {8 * self.STEPS} of ", text)
        replay = self.box.run(self.box.scry("replay", "--process", trace["ranks"][0]["pid"], job)).stdout
        self.assertEqual(replay.count("  -> rank "), 2 * self.STEPS)
        self.assertEqual(replay.count("  <- rank "), 2 * self.STEPS)
        self.assertRegex(replay, rf"MPI_Sendrecv\(.*  -> rank 1 tag 1 {4 * self.NY} bytes")


class Late(Traced):
    def setUp(self):
        super().setUp()
        self.traced(2, self.target("late.c"))

    def test_waits(self):
        """Who waited for whom, in which line, and about how long."""
        waits = {(wait["kind"], wait["waits"]["where"].split(" ")[0]): wait
                 for wait in reversed(self.report(self.box.path("work", "job"))["mpi_trace"]["waits"])}
        for kind, function, call, cause, rank in (
                ("late_sender", "late_sender", "MPI_Recv", "MPI_Send", 0),
                ("late_receiver", "late_receiver", "MPI_Ssend", "MPI_Recv", 1),
                ("collective", "late_for_all", "MPI_Barrier", "MPI_Barrier", 1),
                ("root", "late_for_all", "MPI_Bcast", "MPI_Bcast", 0)):
            wait = waits[kind, function]
            self.assertEqual((wait["waits"]["call"], wait["for"]["call"], wait["for_rank"], wait["count"]),
                             (call, cause, rank, 1), wait)
            self.assertRegex(wait["waits"]["where"], rf"{function} \(late.c:\d+\)")
            self.assertGreater(wait["total_ns"], 30_000_000)

    def test_order(self):
        """Receives that completed in the reverse order are those of the sends in their order."""
        rows = [row for row in self.messages() if row["send_call"] == "MPI_Isend"]
        self.assertEqual([int(row["bytes"]) for row in rows], [100, 101, 102, 103])
        self.assertEqual({row["state"] for row in rows}, {"matched"})
        received = [float(row["received_s"]) for row in rows]
        self.assertEqual(received, sorted(received, reverse=True))


class Nothing(scrytest.TestCase):
    def test_no_mpi(self):
        """A job without MPI has no such picture, and it is said what to do."""
        self.assertEqual(self.box.run(self.box.scry("run", "-q", "--", "true")).returncode, 0)
        for form in ("spacetime", "messages"):
            target = self.box.path("work", "none")
            done = self.box.run(self.box.scry("export", "--format", form, "-o", target, "@last"))
            self.assertEqual((done.returncode, done.stdout, os.path.exists(target)), (1, "", False))
            self.assertIn("scry run --mpi trace", done.stderr)

    def test_window(self):
        done = self.box.run(self.box.scry("export", "--format", "csv", "-o", "-", "--from", "2", "--to", "1", "@last"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("--to has to be later", done.stderr)


for each in (Stommel, Late):
    mpitest.for_each_mpi(each, globals())
del each
scrytest.main()
