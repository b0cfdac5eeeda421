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
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def neighbours(arrows):
    """{(from, to): [bytes of each message]}"""
    pairs = {}
    for one, other, size in arrows:
        pairs.setdefault((one, other), []).append(size)
    return pairs


class Traced(mpitest.MpiCase):
    case_seconds = 240

    def traced(self, ranks, *program, **keywords):
        job = self.box.path("work", "job")
        done = self.job(ranks, *program, options=["-q", "--mpi", "trace", "-o", job], **keywords)
        self.assertEqual(done.returncode, 0, done.stderr)
        # A rank that went on without the monitor has no trace, which looks like another program below.
        self.assertNotIn("did not answer in time", self.box.run(self.box.scry("report", job)).stdout)
        return job

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

    @scrytest.thorough
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

    @scrytest.thorough
    def test_order(self):
        """Receives that completed in the reverse order are those of the sends in their order."""
        rows = [row for row in self.messages() if row["send_call"] == "MPI_Isend"]
        self.assertEqual([int(row["bytes"]) for row in rows], [100, 101, 102, 103])
        self.assertEqual({row["state"] for row in rows}, {"matched"})
        received = [float(row["received_s"]) for row in rows]
        self.assertEqual(received, sorted(received, reverse=True))


class Family(Traced):
    """Programs that start others: nobody says which of their communicators are the same."""

    @scrytest.thorough
    @mpitest.only("openmpi")
    def test_spawned(self):
        program = self.target("family.c")
        plain = self.plain(2, program, timeout=180)  # five processes that poll, and few processors
        if plain.returncode:
            self.skipTest(f"MPI_Comm_spawn does not work under this {self.mpi} without scry either: "
                          f"{mpitest.last_words(plain)}")
        self.traced(2, program, timeout=180)
        rows = self.messages()
        self.assertEqual(len(rows), sum(int(line.split()[3]) for line in plain.stdout.splitlines()))
        self.assertEqual({row["state"] for row in rows}, {"matched"})
        programs = {(row["program"], row["to_program"]) for row in rows}
        self.assertTrue({("1", "2"), ("1", "3")} <= programs)
        self.assertFalse(programs & {("2", "3"), ("3", "2")}, "the two families have nothing to do with each other")
        for children in ("2", "3"):
            down = sorted((row["from"], row["to"]) for row in rows if row["tag"] == "5" and row["to_program"] == children)
            self.assertEqual(down, sorted((parent, child) for parent in "01" for child in "012"))
            # in the merged one parents have the lower ranks, and so in its copy
            for tag in ("1", "2"):
                ring = [(row["program"], row["from"], row["to_program"], row["to"]) for row in rows
                        if row["tag"] == tag and children in (row["program"], row["to_program"])]
                self.assertEqual(sorted(ring), sorted([("1", "1", children, "0"), (children, "0", children, "1"),
                                                       (children, "1", children, "2"), (children, "2", "1", "0")]))
        trace = self.report(self.box.path("work", "job"))["mpi_trace"]
        self.assertEqual((trace["other_programs"], trace["unreceived"], trace["unsent"]), (0, 0, 0))
        self.assertEqual(self.export("spacetime").count('class="m" d="'), len(rows))
        self.assertEqual(self.export("chrome").count('"ph":"f"'), len(rows))


