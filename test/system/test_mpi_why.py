# SPDX-License-Identifier: Apache-2.0
"""scry why, of MPI: deadlocks, stragglers, mismatched collectives."""

import glob
import json
import os
import re
import shlex
import signal
import subprocess
import unittest

import mpitest
import scrytest


class Why(mpitest.MpiCase):
    def command(self, ranks, *program):
        """Ranks that poll leave the processor to those who look at them."""
        return ["nice", "-n", "5", *super().command(ranks, *program)]

    def ask(self, until, ranks, *program, shown=""):
        """Starts a job and asks until `until(answer)`, and for the text until it tells of the same findings and has `shown`,
        a pattern; the answer, the exit status of scry why, and the text. shown=None: without the text."""
        job = self.start_job(ranks, *program, stdout=subprocess.DEVNULL)
        path = self.box.path("work", "job")
        scrytest.wait_until(lambda: os.path.exists(os.path.join(path, "job.json")), 20, "the job starts")
        answers = []

        def settled():
            answers.append(self.why(path))
            return until(answers[-1][0])

        scrytest.wait_until(settled, 60, lambda: f"scry why says so: {json.dumps(answers[-1][0], indent=1)}")
        text = None if shown is None else self.text_of(path, answers[-1][0], shown)
        self.end(job)
        return (*answers[-1], text)

    def text_of(self, path, answer, shown=""):
        """What is asked for again is looked at again: a rank that had no processor meanwhile may do anything. The service
        says the same as the command, which knows more of ranks that compute."""
        texts, findings = [], [each["text"] for each in answer["mpi"]["findings"]]
        same = [each["text"] for each in answer["mpi"]["findings"] if each["kind"] in ("deadlock", "mismatch", "polls", "dead_peer")]

        def said():
            command = self.box.start(self.box.scry("why", path))
            reply = self.box.run(self.box.scry("omis", "-c", f': mpi_get_wait_graph("{path}")')).stdout
            texts.append(command.communicate()[0])
            return all(each in texts[-1] for each in findings) and re.search(shown, texts[-1]) and \
                all(each in reply for each in same)

        scrytest.wait_until(said, 30, lambda: f"scry why says {findings} and {shown!r}: {texts[-1]}")
        return texts[-1]

    def end(self, job):
        for launcher in scrytest.children(job.pid):  # politely, it waits for ranks that do not listen
            os.kill(launcher, signal.SIGKILL)
        job.wait(60 * scrytest.SCALE)

    def only(self, kind, ranks=None, victims=None, text=""):
        """One finding, of these ranks, for which these wait. Earlier, while some are on their way, who came first waits for
        all others."""
        def is_so(answer):
            findings = answer["mpi"]["findings"] if answer["mpi"] else []
            return [each["kind"] for each in findings] == [kind] and text in findings[0]["text"] and \
                ranks in (None, sorted(findings[0]["ranks"])) and victims in (None, sorted(findings[0]["victims"]))
        return is_so

    def both(self, *conditions):
        return lambda answer: all(each(answer) for each in conditions)

    def calls(self, calls):
        """Each of these ranks is in that call."""
        return lambda answer: all(self.thread(answer, rank)["call"] == call for rank, call in calls.items())

    def thread(self, answer, rank):
        (found,) = (each for each in answer["mpi"]["ranks"] if each["rank"] == rank)
        (thread,) = (each for each in found["threads"] if each["is_rank"])
        return thread

    @scrytest.thorough
    @mpitest.only("openmpi")
    def test_python(self):
        """The line of a Python program that called MPI, and that of one which others wait for."""
        python, path = "/usr/bin/python3", self.box.path("work", "wait.py")
        if self.mpi != "openmpi" or subprocess.run([python, "-c", "import mpi4py"], check=False, stderr=subprocess.DEVNULL).returncode:
            self.skipTest("needs python3-mpi4py, which is for Open MPI")
        with open(path, "w", encoding="ascii") as file:
            file.write("import time\nfrom mpi4py import MPI\ndef exchange(world):\n    if world.rank == 0:\n        world.Barrier()\n"
                       "    else:\n        time.sleep(1000)\nexchange(MPI.COMM_WORLD)\n")
        answer, _, text = self.ask(self.only("straggler", [1], [0], "exchange (wait.py:7)"), 2, python, path,
                                   shown=r"called by\s+exchange\s+\(wait.py:5\)")
        ranks = {rank["rank"]: rank for rank in answer["mpi"]["ranks"]}
        self.assertEqual(ranks[0]["python"], "exchange (wait.py:5)")
        self.assertRegex(text, r"sleeps, at exchange\s+\(wait.py:7\)")

    def ended(self, ranks, reason, shown, *command):
        """Long before that it stands still is recorded: the reason is what the ranks were in, not the signal."""
        job = self.start_job(ranks, *command, stdout=subprocess.DEVNULL)
        path = self.box.path("work", "job")
        scrytest.wait_until(lambda: os.path.exists(os.path.join(path, "job.json")), 20, "the job starts")
        scrytest.wait_until(lambda: (self.why(path)[0]["mpi"] or {"still_seconds": 0})["still_seconds"] > 3, 60, "it stands still")
        (launcher,) = scrytest.children(job.pid)
        os.kill(launcher, signal.SIGTERM)
        job.wait(60 * scrytest.SCALE)
        reason = f"probably stuck in MPI, until it was ended[^:]*: deadlock: {reason}"
        text = self.box.run(self.box.scry("why", path)).stdout.replace("\n    ", " ")
        report = self.report(path)
        if report["exit_code"]:
            self.assertRegex(report["last"]["reason"]["text"], "^" + reason)
        else: # as MPICH's launcher may end
            reason = f"the exit status is 0, but {ranks} ranks were killed: " + reason
        self.assertRegex(text, reason)
        self.assertRegex(text, r"\nwhat its ranks were in at the end:\ndeadlock: [^\n]*\n  rank 0 \(\S+, process \d+\): " + shown)

    @scrytest.hasten(5)
    def test_deadlock_that_was_ended(self):
        self.ended(4, "4 ranks wait for each other", r"MPI_Send of 7.6 MB to rank 1, tag 7 .*mpi_deadlock.c:\d+", mpitest.example("mpi_deadlock", self.mpi))

    @scrytest.thorough
    @scrytest.hasten(5)
    def test_other_tag_that_was_ended(self):
        """A message with another tag lies there, and nobody has seen the rank look at it."""
        self.ended(3, "ranks 0 and 1 wait for each other", r"MPI_Recv [^*]*another tag\?", self.target("stuck.c", "-Wno-stringop-overflow"), "tag")

    def late(self, ranks, note, reason, *command):
        job = self.start_job(ranks, *command, options=["--mpi-stall", "1", "--sample", "0.1"], stdout=subprocess.DEVNULL)
        path = self.box.path("work", "job")
        spool = os.path.join(path, "spool", "records.jsonl")

        def seen():
            if not os.path.exists(spool):
                return False
            with open(spool, encoding="utf-8") as file:
                return f'"{note}"' in file.read() and (self.why(path)[0]["mpi"] or {"still_seconds": 0})["still_seconds"] > 4
        scrytest.wait_until(seen, 60, "it is seen where the late rank is")
        (launcher,) = scrytest.children(job.pid)
        os.kill(launcher, signal.SIGTERM)
        job.wait(60 * scrytest.SCALE)
        text = " ".join(self.box.run(self.box.scry("why", path)).stdout.split())
        self.assertRegex(text, r"probably a late rank, until it was ended[^:]*: " + reason)

    @scrytest.hasten(20)
    def test_late_that_was_ended(self):
        """Ranks waited for one that computed, for as long as a stall: that is the reason, with its place."""
        self.late(2, "mpi_late", r"rank 1 computed in large_part \(mpi_straggler.c:\d+\) for [\d.]+ s "
                                 r"while 1 rank waited for it, in MPI_Allreduce at main \(mpi_straggler.c:\d+\)",
                  mpitest.example("mpi_straggler", self.mpi), 1, 1000)

    @scrytest.hasten(20)
    def test_waiting_that_was_ended(self):
        """Likewise for one that waited outside of MPI: for what."""
        os.mkfifo(self.box.path("work", "fifo"))
        self.late(3, "mpi_late_waits", r"rank 1 reads from .*, at main \(stuck.c:\d+\), and for [\d.]+ s 2 ranks waited for it, "
                                       r"rank 0 in MPI_\w+ at main \(stuck.c:\d+\)",
                  self.target("stuck.c", "-Wno-stringop-overflow"), "read")

    def test_deadlock(self):
        answer, status, text = self.ask(self.only("deadlock", [0, 1, 2, 3], []), 4, mpitest.example("mpi_deadlock", self.mpi))
        (finding,) = answer["mpi"]["findings"]
        self.assertEqual((sorted(finding["ranks"]), finding["victims"], status), ([0, 1, 2, 3], [], 3))
        for rank in range(4):
            thread = self.thread(answer, rank)
            self.assertEqual((thread["call"], thread["peer"], thread["tag"], thread["communicator"]),
                             ("MPI_Send", (rank + 1) % 4, 7, "MPI_COMM_WORLD"))
            self.assertEqual((thread["at"]["function"], os.path.basename(thread["at"]["file"])),
                             ("exchange", "mpi_deadlock.c"))
            self.assertEqual([each["reason"] for each in thread["waits_for"]], ["receive"])
        self.assertIn("deadlock: 4 ranks wait for each other in a circle", text)
        self.assertRegex(text, r"rank 2 \(\S+, process \d+\): MPI_Send of 7.6 MB to rank 3, tag 7 .*mpi_deadlock.c:\d+")

    def test_deadlock_in_a_part(self):
        """A batch system starts tasks beside the script, on its own node: their scry run makes a part of the job there."""
        part = ("scry", "run", "--anyway", "--quiet", "--part-of", "$(basename $SCRY_JOB):$SCRY_JOB", "--")
        command = " ".join((*part, *map(shlex.quote, map(str, self.command(2, mpitest.example("mpi_deadlock", self.mpi))))))
        job = self.box.start(self.box.scry("run", "-q", "--", "sh", "-c", command), env=mpitest.QUIET)
        path, = scrytest.wait_until(lambda: glob.glob(self.box.path("jobs", "2*")), 60)
        request = f': mpi_get_wait_graph("{path}")'
        scrytest.wait_until(lambda: "deadlock: ranks 0 and 1 wait for each other" in self.box.run(self.box.scry("omis", "-c", request)).stdout, 60)
        scrytest.wait_until(lambda: self.only("deadlock", [0, 1], [])(self.why(path)[0]), 60)
        self.box.run(self.box.scry("stop", path))
        job.wait(60 * scrytest.SCALE)

    def test_straggler(self):
        answer, status, text = self.ask(self.only("straggler", [1], [0, 2, 3]), 4, mpitest.example("mpi_straggler", self.mpi), 1, 1000,
                                        1, shown="computes: in large_part")
        (finding,) = answer["mpi"]["findings"]
        self.assertEqual((finding["ranks"], finding["victims"], status), ([1], [0, 2, 3], 0))
        self.assertEqual({each["rank"]: each["waits_in_the_end_for"] for each in answer["mpi"]["ranks"]},
                         {0: 1, 1: None, 2: 1, 3: 1})
        self.assertIn("3 ranks wait for rank 1, which computes", text)
        self.assertRegex(text, r"computes: in large_part \(mpi_straggler.c:\d+\)")

    def test_mismatch(self):
        answer, status, text = self.ask(self.only("mismatch", [0, 1, 2, 3]), 4, mpitest.example("mpi_mismatch", self.mpi))
        (finding,) = answer["mpi"]["findings"]
        self.assertEqual((finding["ranks"], status), ([0, 1, 2, 3], 3))
        self.assertEqual([self.thread(answer, rank)["call"] for rank in range(4)],
                         ["MPI_Allreduce", "MPI_Allreduce", "MPI_Barrier", "MPI_Allreduce"])
        self.assertIn("disagree about collective 2 on MPI_COMM_WORLD: rank 0 is in MPI_Allreduce, rank 2 in MPI_Barrier",
                      text)
        self.assertIn("nothing_to_add (mpi_mismatch.c:", text)

    def stuck(self, way, until, shown=""):
        return self.ask(until, 3, self.target("stuck.c", "-Wno-stringop-overflow"), way, shown=shown)

    def found(self, way, until):
        """Without the text, which is made of the answer, as others show."""
        return self.stuck(way, until, None)[:2]

    @scrytest.thorough
    def test_another_tag(self):
        answer, _, text = self.stuck("tag", self.only("deadlock", [0, 1], [2]), "another tag")
        self.assertEqual((answer["mpi"]["findings"][0]["ranks"], answer["mpi"]["findings"][0]["victims"]), ([0, 1], [2]))
        self.assertEqual(self.thread(answer, 0)["waits_for"][0]["unreceived"], 1)
        self.assertIn("another tag?", text)

    @scrytest.thorough
    def test_anybody(self):
        answer, _ = self.found("wildcard", self.only("deadlock", [0, 1, 2]))
        self.assertEqual(answer["mpi"]["findings"][0]["ranks"], [0, 1, 2])

    def test_requests(self):
        answer, _ = self.found("waitall", self.only("deadlock", [0, 1], [2]))
        self.assertEqual((answer["mpi"]["findings"][0]["ranks"], answer["mpi"]["findings"][0]["victims"]), ([0, 1], [2]))
        self.assertEqual(self.thread(answer, 0)["call"], "MPI_Waitall")

    @scrytest.thorough
    def test_made_communicator(self):
        """Its rank 0 is rank 2 of MPI_COMM_WORLD."""
        answer, _ = self.found("split", self.only("deadlock", [0, 2]))
        self.assertEqual(answer["mpi"]["findings"][0]["ranks"], [0, 2])
        self.assertEqual(self.thread(answer, 0)["peer"], 2)

    def test_ended(self):
        answer, status = self.found("ended", self.only("deadlock", [0, 1]))
        self.assertIn(0, answer["mpi"]["findings"][0]["ranks"])
        self.assertEqual((self.thread(answer, 1)["call"], status), ("MPI_Finalize", 3))

    @scrytest.thorough
    def test_roots(self):
        # before rank 0 has come, 1 and 2 disagree
        self.stuck("roots", self.only("mismatch", text="its root is rank 0 for rank 0, rank 1 for rank 1"))

    def test_computes_in_a_library(self):
        """The program's own line comes first."""
        self.stuck("clock", self.only("straggler", [1], [0, 2]), r"computes: in look_at_clock \(stuck\.c:\d+\), in \S*clock_gettime ")

    @scrytest.thorough
    def test_left_behind(self):
        """The others have left the collective already, for what they wanted of each other came."""
        answer, status, text = self.stuck("left", self.only("mismatch", [0], [1, 2], "rank 0 waits in MPI_Reduce with rank 0 as its root"))
        self.assertEqual(status, 3, text)

    @scrytest.thorough
    def test_alone(self):
        """A receive that no send can match: there is nobody else."""
        answer, status, text = self.stuck("alone", self.only("unmatched", [0], [1, 2]))
        self.assertEqual((answer["mpi"]["findings"][0]["ranks"], answer["mpi"]["findings"][0]["victims"], status),
                         ([0], [1, 2], 3))
        self.assertIn("a receive that nothing can match: rank 0 waits in MPI_Recv for a message on MPI_COMM_SELF, on which "
                      "nobody else is", text)
        self.assertRegex(text, r"MPI_Recv of 8 B from any rank, "
                               r"tag 1 on MPI_COMM_SELF, at main \(stuck.c:\d+\)")

    @scrytest.thorough
    def test_lock(self):
        """Who wants a lock waits for its holder, not for the target, which may itself want it."""
        answer, status = self.found("lock", self.only("straggler", [0], [1, 2], "which sleeps"))
        (finding,) = answer["mpi"]["findings"]
        self.assertEqual((finding["ranks"], finding["victims"], status), ([0], [1, 2], 0))
        self.assertEqual(finding["text"], "2 ranks wait for rank 0, which sleeps")

    @scrytest.thorough
    def test_locked(self):
        """0 and 2 for each other; 1, whose window it is, waits for them in a barrier."""
        answer, status = self.found("locked", self.only("deadlock", [0, 2], [1]))
        (finding,) = answer["mpi"]["findings"]
        self.assertEqual((sorted(finding["ranks"]), finding["victims"], status), ([0, 2], [1], 3))

    def waits_for(self, answer, rank):
        return [(each["reason"], each["for_ranks"], each["all"]) for each in self.thread(answer, rank)["waits_for"]]

    @scrytest.thorough
    def test_post(self):
        def wants_access(answer):  # the ranks meet for the window before
            return self.waits_for(answer, 0) == [("post", [1], True)]

        answer, status, text = self.stuck("post", self.both(self.only("straggler", [1], [0, 2], "which sleeps"), wants_access))
        (finding,) = answer["mpi"]["findings"]
        self.assertEqual((finding["ranks"], finding["victims"], status), ([1], [0, 2], 0))
        self.assertEqual(self.waits_for(answer, 0), [("post", [1], True)])
        self.assertEqual(finding["text"], "2 ranks wait for rank 1, which sleeps")
        self.assertRegex(text, r"MPI_Win_(start|complete) on .*; waits for rank 1 to call MPI_Win_post, at access_epoch ")

    @scrytest.thorough
    def test_complete(self):
        answer, status, text = self.stuck("complete", self.only("deadlock", [1, 2], [0]))
        (finding,) = answer["mpi"]["findings"]
        self.assertEqual((sorted(finding["ranks"]), finding["victims"], status), ([1, 2], [0], 3))
        self.assertEqual(self.waits_for(answer, 1), [("complete", [2], True)])
        self.assertRegex(text, r"MPI_Win_wait on .*; waits for rank 2 to call MPI_Win_complete, at epochs ")

    def test_stopped(self):
        """Its message has arrived, and is received as soon as the rank goes on: no deadlock."""
        job = self.start_job(3, self.target("stuck.c", "-Wno-stringop-overflow"), "answer", stdout=subprocess.DEVNULL)
        path, answers = self.box.path("work", "job"), []

        def calls(expected):
            answers.append(self.why(path))
            mpi = answers[-1][0]["mpi"]
            return mpi and len(mpi["ranks"]) == 3 and all(
                any(thread["call"] == call for thread in mpi["ranks"][rank]["threads"])
                for rank, call in expected.items())

        scrytest.wait_until(lambda: os.path.exists(os.path.join(path, "job.json")), 20, "the job starts")
        scrytest.wait_until(lambda: calls({0: "MPI_Recv"}), 30, lambda: json.dumps(answers[-1][0], indent=1))
        pid = answers[-1][0]["mpi"]["ranks"][0]["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            open(self.box.path("work", "go"), "w", encoding="utf-8").close()
            scrytest.wait_until(lambda: calls({1: "MPI_Recv"}) and answers[-1][0]["mpi"]["ranks"][1]["state"] == "waits", 30,
                                lambda: json.dumps(answers[-1][0], indent=1))
            (finding,) = answers[-1][0]["mpi"]["findings"]
            self.assertEqual((finding["kind"], finding["ranks"], answers[-1][1]), ("straggler", [0], 0))
            self.assertIn("rank 0, which is stopped (by a signal or a debugger)", finding["text"])
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(job.wait(60 * scrytest.SCALE), 0)

    @scrytest.thorough
    def test_stopped_by_a_rule(self):
        """At its first receive, and until a tool lets it go on."""
        rule = 'thread_has_started_lib_call([], "MPI_Recv", "peer == 1") : thread_stop([$thread])'
        job = self.start_job(3, self.target("stuck.c", "-Wno-stringop-overflow"), "silent", options=["--rule", rule],
                             stdout=subprocess.DEVNULL)
        path, answers = self.box.path("work", "job"), []

        def held():
            answers.append(self.why(path))
            mpi = answers[-1][0]["mpi"]
            return mpi and {each["rank"]: each["state"] for each in mpi["ranks"]} == \
                {0: "stopped", 1: "computes", 2: "stopped"}

        scrytest.wait_until(lambda: os.path.exists(os.path.join(path, "job.json")), 20, "the job starts")
        scrytest.wait_until(held, 30, lambda: json.dumps(answers[-1][0], indent=1))
        thread = self.thread(answers[-1][0], 0)
        self.assertEqual((thread["state"], thread["held_by"]), ("stopped", "a rule of scry (thread_has_started_lib_call)"))
        text = self.box.run(self.box.scry("why", path)).stdout
        self.assertIn("stopped by a rule of scry (thread_has_started_lib_call)", text)
        self.end(job)

    def test_without_the_monitor(self):
        """The record answers with what was seen last: also who polls, and for whom."""
        job = self.start_job(3, self.target("stuck.c", "-Wno-stringop-overflow"), "test", stdout=subprocess.DEVNULL)
        path, answers = self.box.path("work", "job"), []
        polls = self.only("polls", [0, 1], [2])

        def seen():
            """And the monitor, stopped then, has not written its periodic record again."""
            answers.append(self.why(path)[0])
            if not polls(answers[-1]):
                return False
            os.kill(self.box.monitor_pid(), signal.SIGSTOP)
            files = [json.load(open(each, encoding="utf-8")) for each in glob.glob(os.path.join(path, "stats", "*", "*.json"))]
            if len(files) == 3 and all(each["looked"] for each in files):
                return True
            os.kill(self.box.monitor_pid(), signal.SIGCONT)
            return False

        scrytest.wait_until(lambda: os.path.exists(os.path.join(path, "job.json")), 20, "the job starts")
        scrytest.wait_until(seen, 60, lambda: json.dumps(answers[-1], indent=1))
        os.kill(job.pid, signal.SIGSTOP)  # it would start another monitor
        try:
            self.box.stop_monitor(signal.SIGKILL)
            answer, _ = self.why(path)
        finally:
            os.kill(job.pid, signal.SIGCONT)
        self.assertIn("this is the job's last report", answer["note"])
        self.assertTrue(polls(answer), json.dumps(answer, indent=1))
        self.end(job)

    def polls(self, way, shown=""):
        answer, status, text = self.stuck(way, self.only("polls", [0, 1], [2], "rank 0 polls, and may" if way == "test" else
                                                         "by polling"), shown)
        self.assertEqual(status, 0)  # it may do something else
        thread = self.thread(answer, 0)
        self.assertEqual((thread["state"], thread["stuck"]), ("polls", False))
        self.assertGreater(thread["polls_per_second"], 0)
        return answer["mpi"]["findings"][0], thread, text

    def test_polls_with_test(self):
        finding, thread, text = self.polls("test", "2 wait, 1 polls")
        self.assertEqual((sorted(finding["ranks"]), finding["victims"]), ([0, 1], [2]))
        self.assertEqual(finding["text"],
                         "ranks 0 and 1 wait for each other, but rank 0 polls, and may do something else meanwhile")
        self.assertEqual((thread["call"], [(each["reason"], each["peer"], each["tag"]) for each in thread["waits_for"]]),
                         ("MPI_Test", [("send", 1, 5)]))
        self.assertEqual(thread["at"]["function"], "poll_with")
        self.assertRegex(text, r"rank 0 \(\S+, process \d+\): polls: MPI_Test for 1 request: MPI_Irecv from rank 1, tag 5 on "
                               r"MPI_COMM_WORLD, at poll_with \(stuck.c:\d+\), for [\d.]+ ")
        self.assertIn("2 wait, 1 polls, 0 compute", text)

    @scrytest.thorough
    def test_polls_with_testall(self):
        finding, thread, _ = self.polls("testall")
        self.assertEqual((sorted(finding["ranks"]), finding["victims"]), ([0, 1], [2]))
        self.assertEqual(finding["text"],
                         "ranks 0 and 1 wait for each other, by polling: each may do something else meanwhile")
        self.assertEqual((thread["call"], [(each["peer"], each["tag"]) for each in thread["waits_for"]]),
                         ("MPI_Testall", [(1, 5), (1, 6)]))

    @scrytest.thorough
    def test_polls_with_iprobe(self):
        expected = [("straggler", [1], [0], "1 rank polls for rank 1, which sleeps"),
                    ("straggler", [0], [2], "1 rank waits for rank 0, which polls for any rank")]

        def found(answer):
            return answer["mpi"] and [(each["kind"], each["ranks"], each["victims"], each["text"])
                                      for each in answer["mpi"]["findings"]] == expected

        answer, status, text = self.stuck("iprobe", found, "polls: MPI_Iprobe")
        self.assertEqual(([each["state"] for each in answer["mpi"]["ranks"]], status), (["polls", "computes", "waits"], 0))
        self.assertRegex(text, r"polls: MPI_Iprobe from any rank, tag 3 on MPI_COMM_WORLD, at poll_with \(stuck.c:\d+\)")

    def test_polls_a_window(self):
        """MPI_Win_sync in a loop: it polls, and whatever holds the window's locks is not accused."""
        def found(answer):
            return answer["mpi"] and [(each["kind"], each["ranks"], each["victims"], each["text"]) for each in answer["mpi"]["findings"]] == [
                ("straggler", [0], [1, 2], "2 ranks wait for rank 0, which polls a window with MPI_Win_sync")]

        answer, status, text = self.stuck("sync", found, "polls: MPI_Win_sync")
        thread = self.thread(answer, 0)
        self.assertEqual((thread["state"], thread["call"], thread["waits_for"], status), ("polls", "MPI_Win_sync", [], 0))
        self.assertRegex(text, r"polls: MPI_Win_sync on MPI_Win_allocate 1 of MPI_COMM_WORLD, at look_into_window \(stuck.c:\d+\), for ")

    @scrytest.thorough
    def test_joined_threads(self):
        answer, status = self.found("joined", self.only("deadlock", [0, 1], [2]))
        (finding,) = answer["mpi"]["findings"]
        self.assertEqual((sorted(finding["ranks"]), finding["victims"], status), ([0, 1], [2], 3))

    def test_threads(self):
        """Each thread that waits is shown."""
        def both_wait(answer):
            return len([1 for each in answer["mpi"]["ranks"][0]["threads"] if each["stuck"]]) == 2

        answer, status, text = self.stuck("threads", self.both(self.only("deadlock", [0, 1], [2]), both_wait), "tag 4 on ")
        (finding,) = answer["mpi"]["findings"]
        self.assertEqual((sorted(finding["ranks"]), finding["victims"], status), ([0, 1], [2], 3))
        self.assertRegex(text, r"rank 0 \(.*\): MPI_Recv of 8 B from rank 1, tag 6 on MPI_COMM_WORLD, at .*\n"
                               r"    thread \d+ \(stuck\S*\): MPI_Recv of 8 B from rank 1, tag 4 on MPI_COMM_WORLD, at receive "
                               r"\(stuck.c:\d+\), for ")

    @scrytest.thorough
    def test_thread_that_may_send(self):
        """It has not called MPI yet: no deadlock, for it will send. (And the MPI library's own threads are none of these.)"""
        fifo = self.box.path("work", "fifo")
        os.mkfifo(fifo)
        job = self.start_job(2, self.target("stuck.c", "-Wno-stringop-overflow"), "unsent", stdout=subprocess.DEVNULL)
        path, answers = self.box.path("work", "job"), []

        def both_wait():
            answers.append(self.why(path))
            mpi = answers[-1][0]["mpi"]
            return mpi and [each["state"] for each in mpi["ranks"]] == ["waits"] * 2 and \
                all(len(each["other_threads"]) == 1 for each in mpi["ranks"])

        scrytest.wait_until(lambda: os.path.exists(os.path.join(path, "job.json")), 20, "the job starts")
        with open(fifo, "r+b", buffering=0) as opened:
            scrytest.wait_until(both_wait, 30, lambda: json.dumps(answers[-1][0], indent=1))
            (answer, status) = answers[-1]
            self.assertEqual((answer["mpi"]["findings"], answer["mpi"]["stuck"], status), ([], 0, 0))
            self.assertEqual([each["other_threads"][0]["may_act"] for each in answer["mpi"]["ranks"]], [True] * 2)
            text = self.box.run(self.box.scry("why", path)).stdout
            self.assertRegex(text, r"\n    thread \d+ \(stuck.*\): outside of MPI, may call it yet\n")
            opened.write(b"go")
            self.assertEqual(job.wait(60 * scrytest.SCALE), 0)

    @scrytest.thorough
    def test_threads_without_work(self):
        """Others of their process would have to give it."""
        answer, status = self.found("idle", self.only("deadlock", [0, 1], [2]))
        self.assertEqual((sorted(answer["mpi"]["findings"][0]["ranks"]), status), ([0, 1], 3))

    @scrytest.thorough
    def test_thread_that_wants_a_mutex(self):
        """Who holds it waits in MPI."""
        answer, status = self.found("held", self.only("deadlock", [0, 1], [2]))
        self.assertEqual((sorted(answer["mpi"]["findings"][0]["ranks"]), status), ([0, 1], 3))
        (thread,) = answer["mpi"]["ranks"][0]["other_threads"]
        self.assertEqual((thread["may_act"], "waits for a mutex that is held by thread" in thread["text"]), (False, True))

    @scrytest.thorough
    def test_own_mutex(self):
        answer, status, text = self.stuck("mutex", self.only("deadlock", [1], [0, 2]))
        self.assertEqual((answer["mpi"]["findings"][0]["text"], status),
                         ("deadlock: rank 1 waits for a mutex that it holds itself", 3))
        self.assertEqual(answer["mpi"]["ranks"][1]["state"], "blocked")
        self.assertRegex(text, r"rank 1 \(.*\): outside of MPI: waits for a mutex that it holds itself.*, at main \(stuck.c:\d+\)")

    def elsewhere(self, way, in_top, in_ps):
        """scry top and scry ps do not say that rank 1 computes, either."""
        self.start_job(3, self.target("stuck.c", "-Wno-stringop-overflow"), way, stdout=subprocess.DEVNULL)
        path, shown = self.box.path("work", "job"), {}

        def found(command, expected, *words):
            shown[command] = self.box.run(self.box.scry(command, *words)).stdout
            return re.search(expected, shown[command])

        scrytest.wait_until(lambda: found("top", rf"\n +1 .* {in_top}\n", "--once", path), 30, lambda: shown["top"])
        scrytest.wait_until(lambda: found("ps", rf"\b{in_ps}\b"), 30, lambda: shown["ps"])

    @scrytest.thorough
    def test_mutex_elsewhere(self):
        self.elsewhere("mutex", "waits for a mutex that it holds itself", "1 waiting for a mutex")

    @scrytest.thorough
    def test_join_elsewhere(self):
        self.elsewhere("joined", r"waits for the end of thread \d+", "2 waiting for a thread")

    def test_mutexes(self):
        answer, status, text = self.stuck("mutexes", self.only("deadlock", [1], [0, 2]))
        self.assertEqual((answer["mpi"]["findings"][0]["text"], status),
                         ("deadlock: 2 threads of rank 1 wait for each other", 3))
        self.assertRegex(text, r"rank 1 \(.*\): outside of MPI: waits for a mutex that is held by thread \d+ \(.*\), at take_both "
                               r"\(stuck.c:\d+\).*\n    thread \d+ \(.*\): waits for a mutex that is held by thread \d+ \(.*\), at "
                               r"take_both \(stuck.c:\d+\)")

    @scrytest.thorough
    def test_opened_fifo(self):
        os.mkfifo(self.box.path("work", "some-fifo"))
        expected = "2 ranks wait for rank 1, which waits until somebody opens some-fifo for writing"
        answer, _, text = self.stuck("fifo", self.only("straggler", [1], [0, 2], expected))
        self.assertEqual(answer["mpi"]["findings"][0]["text"], expected)
        self.assertIn("3 ranks: 2 wait, 1 is blocked outside of MPI", text)

    @scrytest.thorough
    @mpitest.only("openmpi")
    def test_accept(self):
        """Nobody of the job connects: somebody else may, so it is not stuck."""
        if self.mpi != "openmpi":
            self.skipTest("MPICH over UCX, as Debian builds it, cannot open a port")
        text = "2 ranks wait for rank 0, which waits in MPI_Comm_accept, and no program of this job calls MPI_Comm_connect"
        _, status = self.found("accept", self.only("straggler", [0], [1, 2], text))
        self.assertEqual(status, 0)

    def test_dead_peer(self):
        """A rank is killed while others wait for it; the launcher, which would end them, is held meanwhile."""
        job = self.start_job(3, self.target("stuck.c", "-Wno-stringop-overflow"), "silent", stdout=subprocess.DEVNULL)
        path, held, answers = self.box.path("work", "job"), [], []

        def found(kind):
            answers.append(self.why(path))
            mpi = answers[-1][0]["mpi"]
            return mpi and [each["kind"] for each in mpi["findings"]] == [kind] and \
                len(mpi["findings"][0]["victims"]) == 2

        scrytest.wait_until(lambda: os.path.exists(os.path.join(path, "job.json")), 20, "the job starts")
        scrytest.wait_until(lambda: found("straggler"), 30, lambda: json.dumps(answers[-1][0], indent=1))
        pids = {each["rank"]: each["pid"] for each in answers[-1][0]["mpi"]["ranks"]}
        try:
            parents = scrytest.children(job.pid)
            while parents:
                held += [pid for pid in parents if pid not in pids.values()]
                parents = [child for pid in parents for child in scrytest.children(pid) if pid not in pids.values()]
            for pid in held:
                os.kill(pid, signal.SIGSTOP)
            os.kill(pids[1], signal.SIGKILL)
            scrytest.wait_until(lambda: found("dead_peer"), 30, lambda: json.dumps(answers[-1][0], indent=1))
            (finding,) = answers[-1][0]["mpi"]["findings"]
            self.assertEqual((finding["ranks"], finding["victims"], answers[-1][1]), ([1], [0, 2], 3))
            self.assertIn("rank 1 was killed by SIGKILL, and 2 ranks wait for it", finding["text"])
            text = self.text_of(path, answers[-1][0])
            self.assertRegex(text, rf"rank 1 \(\S+, process {pids[1]}\): killed by SIGKILL\n  waiting for it: "
                                   r"ranks 0,2\n")
        finally:
            for pid in held:
                os.kill(pid, signal.SIGCONT)
            self.end(job)

    def test_file(self):
        """Who has not come to a write of all."""
        in_write = self.calls({0: "MPI_File_write_all", 2: "MPI_File_write_all"})  # and no longer in MPI_File_open
        answer, status, text = self.stuck("file", self.both(self.only("straggler", [1], [0, 2]), in_write))
        self.assertEqual((answer["mpi"]["findings"][0]["ranks"], answer["mpi"]["findings"][0]["victims"], status),
                         ([1], [0, 2], 0))
        self.assertEqual(self.thread(answer, 0)["call"], "MPI_File_write_all")
        self.assertEqual([each["reason"] for each in self.thread(answer, 0)["waits_for"]], ["collective"])
        self.assertRegex(text, r"MPI_File_write_all of 7.8 KB of together \(collective 1\), at file \(stuck.c:\d+\)")

    @scrytest.thorough
    def test_files_mismatch(self):
        answer, status, text = self.stuck("views", self.only("mismatch", [0, 1, 2]))
        self.assertEqual((answer["mpi"]["findings"][0]["ranks"], status), ([0, 1, 2], 3))
        self.assertIn("disagree about collective 1 on together: rank 0 is in MPI_File_write_all, rank 1 in "
                      "MPI_File_set_size", text)

    def communicators(self, way, ranks):
        """The same one is found on all its ranks, however it was made, though its numbers differ."""
        answer, status, text = self.stuck(way, self.only("mismatch", list(range(ranks))))
        self.assertEqual((answer["mpi"]["findings"][0]["ranks"], status), (list(range(ranks)), 3))
        self.assertIn("rank 0 is in MPI_Allreduce, rank 1 in MPI_Barrier", text)

    @scrytest.thorough
    def test_communicator_of_a_group(self):
        self.communicators("group", 2)

    @scrytest.thorough
    def test_communicator_with_a_topology(self):
        self.communicators("cart", 3)

    @scrytest.thorough
    def test_intercommunicator(self):
        in_barrier = self.calls({0: "MPI_Barrier", 2: "MPI_Barrier"})  # and no longer in what makes the communicator
        answer, status, text = self.stuck("inter", self.both(self.only("straggler", [1], [0, 2]), in_barrier))
        (finding,) = answer["mpi"]["findings"]
        self.assertEqual((finding["ranks"], finding["victims"], status), ([1], [0, 2], 0))
        self.assertIn("MPI_Barrier on MPI_Intercomm_create", text)

    @scrytest.thorough
    def test_merged_communicator(self):
        self.communicators("merged", 3)

    @scrytest.thorough
    def test_communicator_made_later(self):
        self.communicators("later", 3)

    @scrytest.thorough
    def test_outside_of_mpi(self):
        os.mkfifo(self.box.path("work", "fifo"))
        answer, _, text = self.stuck("read", self.only("straggler", [1], [0, 2], "reads from"))
        self.assertEqual(answer["mpi"]["findings"][0]["ranks"], [1])
        self.assertIn("reads from", text)
        self.assertIn(self.box.path("work", "fifo"), text)

    def test_nonblocking_collective(self):
        answer, _, text = self.stuck("ibarrier", self.only("straggler", [1], [0, 2], "sleeps"))
        self.assertEqual((answer["mpi"]["findings"][0]["ranks"], answer["mpi"]["findings"][0]["victims"]), ([1], [0, 2]))
        self.assertIn("sleeps", text)

    def test_without_counting(self):
        """Then nothing is known of calls: a note says so, and shows what blocks each thread."""
        job = self.start_job(3, self.target("stuck.c", "-Wno-stringop-overflow"), "silent", options=["--mpi", "off"],
                             stdout=subprocess.DEVNULL)
        path, answers = self.box.path("work", "job"), []

        def told():
            answers.append(self.box.run(self.box.scry("why", path)).stdout)
            return "\nnote: 3 processes use MPI, but it is not known which rank waits for which" in answers[-1] and answers[-1]

        scrytest.wait_until(lambda: os.path.exists(os.path.join(path, "job.json")), 20, "the job starts")
        text = scrytest.wait_until(told, 30, lambda: answers[-1])
        self.assertIn("started with --mpi off, start it without", text)
        self.assertIn("3 processes use MPI", self.why(path)[0]["note"])
        self.assertIn("(stuck", text[text.index("\nProcesses\n"):])
        self.end(job)

    def test_stall(self):
        """By default: a record of who waits for whom, and a warning."""
        path = self.box.path("work", "job")
        job = self.start_job(4, mpitest.example("mpi_deadlock", self.mpi), options=["--mpi-stall", "1", "--sample", "0.1"], stdout=subprocess.DEVNULL)
        spool = os.path.join(path, "spool", "records.jsonl")

        def told():
            if not os.path.exists(spool):
                return None
            with open(spool, encoding="utf-8") as file:
                records = [json.loads(line) for line in file if line.endswith("\n")]
            # (where the machine is busy, those that are there may wait long enough for others to be told of before)
            return [record for record in records if record["type"] == "stall" and "deadlock: 4 ranks" in record["why"]]

        (record,) = scrytest.wait_until(told, 30, "the stall is recorded")
        self.assertEqual(record["ranks"], 4)
        self.assertGreaterEqual(record["seconds"], 1)
        self.assertIn("deadlock: 4 ranks wait for each other in a circle", record["why"])
        self.end(job)
        warnings = [each for each in self.report(path)["warnings"] if each["kind"] == "stalled"]
        self.assertRegex(warnings[-1]["text"], r"^no rank began or ended an MPI call for \d+ s: deadlock: 4 ranks wait")
        self.assertEqual(warnings[-1]["note"], "mpi_stalled")
        self.assertRegex(warnings[-1]["fields"]["finding"], "^deadlock: 4 ranks wait")
        done = self.box.run(self.box.scry("why", path))
        self.assertRegex(done.stdout, r"its ranks last stood still [\d.]+ .* after the start: for [\d.]+ ")
        self.assertRegex(done.stdout, r"\n  \| deadlock: 4 ranks wait for each other in a circle\n  \|   rank 0 .*: MPI_Send of "
                                      r".*, at exchange \(mpi_deadlock.c:\d+\), for ")
        answer, _ = self.why(path)
        self.assertGreaterEqual(answer["stall"]["seconds"], 1)
        self.assertIn("exchange (mpi_deadlock.c:", answer["stall"]["text"])

    @scrytest.thorough
    def test_it_goes_on(self):
        """Asking changes nothing of a program that is not stuck."""
        program = self.target("ending.c")
        job = self.start_job(3, program, "wait")
        path = self.box.path("work", "job")
        waiting = [job.stdout.readline() for _ in range(3)]
        self.assertEqual(sorted(line.split()[1] for line in waiting), ["0", "1", "2"])
        answer, status = self.why(path)
        self.assertEqual((answer["mpi"]["findings"], status), ([], 0))
        self.assertEqual({rank["state"] for rank in answer["mpi"]["ranks"]}, {"computes"})
        with open(self.box.path("work", "go"), "w", encoding="ascii"):
            pass
        self.assertEqual(job.wait(60 * scrytest.SCALE), 0)


mpitest.for_each_mpi(Why, globals())
scrytest.main()
