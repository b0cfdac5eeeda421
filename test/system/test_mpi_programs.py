# SPDX-License-Identifier: Apache-2.0
"""MPI programs as they are: stommel, mpi4py, a program that loads its MPI, one with a profiling tool of its own, threads,
and the ways in which they end. Their results and exit statuses are the same with scry as without."""

import json
import os
import re
import shutil
import signal
import subprocess

import mpitest
import scrytest
from mpitest import matrix_of, received_of

STEPS = 100  # of ending.c: messages of 8 bytes that each rank sends to the next


def ring(ranks, count=STEPS, size=8):
    return {(rank, (rank + 1) % ranks): (count, count * size) for rank in range(ranks)}


class Stommel(mpitest.MpiCase):
    NX, NY, STEPS = 48, 40, 30

    def check(self, ranks):
        name = "stommel" if self.mpi == "openmpi" else "stommel_mpich"
        program = [scrytest.example(name), self.NX, self.NY, self.STEPS, 10]
        plain = self.plain(ranks, *program)
        self.assertEqual(plain.returncode, 0, plain.stderr)
        done = self.job(ranks, *program)
        same = [re.sub(r"(?m) +[\d.]+ s$", "", text) for text in (plain.stdout, done.stdout)]
        self.assertEqual((done.returncode, same[1]), (0, same[0]), done.stderr)
        mpi = self.mpi_report()
        self.assertEqual([rank["rank"] for rank in mpi["ranks"]], list(range(ranks)))
        sent = matrix_of(mpi)
        self.assertEqual(sent, received_of(mpi))
        return sent, mpi

    @scrytest.thorough
    def test_two_ranks(self):
        """Two blocks side by side: one edge, a line of the grid, each way in each step."""
        sent, mpi = self.check(2)
        self.assertEqual(set(sent), {(0, 1), (1, 0)})
        for messages, size in sent.values():
            self.assertEqual(messages, self.STEPS)
            self.assertIn(size // messages, (8 * self.NX, 8 * self.NY, 8 * (self.NX + 2), 8 * (self.NY + 2)))
        self.assertEqual(sent[0, 1], sent[1, 0])
        self.assertGreater(mpi["time"]["communication_ns"], 0)

    def test_four_ranks(self):
        """Two by two: each block has two neighbours, on a communicator for its row and one for its column."""
        sent, mpi = self.check(4)
        neighbours = {}
        for (one, other), (messages, size) in sent.items():
            self.assertEqual((messages, sent[other, one]), (self.STEPS, (messages, size)))
            neighbours.setdefault(one, []).append(size // messages)
        self.assertEqual({rank: len(sizes) for rank, sizes in neighbours.items()}, {rank: 2 for rank in range(4)})
        across, down = (({8 * length // 2, 8 * (length // 2 + 2)}) for length in (self.NX, self.NY))
        for sizes in neighbours.values():
            low, high = sorted(sizes)
            self.assertTrue((low in down and high in across) or (low in across and high in down), sizes)
        made = [comm for comm in mpi["communicators"] if comm["ranks"] and len(comm["ranks"]) == 2]
        self.assertEqual(sorted(sorted(comm["ranks"]) for comm in made), sorted([[0, 1], [2, 3], [0, 2], [1, 3]]))
        # what went over them is all that went
        self.assertEqual(sum(comm["bytes"] for comm in made), sum(size for _, size in sent.values()))


class Programs(mpitest.MpiCase):
    def same(self, ranks, *program, env=None, **keywords):
        plain = self.box.run(self.command(ranks, *program), env={**mpitest.QUIET, **(env or {})}, **keywords)
        done = self.job(ranks, *program, options=["-q"], env=env, **keywords)
        self.assertEqual((done.returncode, done.stdout), (plain.returncode, plain.stdout), done.stderr)
        return done

    def test_loaded_library(self):
        """The program knows nothing of MPI, a plugin does."""
        plugin = self.target("sender.c", "-DPLUGIN", "-shared", "-fPIC")
        self.same(3, mpitest.compile_program(None, "loader.c"), plugin)
        mpi = self.mpi_report()
        self.assertEqual(matrix_of(mpi), {(0, 1): (10, 160), (0, 2): (10, 160)})
        self.assertEqual(received_of(mpi), matrix_of(mpi))

    @scrytest.thorough
    def test_registered_plugin(self):
        """A plugin that registers itself where it is opened is seen from the next call of MPI on."""
        program = self.target("registers.c", "-rdynamic")
        plugin = self.target("registers.c", "-shared", "-fPIC", "-DPLUGIN")
        done = self.job(2, program, plugin)
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in self.mpi_report()["ranks"]:
            calls = mpitest.calls_of(rank)
            self.assertEqual((calls["MPI_Barrier"]["calls"], calls["MPI_Allreduce"]["calls"]), (1, 3))

    @scrytest.thorough
    @mpitest.only("openmpi")
    def test_spawned(self):
        """Processes that the program starts itself are followed, and named as what they are."""
        program = self.target("spawns.c")
        plain = self.plain(2, program)
        if plain.returncode:
            self.skipTest(f"MPI_Comm_spawn does not work under this {self.mpi} without scry either: "
                          f"{mpitest.last_words(plain)}")
        self.assertEqual(len(plain.stdout.splitlines()), 4)
        done = self.job(2, program)
        self.assertEqual((done.returncode, sorted(done.stdout.splitlines())), (0, sorted(plain.stdout.splitlines())))
        ranks = self.mpi_report()["ranks"]
        self.assertEqual([(each["world"], each["rank"], each["spawned"]) for each in ranks],
                         [(0, 0, False), (0, 1, False), (1, 0, True), (1, 1, True)])
        for rank in ranks:
            calls = mpitest.calls_of(rank)
            self.assertEqual((calls["MPI_Bcast"]["calls"], "MPI_Comm_spawn" in calls, rank["state"]),
                             (1, not rank["spawned"], "ended"))
        self.assertRegex(self.box.run(self.box.scry("report", "@last")).stdout,
                         r"\n  program 2: 2 ranks of spawns\S* under .*, started by MPI_Comm_spawn\n")

    def test_without_the_agent(self):
        """Ranks that the agent did not come to are no silent nothing."""
        done = self.job(1, "env", "-u", "LD_PRELOAD", self.target("sender.c"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "no MPI calls were counted: .*something replaced LD_PRELOAD")
        self.assertIsNone(self.report()["mpi"])

    @scrytest.thorough
    @mpitest.both
    def test_launcher_of_another(self):
        """The mpirun of another MPI starts each rank as a program of its own."""
        other = {"openmpi": "mpich", "mpich": "openmpi"}[self.mpi]
        if not mpitest.available(other):
            self.skipTest(f"needs {other}")
        program = self.target("ending.c")
        for _ in range(5):
            done = self.box.run(self.box.scry("run", "--", *mpitest.MPIS[other]["run"], "-n", 2, program),
                                env=mpitest.QUIET, timeout=60)
            # Two programs of Open MPI that begin at the same moment may both make its directory, and one then fails.
            if "A call to mkdir was unable to create the desired directory" not in done.stderr:
                break
        self.assertIn("2 programs of one rank each: were they started by the mpirun of another MPI", done.stderr)
        self.assertEqual([(rank["rank"], rank["world"]) for rank in self.mpi_report()["ranks"]], [(0, 0), (0, 1)])

    @scrytest.thorough
    def test_own_tool(self):
        """A tool of the user's, by the profiling interface, counts as before, and each call counts once here, too."""
        tool = self.target("tool.c", "-shared", "-fPIC")
        # (scry itself has the tool in its environment as well, which a sanitized one would not like)
        lenient = f"{self.box.env.get('ASAN_OPTIONS', '')}:verify_asan_link_order=0"
        done = self.same(2, self.target("sender.c"), env={"LD_PRELOAD": tool, "ASAN_OPTIONS": lenient})
        self.assertEqual(done.stdout, "tool: 10 sends\n")
        mpi = self.mpi_report()
        self.assertEqual(matrix_of(mpi), {(0, 1): (10, 160)})
        rows = {row["name"]: row["calls"] for row in mpi["calls"]}
        self.assertEqual((rows["MPI_Send"], rows["MPI_Recv"]), (10, 10))

    def test_tool_in_the_program(self):
        """Linked into it, its MPI_Send cannot be told from the program's own functions: what it calls is counted, and a line
        says so."""
        tool = os.path.join(mpitest.TARGETS, "tool.c")
        done = self.same(2, self.target("sender.c", tool, name="tooled"))
        self.assertEqual(done.stdout, "tool: 10 sends\n")
        rows = {row["name"]: row["calls"] for row in self.mpi_report()["calls"]}
        self.assertEqual((rows["MPI_Send"], rows["MPI_Recv"], rows["MPI_Reduce"], rows["MPI_Finalize"]), (10, 10, 2, 2))
        self.assertEqual(self.mpi_report()["in_own_functions"], [{"name": "MPI_Finalize", "calls": 4}, {"name": "MPI_Send", "calls": 10}])
        self.assertIn("\n  14 of these calls are of functions MPI_Finalize and MPI_Send that the program itself has, a tool that "
                      "is linked into it: ", self.box.run(self.box.scry("report", "@last")).stdout)

    def test_initialised_by_a_library(self):
        """In its constructor: counting begins before it."""
        library = self.target("early.c", "-DLIBRARY", "-shared", "-fPIC", name="libearly")
        program = self.target("early.c", "-Wl,--no-as-needed", library, f"-Wl,-rpath,{os.path.dirname(library)}", name="early")
        self.same(2, program)
        mpi = self.mpi_report()
        self.assertEqual({row["name"]: row["calls"] for row in mpi["calls"]}, 
                         {"MPI_Init": 2, "MPI_Barrier": 10, "MPI_Finalize": 2})
        text = self.box.run(self.box.scry("report", "@last")).stdout
        self.assertNotIn("before counting began", text)

    @mpitest.only("openmpi")
    def test_mpi4py(self):
        if self.mpi != "openmpi":
            self.skipTest("Debian's python3-mpi4py is for Open MPI")
        python = "/usr/bin/python3"
        if subprocess.run([python, "-c", "import mpi4py"], check=False, stderr=subprocess.DEVNULL).returncode:
            self.skipTest("needs python3-mpi4py")
        self.same(3, python, os.path.join(mpitest.TARGETS, "halo.py"))
        mpi = self.mpi_report()
        self.assertEqual(matrix_of(mpi), ring(3, 3, 80))
        self.assertEqual({rank["thread_level"] for rank in mpi["ranks"]}, {3})

    @scrytest.thorough
    def test_threads(self):
        """MPI_THREAD_MULTIPLE, four threads of each rank at once: nothing is lost."""
        threads, steps = 4, 500
        self.same(2, self.target("hammer.c", "-Wno-stringop-overflow"), threads, steps)
        mpi = self.mpi_report()
        all_sent = {(0, 1): (threads * steps, threads * steps * 8), (1, 0): (threads * steps, threads * steps * 8)}
        self.assertEqual(matrix_of(mpi), all_sent)
        self.assertEqual(received_of(mpi), all_sent)
        rows = {row["name"]: row["calls"] for row in mpi["calls"]}
        for name in ("MPI_Isend", "MPI_Irecv", "MPI_Waitall", "MPI_Sendrecv"):
            self.assertEqual(rows[name], 2 * threads * steps // 2, name)
        for rank in mpi["ranks"]:
            self.assertEqual(sum(thread["is_rank"] for thread in rank["threads"]), 1)
            self.assertEqual(len(rank["threads"]), threads + 1)

    def test_scry_exec(self):
        """Put before the program by hand, in a job."""
        program = self.target("ending.c")
        done = self.job(2, *self.box.scry("exec", program), options=["-q"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(matrix_of(self.mpi_report()), ring(2))

    @scrytest.thorough
    def test_off(self):
        program = self.target("ending.c")
        done = self.job(2, program, options=["-q", "--mpi", "off"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIsNone(self.report()["mpi"])
        done = self.job(2, program, options=["-q", "--trace", "off"])  # without functions, with MPI
        self.assertEqual(matrix_of(self.mpi_report()), ring(2))

    def test_traced_is_counted(self):
        done = self.job(2, self.target("ending.c"), options=["-q", "--mpi", "trace"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(matrix_of(self.mpi_report()), ring(2))

    def test_summary(self):
        done = self.job(2, self.target("ending.c"))
        self.assertRegex(done.stderr, r"  MPI +2 ranks, [\d.]+ % of the ranks' time in MPI")

    def test_not_mpi(self):
        """A launcher of programs without MPI: no ranks."""
        done = self.job(2, "true")
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("MPI calls", done.stderr)
        self.assertIsNone(self.report()["mpi"])


    def test_truncated_receive(self):
        """A receive whose buffer is too short is an error of its call, and none that got the message: that stays unreceived."""
        done = self.job(2, self.target("truncated.c"), options=["--mpi", "trace"])
        self.assertEqual((done.returncode, done.stdout), (0, "truncated\n"), done.stderr)
        report = self.report()
        self.assertEqual((mpitest.matrix_of(report["mpi"]), mpitest.received_of(report["mpi"])), ({(0, 1): (2, 48)}, {(0, 1): (1, 8)}))
        receives, = (row for row in report["mpi"]["calls"] if row["name"] == "MPI_Recv")
        self.assertEqual((receives["calls"], receives["received_bytes"]), (2, 8))
        self.assertEqual((report["mpi_trace"]["messages"], report["mpi_trace"]["unreceived"], report["mpi_trace"]["unsent"]), (1, 1, 0))

    def test_unmeasured(self):
        """What --mpi-metrics leaves out is not zero: it is "-", and null."""
        done = self.job(2, self.target("ending.c"), "finalize", options=["--mpi-metrics", "none"])
        self.assertEqual(done.returncode, 0, done.stderr)
        mpi, text = self.mpi_report(), self.box.run(self.box.scry("report", "@last")).stdout
        self.assertEqual((mpi["unmeasured"], mpi["time"], mpi["blocking"], mpi["matrix"]), (["clocks", "peers", "requests"], None, None, []))
        self.assertEqual([(rank["run_ns"], rank["computation_ns"], rank["communication_ns"], rank["share"]) for rank in mpi["ranks"]],
                         [(None,) * 4] * 2)
        (world,) = (comm for comm in mpi["communicators"] if comm["name"] == "MPI_COMM_WORLD")
        self.assertEqual((world["messages"], world["bytes"], world["collective_bytes"], world["one_sided_bytes"]), (None,) * 4)
        (sent,) = (call for call in mpi["calls"] if call["name"] == "MPI_Sendrecv")  # which is counted all the same
        self.assertEqual((sent["calls"], sent["sent_bytes"]), (2 * STEPS, 2 * STEPS * 8))
        self.assertIn("their time in MPI is not known: it was not measured (--mpi-metrics)", text)
        self.assertEqual(len(re.findall(r"(?m)^ +[01]  \S+ +\d+( +-){5}$", text)), 2, text)
        for said in text.partition("\nMPI: ")[2].partition("\nLog files")[0], done.stderr:
            self.assertNotRegex(said, r"came out of MPI_Init|\b0(\.0+)? (B|ns|%)")


class Ends(mpitest.MpiCase):
    def check_statuses(self, way, **keywords):
        program = self.target("ending.c")
        plain, done = self.plain(3, program, way, **keywords), self.job(3, program, way, options=["-q"], **keywords)
        said = [re.sub(r"PID \d+", "PID", text) for text in (plain.stdout, done.stdout)]  # the launcher's words
        self.assertEqual((done.returncode, said[1]), (plain.returncode, said[0]), done.stderr)
        return done

    def states(self, mpi):
        return {rank["rank"]: rank["state"] for rank in mpi["ranks"]}

    def test_finalize(self):
        self.check_statuses("finalize")
        mpi = self.mpi_report()
        self.assertEqual(set(self.states(mpi).values()), {"ended"})
        self.assertEqual(matrix_of(mpi), ring(3))

    def test_status(self):
        self.check_statuses("status")
        self.assertEqual(matrix_of(self.mpi_report()), ring(3))

    @mpitest.only("openmpi")
    def test_killed_rank(self):
        """What it did before is known to the last message."""
        self.check_statuses("kill")
        mpi = self.mpi_report()
        self.assertEqual(self.states(mpi)[1], "died without MPI_Finalize")
        self.assertEqual(matrix_of(mpi), ring(3))
        text = self.box.run(self.box.scry("report", "@last")).stdout
        self.assertRegex(text, r"rank 1 \(\S+, process \d+\): (killed by SIGKILL|died without MPI_Finalize)")
        (end,) = (each["end"] for each in mpi["ranks"] if each["rank"] == 1)
        self.assertEqual((end["signal"], end["exit_code"], end["first"]), (signal.SIGKILL, None, True))
        self.check_first(1, "was killed by SIGKILL", text)

    @mpitest.only("openmpi")
    def test_reason(self):
        """Under every launcher the first rank that failed, with its words: in the summary, in the list of jobs, and in scry why."""
        for way, reason in (("leave", r"rank 1 of 3 exited with status 0 without MPI_Finalize, after MPI_\w+ at \w+ \(ending.c:\d+\): ERROR: the mesh is empty"),
                            ("kill", r"rank 1 of 3 was killed by SIGKILL, probably by its own job, or from outside: .*"),
                            ("abort", r"rank 1 of 3 called MPI_Abort with 3 at main \(ending.c:\d+\)"),
                            ("status", r"rank 0 of 3 exited with status 5 after MPI_Finalize"),
                            ("error", r"(probably what stderr says: Abort\(\d+\) on node 1 \(rank 1 in comm 0\): Fatal error in \w+: Invalid rank"
                                      r"|rank 1 of 3 exited with status \d+ without MPI_Finalize).*")):
            with self.subTest(way):
                work = self.box.path("work")
                files = ["sh", "-c", 'exec "$0" "$@" >out 2>err', *self.box.scry("run", "--", *mpitest.MPIS[self.mpi]["run"], "-n", 3,
                                                                                 self.target("ending.c"), way)]
                status = self.box.run(files, cwd=work, env=mpitest.QUIET, timeout=60).returncode
                if way == "leave" and not status:
                    continue  # MPICH now and then sees nothing in it
                if self.report()["failed"]["unknown"]:
                    continue  # the machine was so busy that nobody saw how a rank ended
                with open(os.path.join(work, "err"), encoding="utf-8") as file:
                    said = file.read()
                if (way, self.mpi) == ("error", "mpich") and "Fatal error in" not in said:
                    reason = r"rank \d of 3 was killed by SIGKILL.*"  # MPICH kills ranks, and may do so before it has passed on what they said
                self.assertRegex(said, rf"(?m)^  reason +{reason}$")
                (job, *_) = json.loads(self.box.run(self.box.scry("ps", "--json")).stdout)["jobs"]
                self.assertRegex(job["cause"], f"^{reason}$")
                self.assertRegex(self.box.run(self.box.scry("why", "@last")).stdout, rf"\Ajob \S+ failed: {reason}\n")

    @scrytest.thorough
    @mpitest.both
    def test_left_uncounted(self):
        """Without statistics of MPI the process is known that was the first to end, and that its launcher then killed the others."""
        program = self.target("ending.c")
        done = self.job(3, program, "leave", options=["--mpi", "off"])
        report = self.report()
        if report["failed"]["unknown"]:
            self.skipTest("the machine was so busy that nobody saw how a rank ended")
        self.assertIsNone(report["mpi"])
        name = os.path.basename(program)[:15]  # the kernel's names are not longer
        (left,) = (one for one in report["processes"] if one["name"] == name and one["exit_code"] == 0)
        launcher = os.path.basename(mpitest.MPIS[self.mpi]["run"][0])
        signal_of = {"openmpi": "SIGTERM", "mpich": "SIGKILL"}[self.mpi]
        reason = (rf"{re.escape(name)} \(pid {left['pid']}\) ended first, with exit status 0, probably without MPI_Finalize; "
                  rf"{re.escape(launcher)} then killed the others by {signal_of}")
        if done.returncode:
            self.assertRegex(done.stderr, rf"(?m)^  reason +{reason}(: ERROR: the mesh is empty)?$")
        else:  # as MPICH's launcher does now and then
            self.assertRegex(done.stderr, rf"(?m)^  trouble +the exit status is 0, but {reason}$")

    def check_first(self, rank, words, text):
        """The one that began it stands out in the report, and scry why begins with it."""
        line = rf"(?m)^ *rank {rank} {words}(, the first of \d ranks that ended without MPI_Finalize)?$"
        self.assertRegex(text, line)
        self.assertRegex(self.box.run(self.box.scry("why", "@last")).stdout, rf"^job \S+ failed: .*rank {rank} of \d {words}")

    def test_abort(self):
        self.check_statuses("abort")
        mpi = self.mpi_report()
        (rank,) = (each for each in mpi["ranks"] if each["rank"] == 1)
        self.assertEqual((rank["state"], rank["abort_code"]), ("called MPI_Abort", 3))
        self.check_first(1, "called MPI_Abort with 3", self.box.run(self.box.scry("report", "@last")).stdout)
        self.assertEqual(matrix_of(mpi)[1, 2], (STEPS, STEPS * 8))

    @scrytest.thorough
    @mpitest.both
    def test_abort_with_0(self):
        """The launcher may then end with 0: that hides nothing."""
        done = self.job(3, self.target("ending.c"), "abort0")
        what = "rank 1 of 3 called MPI_Abort with 0"
        said = f"  trouble    the exit status is 0, but {what} at main (ending.c:" if done.returncode == 0 else f"  reason     {what}"
        self.assertIn(said, done.stderr)
        self.assertRegex(self.box.run(self.box.scry("ps")).stdout, rf"  (!|->) {what}")

    @scrytest.thorough
    def test_exit_without_finalize(self):
        self.job(3, self.target("ending.c"), "exit", options=["-q"])
        mpi = self.mpi_report()
        self.assertEqual(set(self.states(mpi).values()), {"died without MPI_Finalize"})
        self.assertEqual(matrix_of(mpi), ring(3))

    @scrytest.thorough
    def test_restricted(self):
        """One that forbids itself system calls would be killed by those of the interposer: it is counted up to there."""
        for mode in "stats", "trace":
            with self.subTest(mode):
                self.job(3, self.target("ending.c"), "sealed", options=["-q", "--mpi", mode])
                mpi = self.mpi_report()
                self.assertEqual(set(self.states(mpi).values()), {"not counted to the end"})
                self.assertTrue(all("seccomp" in rank["fault"] for rank in mpi["ranks"]))
                self.assertEqual(matrix_of(mpi), ring(3))
                for rank in range(3):
                    path = self.box.path("work", f"sent.{rank}")
                    with open(path, encoding="utf-8") as file:
                        self.assertEqual(file.read(), "sent")
                    os.unlink(path)

    def test_never_initialised(self):
        self.check_statuses("never")
        mpi = self.report()["mpi"]
        if mpi:
            self.assertEqual({rank["state"] for rank in mpi["ranks"]}, {"never called MPI_Init"})
            self.assertEqual(mpi["matrix"], [])

    @scrytest.thorough
    def test_standard_input(self):
        """It gets to rank 0, byte for byte."""
        text = "".join(f"line {number}\n" for number in range(1000))
        done = self.check_statuses("input", input=text)
        self.assertEqual(done.stdout, text)
        self.assertEqual(matrix_of(self.mpi_report()), ring(3))

    def waiting(self):
        """A job whose ranks have sent all and wait: it, and their process ids by rank."""
        job = self.start_job(3, self.target("ending.c"), "wait", stderr=subprocess.DEVNULL)
        pids = {}
        while len(pids) < 3:
            rank, pid = job.stdout.readline().split()[1:]
            pids[int(rank)] = int(pid)
        return job, pids

    @scrytest.thorough
    def test_killed_from_outside(self):
        job, pids = self.waiting()
        os.kill(pids[2], signal.SIGKILL)
        self.assertNotEqual(job.wait(60 * scrytest.SCALE), 0)
        mpi = self.mpi_report(self.box.path("work", "job"))
        self.assertEqual(self.states(mpi)[2], "died without MPI_Finalize")
        self.assertEqual(matrix_of(mpi), ring(3))

    @scrytest.thorough
    @mpitest.both
    def test_killed_launcher(self):
        job, pids = self.waiting()
        (launcher,) = scrytest.children(job.pid)
        os.kill(launcher, signal.SIGKILL)
        self.assertEqual(job.wait(60 * scrytest.SCALE), 128 + signal.SIGKILL)
        scrytest.wait_until(lambda: all(scrytest.process_gone(pid) for pid in pids.values()), 30, "the ranks end, too")

        def written():
            mpi = self.report(self.box.path("work", "job"))["mpi"]
            return mpi and matrix_of(mpi) == ring(3)

        scrytest.wait_until(written, 10, "what they sent is known")

    @scrytest.thorough
    def test_while_it_runs(self):
        """The report of a running job is as new as scry why made it."""
        job, pids = self.waiting()
        path = self.box.path("work", "job")
        answer, _ = self.why(path)
        self.assertEqual({rank["rank"]: rank["pid"] for rank in answer["mpi"]["ranks"]}, pids)
        mpi = self.mpi_report(path)
        self.assertEqual((set(self.states(mpi).values()), matrix_of(mpi)), ({"running"}, ring(3)))
        with open(self.box.path("work", "go"), "w", encoding="ascii"):
            pass
        self.assertEqual(job.wait(60 * scrytest.SCALE), 0)


class Names(mpitest.MpiCase):
    """Which lines call sites are: of the program that ran, and of no other."""

    def run_copy(self):
        self.program = self.box.path("work", "program")
        shutil.copy2(self.target("sender.c"), self.program)
        done = self.job(2, self.program, options=["-q", "-o", self.box.path("work", "job")])
        self.assertEqual(done.returncode, 0, done.stderr)

    def named(self):
        mpi = self.mpi_report(self.box.path("work", "job"))
        return {site["name"]: (site["function"], os.path.basename(site["file"] or "")) for site in mpi["sites"]}

    def test_removed(self):
        """They were looked up when the job ended, and are kept."""
        self.run_copy()
        os.unlink(self.program)
        self.assertEqual(self.named()["MPI_Send"], ("run", "sender.c"))

    def test_replaced(self):
        self.run_copy()
        os.unlink(self.box.path("work", "job", "stats", "sites.json"))
        shutil.copy2(self.target("ending.c"), self.program)
        self.assertEqual(self.named()["MPI_Send"], (None, ""))
        text = self.box.run(self.box.scry("report", self.box.path("work", "job"))).stdout
        self.assertRegex(text, r"call sites have no names: \S+/program has been replaced since it ran")
        self.assertRegex(text, r"MPI_Send +10 .* program\+0x[0-9a-f]+")
        shutil.copy2(self.target("sender.c"), self.program)  # here it is again
        self.assertEqual(self.named()["MPI_Send"], ("run", "sender.c"))


class Both(scrytest.TestCase):
    """Both MPIs in one job: each with its own library, ranks kept apart."""

    @scrytest.thorough
    def test_both(self):
        if not all(mpitest.available(mpi) for mpi in mpitest.MPIS):
            self.skipTest("needs both MPIs")
        programs = {mpi: mpitest.compile_program(mpi, "sender.c") for mpi in mpitest.MPIS}
        script = "; ".join(" ".join([*mpitest.MPIS[mpi]["run"], "-n", "2", programs[mpi]]) for mpi in mpitest.MPIS)
        done = self.box.run(self.box.scry("run", "-q", "sh", "-c", script))
        self.assertEqual(done.returncode, 0, done.stderr)
        mpi = json.loads(self.box.run(self.box.scry("report", "--json", "@last")).stdout)["mpi"]
        self.assertEqual(sorted((rank["library"], rank["rank"]) for rank in mpi["ranks"]),
                         [("mpich", 0), ("mpich", 1), ("openmpi", 0), ("openmpi", 1)])
        self.assertEqual({rank["world"] for rank in mpi["ranks"]}, {0, 1})
        self.assertEqual([(cell["world"], cell["from"], cell["to"], cell["messages"]) for cell in mpi["matrix"]],
                         [(0, 0, 1, 10), (1, 0, 1, 10)])


for each in (Stommel, Programs, Ends, Names):
    mpitest.for_each_mpi(each, globals())
del each
scrytest.main()