class Meeting(Traced):
    """Programs that were started on their own: by the name of a port, and over a socket."""

    SERVERS, CLIENTS = 2, (1, 3)

    def commands(self):
        """A shell's: a server, and clients that come one after the other (Open MPI takes several at a time for one
        another); for Open MPI, with what tells its launchers of each other."""
        program, folder = self.target("meets.c"), self.box.path("work")
        launch = "timeout 100 " + " ".join(mpitest.MPIS[self.mpi]["run"])
        lines = []
        if self.mpi == "openmpi":
            if not shutil.which("ompi-server"):
                self.skipTest("needs ompi-server")
            lines += ["ompi-server --no-daemonize -r uri & server=$!", "trap 'kill $server' EXIT",
                      "until [ -s uri ]; do sleep 0.05; done"]
            launch += f" --ompi-server file:{folder}/uri"
        lines += [f"{launch} -n {self.SERVERS} {program} {folder} server {len(self.CLIENTS)} & first=$!"]
        lines += [f"{launch} -n {size} {program} {folder} {number} & others=\"$others $!\""
                  for number, size in enumerate(self.CLIENTS)]
        lines += ["wait $first || { kill $others; exit 1; }", "for each in $others; do wait $each || exit 1; done"]
        return ["sh", "-c", "\n".join(lines)]

    def clean(self):
        for name in os.listdir(self.box.path("work")):
            if name == "uri" or name.startswith("port-"):
                os.unlink(self.box.path("work", name))

    @scrytest.thorough
    @mpitest.only("openmpi")
    def test_met(self):
        commands = self.commands()
        plain = self.box.run(commands, env=mpitest.QUIET, timeout=180)
        if plain.returncode:
            self.skipTest(f"programs cannot meet under this {self.mpi} without scry either: "
                          f"{mpitest.last_words(plain)}")
        self.clean()
        done = self.box.run(self.box.scry("run", "-q", "--mpi", "trace", "-o", self.box.path("work", "job"), "--",
                                          *commands), env=mpitest.QUIET, timeout=180)
        self.assertEqual((done.returncode, sorted(done.stdout.splitlines())), (0, sorted(plain.stdout.splitlines())),
                         done.stderr)
        rows = self.messages()
        self.assertEqual(len(rows), sum(int(line.split()[3]) for line in plain.stdout.splitlines()))
        self.assertEqual({row["state"] for row in rows}, {"matched"})
        trace = self.report(self.box.path("work", "job"))["mpi_trace"]
        self.assertEqual((trace["other_programs"], trace["unreceived"], trace["unsent"]), (0, 0, 0))
        sizes = {}
        for rank in trace["ranks"]:
            sizes[rank["program"]] = sizes.get(rank["program"], 0) + 1
        programs = {size: str(program + 1) for program, size in sizes.items()}
        server = programs[self.SERVERS]
        for size in self.CLIENTS:
            client = programs[size]
            across = [(row["program"], int(row["from"]), row["to_program"], int(row["to"])) for row in rows
                      if row["tag"] == "1" and client in (row["program"], row["to_program"])]
            self.assertEqual(sorted(across), sorted(
                pair for i in range(self.SERVERS) for k in range(size)
                for pair in ((server, i, client, k), (client, k, server, i))))
            self.assertEqual([(row["from"], row["to_program"], row["to"]) for row in rows
                              if row["tag"] == "3" and row["program"] == client], [("0", server, "0")])
            # in the merged one servers have the lower ranks
            ring = [(server, i) for i in range(self.SERVERS)] + [(client, i) for i in range(size)]
            sent = {((row["program"], int(row["from"])), (row["to_program"], int(row["to"]))) for row in rows
                    if row["tag"] == "2"}
            for one, other in zip(ring, ring[1:] + ring[:1]):
                self.assertIn((one, other), sent)


class Killed(Traced):
    def test_in_a_call(self):
        """A send that blocks is there before it has returned; and in which calls the ranks were killed."""
        self.job(4, self.target("killed.c"), options=["-q", "--mpi", "trace", "-o", self.box.path("work", "job")])
        (row,) = self.messages()
        self.assertEqual((row["from"], row["to"], row["tag"], row["state"], row["send_call"]),
                         ("0", "1", "3", "unreceived", "MPI_Ssend"))
        ranks = self.report(self.box.path("work", "job"))["mpi_trace"]["ranks"]
        self.assertEqual([rank["ends_in"] and rank["ends_in"]["call"] for rank in ranks],
                         ["MPI_Ssend", "MPI_Recv", "MPI_Barrier", None])
        self.assertRegex(ranks[0]["ends_in"]["where"], r"main \(killed.c:\d+\)")
        self.assertIn("Ranks whose trace ends inside of a call of MPI",
                      self.box.run(self.box.scry("report", self.box.path("work", "job"))).stdout)


class Thinned(Traced):
    @scrytest.thorough
    def test_rate(self):
        """A rate leaves out calls, no messages."""
        job, count = self.box.path("work", "job"), 20000
        done = self.job(1, self.target("traced.c"), "loop", self.box.path("work", "said"), count,
                        options=["-q", "--mpi", "trace", "--rate", "100", "-o", job])
        self.assertEqual(done.returncode, 0, done.stderr)
        report = self.report(job)
        calls = {row["name"]: row["calls"] for row in report["functions"]}["MPI_Sendrecv"]
        self.assertIn(calls, range(100, count // 2))
        trace = report["mpi_trace"]
        self.assertEqual((trace["messages"], trace["ambiguous_sent"], trace["ambiguous_received"]), (count, 0, 0))


class Switched(Traced):
    """Tracing is switched on while messages are under way."""

    def waiting(self, *options, how=()):
        job = self.start_job(2, self.target("switched.c"), self.box.path("work", "go"), *how, options=options)
        for _ in range(2):
            job.stdout.readline()
        return job

    def set(self, *pairs):
        done = self.box.run(self.box.scry("set", self.box.path("work", "job"), *pairs))
        self.assertEqual(done.returncode, 0, done.stderr)

    def finish(self, job):
        with open(self.box.path("work", "go"), "w", encoding="ascii"):
            pass
        self.assertEqual(job.wait(60 * scrytest.SCALE), 0)
        return {state: sorted(int(row["bytes"]) for row in rows if row["state"] == state)
                for rows in [self.messages()] for state in {row["state"] for row in rows}}

    LATER = [*range(300, 310), *range(400, 410)]

    def test_on(self):
        job = self.waiting()
        self.set("mpi=trace")
        states = self.finish(job)
        # sends and receives each have a line: what was sent before is received, what was posted before is sent
        self.assertEqual(states, {"matched": self.LATER,
                                  "ambiguous": sorted([*range(100, 105), *2 * list(range(200, 203))])})
        text = self.box.run(self.box.scry("report", self.box.path("work", "job"))).stdout
        self.assertIn("the trace of 2 ranks begins after MPI_Init: messages of two ranks are matched from the moment on",
                      text)
        self.assertIn("`scry run --mpi trace`", text)
        self.assertIn("begins after MPI_Init", self.export("spacetime"))

    @scrytest.thorough
    def test_on_from_the_start(self):
        states = self.finish(self.waiting("--mpi", "trace"))
        self.assertEqual(states, {"matched": sorted([*range(100, 105), *range(200, 203), *self.LATER])})

    def test_off_and_on(self):
        """What was sent before may have come later, when nobody wrote it down."""
        job = self.waiting("--mpi", "trace")
        self.set("mpi=stats")
        with open(self.box.path("work", "go"), "w", encoding="ascii"):
            pass
        self.assertEqual(job.wait(60 * scrytest.SCALE), 0)
        self.assertEqual({row["state"] for row in self.messages()}, {"ambiguous"})

    @scrytest.thorough
    def test_off_and_killed(self):
        """So it is where the ranks do not come to MPI_Finalize."""
        job = self.waiting("--mpi", "trace", how=("kill",))
        self.set("mpi=stats")
        with open(self.box.path("work", "go"), "w", encoding="ascii"):
            pass
        self.assertNotEqual(job.wait(60 * scrytest.SCALE), 0)
        self.assertEqual({row["state"] for row in self.messages()}, {"ambiguous"})
        text = self.box.run(self.box.scry("report", self.box.path("work", "job"))).stdout
        self.assertIn("was switched off before the last calls of MPI: what has no other end", text)


class Nothing(scrytest.TestCase):
    def test_no_mpi(self):
        """A job without MPI has no such picture, and the error says what to do."""
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


for each in (Stommel, Late, Family, Meeting, Killed, Switched, Thinned):
    mpitest.for_each_mpi(each, globals())
del each
scrytest.main()
