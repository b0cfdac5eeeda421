# SPDX-License-Identifier: Apache-2.0
"""Tasks on this machine: scry submit, scry task, and their runner, scry-tasks; the same by HTTP."""

import concurrent.futures
import http.client
import json
import os
import signal
import socket

import labtest
import mpitest
import scrytest
import tracetest
from tasktest import LONG, STOMMEL, TaskCase


class Tasks(TaskCase):
    def test_ranks_begin_with_main(self):
        """RPPA's figure 4: the collecting processes are there first, and no rank runs on before its functions are hooked.
        So each one's first call is main, however many begin at once; algorithm 1: without MPI, too."""
        if not os.path.exists(os.path.join(scrytest.BUILD, "examples", "stommel")):
            self.skipTest("no MPI")
        ranks = scrytest.rounds(8, 24)
        many, = self.submit("-n", ranks, "--trace", "all", "--wait", scrytest.example("stommel"), 48, 48, 2)
        found, untraced = self.first_calls(many), self.show(many)["runs"][0]["untraced_processes"]
        self.assertEqual(found, dict.fromkeys(found, "main"))
        # a monitor that is kept from the processors answers some too late, and says how many
        self.assertEqual((len(found) + untraced, untraced < ranks / 3), (ranks, True), found)
        serial, = self.submit("--by", "plain", "--trace", "all", "--wait", scrytest.example("newton"))
        self.assertEqual(self.first_calls(serial), {None: "main"})

    @staticmethod
    def not_judged(most, by):
        """The verdict of short runs, with as many as that."""
        cpus = os.cpu_count()
        if most > cpus:
            return f"^{most} {by} are more than the node's {cpus} processors?, which they share$"
        return rf"^the runs are too short to judge by: \d[.]\d s with the fewest {by}, and 3 s are the least(; the node was shared, .*)?$"

    @scrytest.thorough
    def test_scaling_of_uneven_ranks(self):
        """What keeps a program from being faster with more processes is said as far as its runs know: here all wait for one rank."""
        program = os.path.join(scrytest.BUILD, "examples", "mpi_straggler")
        if not os.path.exists(program):
            self.skipTest("no MPI")
        ids = self.submit("-n", "1,3", "--wait", program, 2, 0.3)
        figures = json.loads(self.task("scaling", "--json", ids[0]).stdout)
        self.fits("task-scaling", figures)
        alone, three = figures["tasks"]
        self.assertLess(alone["mpi_share"], 0.1)
        self.assertEqual(alone["uneven_share"], 0)
        self.assertGreater(three["uneven_share"], 0.4)  # two thirds, but for what a busy machine adds
        self.assertGreaterEqual(three["mpi_share"] + 0.05, three["uneven_share"])
        self.assertRegex(figures["verdict"], self.not_judged(3, "processes"))

    def test_scaling_of_failures(self):
        """That a task failed, and why, stands in the first line."""
        program = self.program("#!/bin/sh\n[ $OMP_NUM_THREADS = 1 ] || { echo error: 100 rows do not divide >&2; exit 8; }\n")
        ids = [self.submit("--by", "plain", "--env", f"OMP_NUM_THREADS={threads}", program)[0] for threads in (1, 2)]
        for task in ids:
            self.waits_for(task, "done", "failed")
        text = self.task("scaling", *ids).stdout
        self.assertRegex(text.splitlines()[0], "^With 2 threads it failed: run 1 ended with exit status 8: .*error: 100 rows do not divide[.]$")
        self.fits("task-scaling", json.loads(self.task("scaling", "--json", *ids).stdout))

    def test_scaling_of_threads(self):
        """Tasks of one process that differ in OMP_NUM_THREADS are compared by their threads."""
        ids = [self.submit("--by", "plain", "--env", f"OMP_NUM_THREADS={threads}", "--wait", "sleep", 0.2)[0] for threads in (4, 1)]
        figures = json.loads(self.task("scaling", "--json", *ids).stdout)
        self.fits("task-scaling", figures)
        self.assertEqual((figures["by"], [(each["processes"], each["threads"]) for each in figures["tasks"]]), ("threads", [(1, 1), (1, 4)]))
        self.assertRegex(figures["verdict"], self.not_judged(4, "threads"))
        self.assertRegex(self.task("scaling", *ids).stdout, r"(?m)^  threads  runs    seconds .*\n        1     1 ")
        self.assertEqual(json.loads(self.task("scaling", "--json", ids[0]).stdout)["by"], "processes")

    def test_series(self):
        name = "<script>\n../\x1b[31m"
        refused = self.box.run(self.box.scry("submit", "--by", "plain", "-n", "1,2", "--name", name, "true"))
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))  # none of them is queued
        ids = self.submit("-n", "1,2", "--repeat", 2, "--name", name, "--wait", "true")
        self.assertEqual(len(ids), 2)
        scaling = self.task("scaling", "--json", ids[0])
        figures = json.loads(scaling.stdout)
        self.fits("task-scaling", figures)
        self.assertEqual([(each["processes"], each["runs"], each["name"]) for each in figures["tasks"]],
                         [(1, 2, name), (2, 2, name)])
        self.assertEqual((figures["tasks"][0]["speedup"], figures["tasks"][0]["efficiency"]), (1, 1))
        self.assertRegex(figures["verdict"], self.not_judged(2, "processes"))
        self.assertEqual(self.task("scaling", ids[0]).stdout.lower().split("\n")[0], figures["verdict"] + ".")
        took = sorted(run["seconds"] for run in json.loads(self.task("show", "--json", ids[0]).stdout)["runs"])
        self.assertEqual([figures["tasks"][0]["least_seconds"], figures["tasks"][0]["most_seconds"]], took)
        self.assertNotIn("\x1b", self.task("ls").stdout)
        listed = json.loads(self.task("ls", "--json").stdout)
        self.fits("tasks", listed)
        self.assertEqual({each["series"] for each in listed["tasks"]}, {listed["tasks"][0]["series"]})
        self.assertTrue(all(10000 < each["space_bytes"] < 10 << 20 for each in listed["tasks"]), listed)
        compared = self.task("compare", *ids)
        self.assertEqual(compared.returncode, 0, compared.stderr)
        self.assertEqual(self.task("rerun", ids[1]).returncode, 0)
        again = self.waits_for(ids[1], "done")
        self.assertEqual([run["run"] for run in again["runs"]], [1, 2, 3, 4])
        jobs = {job["id"]: job["task"] for job in json.loads(self.box.run(self.box.scry("ps", "--json")).stdout)["jobs"]}
        self.assertEqual(jobs[again["runs"][3]["job"]], ids[1])
        self.assertEqual(self.task("rm", *ids).returncode, 0)
        self.assertEqual(json.loads(self.task("ls", "--json").stdout)["tasks"], [])
        self.assertEqual(json.loads(self.box.run(self.box.scry("ps", "--json")).stdout)["jobs"], [])

    def test_build_and_files(self):
        """What is built runs, among its own files; what was copied is the task's."""
        source = self.program('#include <stdio.h>\nint main(void) { puts("made"); return 0; }\n', "made.c")
        task, = self.submit("--by", "plain", "--file", source, "--build", "cc -o made made.c", "--wait", "./made")
        shown = self.show(task)
        self.assertEqual([phase["phase"] for phase in shown["phases"]], ["build", "run"], shown)
        with open(shown["runs"][0]["directory"] + ".out", encoding="utf-8") as file:
            self.assertEqual(file.read(), "made\n")
        for folder, _, names in os.walk(os.path.dirname(os.path.dirname(shown["runs"][0]["directory"]))):
            if "/runs/" not in folder:
                for name in ["", *names]:
                    self.assertEqual(os.stat(os.path.join(folder, name)).st_mode & 0o77, 0, os.path.join(folder, name))
        broken, = self.submit("--by", "plain", "--file", source, "--build", "echo no luck >&2; exit 7", "--wait", "./made")
        error = self.show(broken)["error"]
        self.assertEqual(error["kind"], "build")
        self.assertRegex(error["text"], "^the build ended with exit status 7: .*no luck$")

    def test_what_fails_says_why(self):
        for script, text, reason, said in (("echo Error: gone wrong >&2; echo usage: ask somebody >&2; exit 3", "run 1 ended with exit status 3: ", "Error: gone wrong", ""),
                                           ("kill -9 $$", "run 1 was ended by signal 9 (Killed): ", "sh was killed by SIGKILL", ""),
                                           ("echo '  no memory' >&2; kill -ABRT $$", "run 1 was ended by signal 6 (Aborted): ", "no memory", ""),
                                           ("exit 4", "run 1 ended with exit status 4", "", "")):
            task, = self.submit("--by", "plain", "--wait", "sh", "-c", script)
            shown = self.show(task)
            its = self.why(shown) or ""
            self.assertEqual(shown["error"], {"kind": "run", "text": text + its + said})
            self.assertIn(reason, its)
        task, = self.submit("--by", "plain", "--wait", "no-such-program")
        self.assertIn("no-such-program", self.show(task)["error"]["text"])
        for words in (("echo", b"\xff"), ("--env", b"A=\xff", "true"), ("--hosts", b"a,\xff", "true"), ("--log", b"out=\xff", "true")):
            words = [os.fsdecode(word) for word in words]
            refused = self.box.run([*self.box.scry("submit"), *words])  # not without what is missing then
            self.assertEqual((refused.returncode, refused.stdout), (2, ""))
            self.assertIn("is no UTF-8", refused.stderr)
        refused = self.box.run(self.box.scry("submit", "/no/such/program"))
        self.assertEqual(refused.returncode, 2)
        self.assertIn("the program /no/such/program: No such file", refused.stderr)
        for options, text in ((("-n", "0"), "processes: expected a whole number from 1 to 1000000, not 0"),
                              (("-n", "x"), 'processes: expected a whole number from 1 to 1000000, not "x"'),
                              (("--hosts", "-oProxyCommand=x"), "launch.hosts[0]: expected a name of letters"),
                              (("--by", "plain", "-n", "2"), "plain starts one process"),
                              (("--by", "plain", "--hosts", "n1"), "launch.hosts: plain starts the program here"),
                              (("--by", "plain", "--log", "stdout=("), "collect.logs[0]: stdout=(: missing closing parenthesis"),
                              (("--file", self.box.path("work")), "work is no file")):
            refused = self.box.run(self.box.scry("submit", *options, "true"))
            self.assertEqual(refused.returncode, 2)
            self.assertIn(text, refused.stderr)
        listed = json.loads(self.task("ls", "--json").stdout)["tasks"]
        self.assertEqual(len(listed), 5)  # nothing is left of those that were refused
        for columns, titles in ((60, ["TASK", "NAME", "STATE"]), (160, ["TASK", "NAME", "PROCESSES", "RUNS", "SPACE", "STATE"])):
            shown = self.box.run(self.box.scry("task", "ls"), env={"COLUMNS": str(columns)}).stdout.splitlines()
            self.assertEqual((shown[0].split(), len(shown)), (titles, 6), shown)
            self.assertLessEqual(max(map(len, shown)), columns, shown)

    def test_what_the_program_said_not_mpirun(self):
        """mpirun has the last word, but not the reason."""
        program = self.program("#!/bin/sh\necho there is no input >&2\nexit 3\n")
        aborts = self.program('import sys; from mpi4py import MPI; print("ERROR: 10 rows among 2"); sys.stdout.flush(); MPI.COMM_WORLD.Abort(2)\n', "aborts.py")
        for words, status, reason in (([program], 3, "there is no input"), (["/usr/bin/python3", aborts], 2, "MPI_Abort")):
            task, = self.submit("-n", "2", "--wait", *words)
            shown = self.show(task)
            text = shown["error"]["text"]
            self.assertTrue(text.startswith(f"run 1 ended with exit status {status}: {self.why(shown)}"), text)
            self.assertIn(reason, text)
        crashes = self.program("import ctypes; from mpi4py import MPI\nif MPI.COMM_WORLD.rank: ctypes.string_at(0x123456789000)\nMPI.COMM_WORLD.barrier()\n", "crashes.py")
        task, = self.submit("-n", "2", "--wait", "/usr/bin/python3", crashes)
        self.assertRegex(self.show(task)["error"]["text"], r"^run 1 ended with exit status \d+: rank 1 of 2 was killed by SIGSEGV, in (\w*strlen\w* of )?libc\.so\.6$")

    def test_not_executable(self):
        path = self.box.path("work", "plot.py")
        with open(path, "w", encoding="ascii") as file:
            file.write("print(1)\n")
        refused = self.box.run(self.box.scry("submit", "--by", "plain", "./plot.py"))
        self.assertEqual(refused.returncode, 2)
        self.assertIn("may not be executed: chmod +x it, or put before it what executes it (python3 ./plot.py)", refused.stderr)
        task, = self.submit("--by", "plain", "--file", path, "--wait", "python3", "plot.py")
        self.assertEqual(self.show(task)["state"], "done")

    @scrytest.thorough
    def test_root_and_open_mpi(self):
        """It refuses programs of root's; what is to be done about that for a task is another thing than mpirun says."""
        if os.getuid() != 0 or not mpitest.available("openmpi"):
            self.skipTest("needs root and Open MPI")
        for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
            self.box.env.pop(name, None)
        program = scrytest.example("stommel")
        refused = self.box.run(self.box.scry("submit", "-n", "1", program, *STOMMEL))
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertIn("Open MPI starts nothing for root: ", refused.stderr)
        self.assertIn(" --env OMPI_ALLOW_RUN_AS_ROOT=1 --env OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n", refused.stderr)
        task, = self.submit("-n", 1, "--file", program, "--build", "true", "--wait", "./stommel", *STOMMEL)  # nobody knows yet whose it is
        error = self.show(task)["error"]
        self.assertEqual(error["kind"], "start")
        self.assertIn("Open MPI starts nothing for root: ", error["text"])
        for words in (("--env", "OMPI_ALLOW_RUN_AS_ROOT=1", "--env", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"), ("--launcher=--allow-run-as-root",)):
            task, = self.submit("-n", 1, *words, "--wait", program, *STOMMEL)
            self.assertEqual(self.show(task)["error"], None)

    @scrytest.hasten(5)
    def test_cancel(self):
        """What does not listen is killed, with all it has started, also what went away from it; what waits behind it goes on."""
        program = self.program("#!/bin/sh\ntrap '' TERM\nsleep 1000 &\n(setsid sh -c 'echo $$ >away; exec sleep 1000' &)\necho $! >begun\nmv begun inner\n"
                               "while :; do sleep 1; done\n")
        task, = self.submit("--by", "plain", program)
        behind, = self.submit("--by", "plain", "true")
        gone, = self.submit("--by", "plain", "true")
        scrytest.wait_until(lambda: os.path.exists(self.box.path("work", "inner"))
                            and os.path.exists(self.box.path("work", "away")) and os.path.getsize(self.box.path("work", "away")), LONG)
        self.assertEqual(self.show(behind)["state"], "queued")
        self.assertEqual(self.task("cancel", gone).returncode, 0)
        self.assertEqual(self.show(gone)["state"], "cancelled")
        self.assertEqual(self.task("rm", task).returncode, 1)
        self.assertEqual(self.task("cancel", task).returncode, 0)
        shown = self.waits_for(task, "cancelled")
        self.assertEqual(shown["runs"][0]["state"], "cancelled")
        self.assertEqual(shown["runs"][0]["signal"], 9)  # its scry run has seen the end
        self.assertRegex(self.why(shown), r"^\w+ was killed by SIGKILL, probably because its task was cancelled$")
        for name in ("inner", "away"):
            with open(self.box.path("work", name), encoding="ascii") as file:
                pid = int(file.read())
            scrytest.wait_until(lambda pid=pid: scrytest.process_gone(pid), LONG)
        self.assertEqual(self.waits_for(behind, "done")["error"], None)
        self.assertEqual(self.show(gone)["runs"], [])

    @scrytest.hasten(5)
    def test_what_a_run_leaves_behind(self):
        """It is asked to end, then ended, before the next run begins, and the task says so; what ends by itself at once is not worth a
        word. A job that is none of a task's is let alone, as is what all jobs share."""
        program = self.program("#!/bin/sh\n[ -e once ] && exit 0\n: >once\n"
                               "(setsid sh -c 'trap \"\" TERM; echo $$ >deaf; while :; do sleep 0.2; done' &)\n"
                               "(setsid sh -c 'trap \"echo x >told; exit\" TERM; echo $$ >hears; while :; do sleep 0.2; done' &)\n"
                               "(setsid sleep 0.3 &)\nwhile ! [ -s deaf ] || ! [ -s hears ]; do sleep 0.1; done\n")
        self.box.run(self.box.scry("run", "--quiet", "--", "sh", "-c", "setsid sleep 999 >/dev/null 2>&1 & echo $! >own"))
        with open(self.box.path("work", "own"), encoding="ascii") as file:
            own = int(file.read())
        self.addCleanup(os.kill, own, signal.SIGKILL)
        task, = self.submit("--by", "plain", "--repeat", "2", "--wait", program)
        shown = self.show(task)
        self.fits("task", shown)
        self.assertEqual((shown["state"], [run["state"] for run in shown["runs"]]), ("done", ["done", "done"]))
        left, none = (phase["left_behind"] for phase in shown["phases"])
        self.assertEqual((none, "sh" in left["names"], {"sh", "sleep"} >= set(left["names"])), (None, True, True), left)
        self.assertTrue(os.path.exists(self.box.path("work", "told")))
        for name in ("deaf", "hears"):
            with open(self.box.path("work", name), encoding="ascii") as file:
                self.assertTrue(scrytest.process_gone(int(file.read())))
        self.assertFalse(scrytest.process_gone(own))
        self.assertRegex(self.task("show", task).stdout, r"\n  run       1  .* left [0-9]+ processes behind, which were ended: s[a-z, ]+\n")
        built, = self.submit("--by", "plain", "--build", "setsid sleep 998 & :", "--wait", "true")
        self.assertEqual([phase["left_behind"] for phase in self.show(built)["phases"]], [{"processes": 1, "names": ["sleep"]}, None])

    @scrytest.thorough
    def test_what_is_left_behind_is_cancelled(self):
        """A task that is cancelled while it waits for that does not wait any more; a runner that is killed is followed by another one."""
        program = self.program("#!/bin/sh\n(setsid sh -c 'trap \"\" TERM; echo $$ >deaf; while :; do sleep 0.2; done' &)\nwhile ! [ -s deaf ]; do sleep 0.1; done\n")
        task, = self.submit("--by", "plain", program)
        scrytest.wait_until(lambda: (phases := self.show(task)["phases"]) and phases[-1]["left_behind"], LONG)
        self.kill_runner()
        in_time = self.task("cancel", task).returncode == 0
        self.assertEqual(self.waits_for(task, "cancelled", "done")["state"], "cancelled" if in_time else "done")
        with open(self.box.path("work", "deaf"), encoding="ascii") as file:
            self.assertTrue(scrytest.process_gone(int(file.read())))

    def test_ranks_that_are_not_recorded(self):
        """A rank that goes away from what records it: the task is done, and says of whom it knows nothing."""
        program = self.program(f"#!/bin/sh\n[ $OMPI_COMM_WORLD_RANK = 0 ] || eval \"$1\"\nexec {scrytest.example('stommel')} 16 16 2\n")
        facts = ("ranks", "ranks_counted", "ranks_traced")
        for how, known, text in ((":", (2, 2, 2), ""), ("unset LD_PRELOAD", (2, 1, 1), "1 of 2 ranks has no trace, 1 of 2 ranks has no statistics")):
            with self.subTest(how):
                task, = self.submit("-n", 2, "--trace", "fn:main", "--wait", program, how)
                shown = self.show(task)
                self.fits("task", shown)
                run, = shown["runs"]
                self.assertEqual((run["state"], tuple(run[fact] for fact in facts)), ("done", known))
                said = f"\nrun 1: {text}; what is shown is without them. scry report {run['job']} says why; scry task rerun {task} runs it again\n"
                self.assertEqual(said in self.task("show", task).stdout, text != "")
        task, = self.submit("--by", "plain", "--wait", "true")
        self.assertEqual([self.show(task)["runs"][0][fact] for fact in (*facts, "untraced_processes")], [None, None, None, 0])
        slow = self.program(f"#!/bin/sh\np=$(cat $SCRY_RUNTIME_DIR/monitor.pid)\nkill -STOP $p\n{tracetest.target('traced')} calls 1\nkill -CONT $p\n")
        task, = self.submit("--by", "plain", "--trace", "all", "--wait", slow)
        self.assertEqual(self.show(task)["runs"][0]["untraced_processes"], 1)
        self.assertIn("\nrun 1: 1 process was not traced; what is shown", (said := self.task("show", task).stdout))
        self.assertIn("runs it again, best when the machine is less busy\n", said)

    def test_build_again(self):
        """A build that was cancelled begins anew, and fails for a reason of its own; once more, and it is done."""
        begun, good = self.box.path("work", "begun"), self.box.path("work", "good")
        task, = self.submit("--by", "plain", "--build", f"[ -e {good} ] || {{ [ -e {begun} ] && kill -TERM $$; touch {begun}; sleep 1000; }}", "true")
        scrytest.wait_until(lambda: os.path.exists(begun), LONG)
        self.assertEqual(self.task("cancel", task).returncode, 0)
        self.waits_for(task, "cancelled")
        runs = self.box.path("home", ".local/state/scry/tasks", task, "runs")
        self.assertIn("its task was cancelled", self.box.run(self.box.scry("report", os.path.join(runs, "build1"))).stdout)
        self.assertEqual(self.task("rerun", task).returncode, 0)
        error = self.waits_for(task, "failed")["error"]
        self.assertEqual(error["kind"], "build")
        self.assertRegex(error["text"], r"^the build was ended by signal 15 \(Terminated\): sh was killed by SIGTERM")
        self.assertNotIn("its task was cancelled", self.box.run(self.box.scry("report", os.path.join(runs, "build1"))).stdout)
        self.assertEqual([os.path.basename(os.path.realpath(self.box.path("jobs", name))) for name in os.listdir(self.box.path("jobs"))], ["build1"])
        with open(good, "w", encoding="ascii"):
            pass
        self.assertEqual(self.task("rerun", task).returncode, 0)
        self.assertEqual(self.waits_for(task, "done", "failed")["error"], None)

    def test_limits(self):
        many = self.program("#!/bin/sh\ni=0\nwhile :; do i=$((i+1)); head -c 100000 /dev/zero >f$i; done\n", "many")
        deaf = self.program("#!/bin/sh\ntrap '' TERM\ni=0\nwhile :; do i=$((i+1)); head -c 1000000 /dev/zero >f$i; sleep 0.02; done\n", "deaf")
        large = self.program("#!/bin/sh\nexec head -c 100000000000 /dev/zero >large\n", "large")
        hungry = self.program("#!/usr/bin/python3\nimport time\nblocks = [bytearray(30 << 20) for _ in range(2)]\n"
                              "for b in blocks:\n    b[::4096] = b'x' * len(b[::4096])\n"
                              "import os\nos.fork()\nfor b in blocks:\n    b[::4096] = b'y' * len(b[::4096])\n"
                              "time.sleep(1000)\n", "hungry")
        for options, program, kind, text in (
                (("--limit-space", "4M"), many, "space", "stopped: it took more of the disk"),
                (("--limit-space", "4M"), large, "space", "its limit of space"),
                (("--limit-space", "4M"), deaf, "space", "stopped: it took more of the disk"),
                (("--limit-memory", "100M"), hungry, "memory", "stopped: its processes took more memory"),
                (("--limit-time", "1s"), "sleep", "time", "stopped: it took longer")):
            words = ["--file", program, os.path.basename(program)] if "/" in program else [program, "1000"]
            task, = self.submit("--by", "plain", *options, "--wait", *words)
            error = self.show(task)["error"]
            self.assertEqual(error and error["kind"], kind, error)
            self.assertIn(text, error["text"])
            if text.startswith("stopped"):
                its = {"space": "took more of the disk than its limit", "memory": "took more memory than its limit",
                       "time": "came to its limit of time"}[kind]
                self.assertRegex(self.why(self.show(task)), f" was killed by SIG(TERM|KILL), probably because its task {its}$")
            if program == deaf:  # it is not let fill the disk for the seconds that others have for their end
                self.assertLess(self.show(task)["runs"][0]["seconds"], 5)

    def test_memory_that_is_shared(self):
        """It counts once, however many processes have it; and scry's own is not the program's."""
        program = self.program("#!/usr/bin/python3\nimport mmap, os, time\nshared = mmap.mmap(-1, 40 << 20)\n"
                               "for _ in range(3):\n    os.fork()\nfor at in range(0, 40 << 20, 4096):\n    shared[at] = 1\n"
                               "print('full', flush=True)\nwhile not os.path.exists('go'):\n    time.sleep(0.1)\n", "share")
        task, = self.submit("--by", "plain", "--limit-memory", "200M", program)
        out = self.box.path("home", ".local/state/scry/tasks", task, "runs/1.out")

        def full():
            with open(out, encoding="ascii") as file:
                return file.read().count("full") == 8
        scrytest.wait_until(lambda: os.path.exists(out) and full(), LONG, lambda: json.dumps(self.show(task)))
        other, = self.submit("--by", "slurm", "--wait", "true")  # fails at once, there is none: so the runner has looked again
        self.assertEqual((self.show(other)["state"], self.show(task)["state"]), ("failed", "running"))
        self.program("", "go")
        self.assertEqual(self.waits_for(task, "done", "failed")["error"], None)

    def test_runner_killed(self):
        """The next one finds the run, which was not begun again."""
        program = self.program("#!/bin/sh\necho x >>begun\nwhile ! [ -e go ]; do sleep 0.1; done\n")
        task, = self.submit("--by", "plain", program)
        scrytest.wait_until(lambda: os.path.exists(self.box.path("work", "begun")), LONG)
        self.kill_runner()
        self.assertEqual(self.show(task)["state"], "running")
        behind, = self.submit("--by", "plain", "true")
        scrytest.wait_until(lambda: list(self.box.processes("scry-tasks")), LONG)
        self.program("", "go")
        self.assertEqual(self.waits_for(behind, "done")["error"], None)
        shown = self.show(task)
        self.assertEqual((shown["state"], len(shown["runs"]), shown["runs"][0]["exit_code"]), ("done", 1, 0))
        with open(self.box.path("work", "begun"), encoding="ascii") as file:
            self.assertEqual(file.read(), "x\n")

    def test_runner_killed_while_space_is_summed(self):
        """A disk may take minutes to say what is on it; the next runner does not wait for that."""
        with self.box.pause("task.space") as pause:
            task, = self.submit("--by", "plain", "sleep", "1000")
            summing = pause.reached(LONG)
            for runner in [pid for pid in self.box.processes("scry-tasks") if pid != summing]:
                os.kill(runner, signal.SIGKILL)
                scrytest.wait_until(lambda runner=runner: scrytest.process_gone(runner), LONG)
            self.assertEqual(self.task("cancel", task).returncode, 0)
            self.waits_for(task, "cancelled")
            self.assertFalse(scrytest.process_gone(summing))

    def test_runner_killed_before_the_start_is_written(self):
        """What is not written down is not executed: not once without anybody's knowledge, nor twice."""
        program = self.program("#!/bin/sh\necho x >>begun\n")
        with self.box.pause("task.written") as pause:
            task, = self.submit("--by", "plain", program)
            os.kill(pause.reached(LONG), signal.SIGKILL)
        last, = self.submit("--by", "plain", "--wait", "true")
        self.assertEqual(self.show(last)["state"], "done")
        shown = self.show(task)
        self.assertEqual(shown["state"], "failed")
        self.assertIn("run 1 did not begin", shown["error"]["text"])
        self.assertFalse(os.path.exists(self.box.path("work", "begun")))

    def test_run_is_gone(self):
        task, = self.submit("--by", "plain", "sleep", "1000")

        def job():
            runs = self.show(task)["runs"]
            return runs and runs[0]["job"]
        scrytest.wait_until(job, LONG)
        path = os.path.join(self.show(task)["runs"][0]["directory"], "job.json")

        def command():
            with open(path, encoding="utf-8") as file:
                return json.load(file)["command"]
        pid = scrytest.wait_until(command, LONG)["pid"]
        with open(path, encoding="utf-8") as file:
            os.kill(json.load(file)["supervisor"]["pid"], signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        self.assertIn("is gone", self.waits_for(task, "failed")["error"]["text"])

    @scrytest.thorough
    def test_many_at_once(self):
        """Many who submit, in two stores; nothing is lost, nothing runs twice, and each store has one runner at most."""
        other = scrytest.Sandbox()
        self.addCleanup(other.close)
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            made = list(pool.map(lambda i: (box := (self.box, other)[i % 2], self.submit("--by", "plain", "true", box=box)[0]),
                                 range(12)))
        for box in (self.box, other):
            scrytest.wait_until(lambda: len(list(box.processes("scry-tasks"))) <= 1, LONG)  # those without the lock end
        for box, task in made:
            self.assertEqual(len(self.waits_for(task, "done", box=box)["runs"]), 1)
        self.assertEqual(len(json.loads(self.task("ls", "--all", "--json").stdout)["tasks"]), 6)

    def expected(self, task):
        """What its phases are expected to take: the time in which it is shown may be short."""
        with open(os.path.join(self.box.path("home", ".local/state/scry/tasks"), task, "state.json"), encoding="utf-8") as file:
            return json.load(file).get("expected", {})

    @scrytest.thorough
    def test_how_far_it_is(self):
        """By what the job says itself, else by the runs before."""
        program = self.program("#!/bin/sh\ntest -e first || { touch first; exit; }\nwhile ! [ -e go ]; do sleep 0.1; done\n")
        task, = self.submit("--by", "plain", "--repeat", 2, program)
        scrytest.wait_until(lambda: (shown := self.show(task))["runs_done"] == 1 and shown["state"] == "running" and self.expected(task).get("run"), LONG)
        shown = self.show(task)
        self.assertEqual((shown["state"], shown["runs_wanted"], shown["phases"][-1]["phase"]), ("running", 2, "run"))
        scrytest.wait_until(lambda: self.show(task)["progress"] is None, LONG)  # it takes longer than the first one did
        self.program("", "go")
        self.waits_for(task, "done")
        os.unlink(self.box.path("work", "go"))
        like, = self.submit("--by", "plain", "--name", "another", program)  # as the one before it was
        scrytest.wait_until(lambda: self.expected(like).get("run"), LONG)
        self.program("", "go")
        self.waits_for(like, "done")
        says = self.program("#!/bin/sh\nfor i in 1 2 3; do echo step $i/10; sleep 0.2; done\nwhile ! [ -e on ]; do sleep 0.1; done\n", "says")
        task, = self.submit("--by", "plain", "--log", r"stdout=step (?<n>\d+)/(?<total>\d+)", "--name", "a name of its own, quite long", says)
        scrytest.wait_until(lambda: self.show(task)["progress"] == 0.3, 60, lambda: json.dumps(self.show(task)))
        listed = self.box.run(self.box.scry("task", "ls"), env={"COLUMNS": "80"}).stdout  # half of a time would be another one
        self.assertRegex(listed, r"  running, 30 %, [\w .]+ left\n")
        self.program("", "on")
        self.assertIsNone(self.waits_for(task, "done")["progress"])

    def test_how_far_the_build_is(self):
        """By the build of an earlier task, also of another program; by hand it says the same as by --json."""
        build = "test -e ../../first || { touch ../../first; exit; }; while ! [ -e ../../go ]; do sleep 0.1; done"
        file = self.program("", "source")
        first, = self.submit("--by", "plain", "--file", file, "--build", build, "--wait", "true")
        task, = self.submit("--by", "plain", "--file", file, "--build", build, "false")
        scrytest.wait_until(lambda: self.show(task)["state"] == "building" and self.expected(task).get("build"), LONG)
        scrytest.wait_until(lambda: self.show(task)["progress"] is None, LONG)  # it takes longer than the first one did
        self.assertIsNone(self.show(task)["left_seconds"])
        self.assertIn("building\n", self.task("show", task).stdout)
        listed = json.loads(self.task("ls", "--json").stdout)["tasks"]
        self.assertEqual([(each["id"], each["progress"]) for each in listed], [(task, None), (first, None)])
        with open(os.path.join(self.box.path("home", ".local/state/scry/tasks"), "go"), "w", encoding="ascii"):
            pass
        self.assertEqual(self.waits_for(task, "failed")["progress"], None)

    def test_the_same_again(self):
        """The command that a task has makes the same one, whoever types it and where."""
        source = self.program("", "a file")
        for words in (("--by", "plain", "true"),
                      ("--by", "plain", "--name", "-x 'y'", "--file", source, "--build", "true && 'true'", "--env", "A=b\n c=$d", "--env", "E=", "--limit-time", 0,
                       "--limit-memory", "1G", "--limit-space", "3M", "--args", "--mpi", "stats", "--trace", "fn:*", "--trace", "!fn:a", "--trace", "!fn:b",
                       "--log", "stdout=it's (?<n>\\d+)", "--repeat", 2, "true", "--help", "", "a\nb"),
                      ("--by", "plain", "--directory=", "true"), ("--by", "plain", "--file", source, "--directory", self.box.path("work"), "true"),
                      ("-n", 3, "--hosts", "n1.nowhere,n2.nowhere", "--launcher=--bind-to", "--launcher", "core", "--limit-space", "2G", "true"),
                      ("--by", "slurm", "--partition", "0", "-n", 2, "true"), ("--by", "ssh", "--hosts", "nowhere", "--env", "A=b", "true")):
            task, = self.submit(*words)
            shown = self.show(task)
            again = self.box.run(["sh", "-c", shown["command"]], cwd="/", env={"OMP_NUM_THREADS": "7", "PATH": f"{os.path.join(scrytest.BUILD, 'src/cli')}:{os.environ['PATH']}"})
            self.assertEqual(again.returncode, 0, (again.stderr, shown["command"]))
            self.assertEqual(self.show(again.stdout.strip())["task"], shown["task"], shown["command"])
            self.task("cancel", task, again.stdout.strip())

    @scrytest.hasten(5)
    def test_the_runner_ends_and_comes_again(self):
        self.submit("--by", "plain", "--wait", "true")
        scrytest.wait_until(lambda: not list(self.box.processes("scry-tasks")), LONG)
        task, = self.submit("--by", "plain", "--wait", "true")
        self.assertEqual(self.show(task)["state"], "done")

    def test_nothing_to_warn_of(self):
        """Serial programs have no MPI, and those in Python no hooks: nobody is told to do something about it."""
        program = self.program("#!/usr/bin/env python3\nprint(1)\n")
        task, = self.submit("--by", "plain", "--trace", "fn:*", "--wait", program)
        run, = self.show(task)["runs"]
        report = json.loads(self.box.run(self.box.scry("report", "--json", run["directory"])).stdout)
        self.assertEqual((report["exit_code"], report["warnings"]), (0, []))

    @scrytest.thorough
    def test_mpich(self):
        """The mpirun of the program's own MPI starts it."""
        program = os.path.join(scrytest.BUILD, "examples", "stommel_mpich")
        if not os.path.exists(program) or not mpitest.available("mpich"):
            self.skipTest("no MPICH")
        task, = self.submit("-n", 2, "--wait", program, *STOMMEL)
        report = json.loads(self.box.run(self.box.scry("report", "--json", self.show(task)["runs"][0]["job"])).stdout)
        self.assertEqual(len(report["mpi"]["ranks"]), 2)

    def test_store_of_another(self):
        """A store that others may look into, or that is a link, is refused."""
        self.submit("--by", "plain", "--wait", "true")
        store = self.box.path("home", ".local/state/scry/tasks")
        os.chmod(store, 0o755)
        refused = self.task("ls")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("closed to others", refused.stderr)
        os.chmod(store, 0o700)
        self.assertEqual(self.task("show", "../../..").returncode, 1)
        self.assertEqual(self.task("ls").returncode, 0)


class Faults(TaskCase):
    """What breaks around a task, at each phase, harms it not."""
    STATE = "home", ".local/state/scry"

    def waiting(self, name="go"):
        """Lines of a shell that say that they began, and wait until they are told to go on."""
        return f"echo x >>began-{name}; while ! [ -e {name} ]; do sleep 0.1; done"

    def began(self, name="go"):
        path = self.box.path("work", f"began-{name}")
        scrytest.wait_until(lambda: os.path.exists(path), LONG)
        with open(path, encoding="ascii") as file:
            return file.read()

    @scrytest.hasten(5)
    def test_while_it_is_built(self):
        """The runner is killed, and the build goes on; another one is cancelled with all that it began."""
        task, = self.submit("--by", "plain", "--build", self.waiting(), "true")
        self.began()
        self.kill_runner()
        self.assertEqual(self.show(task)["state"], "building")
        for action, text in (("rerun", "is building already"), ("rm", "cancel it first")):
            refused = self.task(action, task)  # which starts the next runner
            self.assertEqual(refused.returncode, 1)
            self.assertIn(text, refused.stderr)
        self.program("", "go")
        self.waits_for(task, "done")
        self.assertEqual(self.began(), "x\n")
        task, = self.submit("--by", "plain", "--build", f"trap '' TERM; setsid sleep 1000 & (setsid sleep 1000 &); {self.waiting('other')}", "true")
        self.began("other")
        self.assertEqual(self.task("cancel", task).returncode, 0)
        shown = self.waits_for(task, "cancelled", "failed", "done")
        self.assertEqual((shown["state"], shown["runs"]), ("cancelled", []))
        scrytest.wait_until(lambda: not list(self.box.processes("sleep")), LONG)

    def test_the_clock_is_set(self):
        """Neither a day back nor a day on makes a task longer or shorter than it is."""
        wall = self.box.path("work", "wall")
        labtest.set_wall(wall, 0)
        runner = self.box.start([scrytest.built("src", "task", "scry-tasks")],
                                env={"LD_PRELOAD": labtest.wall_clock(self.box.path("work")), "SCRY_LAB_WALL": wall})
        scrytest.wait_until(lambda: list(self.box.processes("scry-tasks")), LONG)
        task, = self.submit("--by", "plain", self.program("#!/bin/sh\ntrap 'echo asked' TERM\n" + self.waiting() + "\n" + self.waiting("on")))
        self.began()
        for seconds in (86400, -86400):
            labtest.set_wall(wall, seconds)
            other, = self.submit("--by", "slurm", "true")  # fails at once, there is none: so the runner has looked
            self.waits_for(other, "failed")
            self.assertEqual(self.show(task)["state"], "running")
        self.program("", "go")
        self.program("", "on")
        shown = self.waits_for(task, "done")
        self.assertLess(shown["runs"][0]["seconds"], 3600)
        self.assertEqual(self.task("show", task).returncode, 0)
        self.assertFalse(scrytest.process_gone(runner.pid))

    def test_disk_is_full(self):
        """Nothing new is taken; what runs goes on, and its end is known when there is room again."""
        state = self.box.path(*self.STATE)
        os.makedirs(state, mode=0o700)
        if self.box.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "none", state]).returncode:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(self.box.run, ["umount", "-l", state])
        task, = self.submit("--by", "plain", "sh", "-c", self.waiting())
        self.began()
        filler = os.path.join(state, "filler")
        self.box.run(["sh", "-c", f"cat /dev/zero >{filler}"])
        refused = self.box.run(self.box.scry("submit", "--by", "plain", "true"))
        self.assertEqual(refused.returncode, 2)
        self.assertIn("No space left", refused.stderr)
        self.program("", "go")
        scrytest.wait_until(lambda: not list(self.box.processes("sleep")), LONG)
        self.assertIn(self.show(task)["state"], ("running", "done"))  # done: what was freed at its end was room enough to say so
        os.unlink(filler)
        shown = self.waits_for(task, "done", "failed")
        self.assertEqual((shown["state"], shown["error"]), ("done", None))
        self.assertEqual(len(json.loads(self.task("ls", "--json").stdout)["tasks"]), 1)


    @scrytest.thorough
    @scrytest.hasten(5)
    def test_of_a_newer_scry(self):
        """What another version has made is neither read nor touched, and no list conceals it."""
        task, other = (self.submit("--by", "plain", "--wait", "true")[0] for _ in range(2))
        store = self.box.path(*self.STATE, "tasks")
        path = os.path.join(store, task, "state.json")
        with open(path, encoding="utf-8") as file:
            state = json.load(file)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**state, "version": state["version"] + 1, "state": "running"}, file)
        mark = os.path.join(store, ".active", state["host"], task)
        with open(mark, "w", encoding="ascii"):
            pass
        listed = self.task("ls", "--json")
        self.assertEqual([each["id"] for each in json.loads(listed.stdout)["tasks"]], [other])
        self.assertIn(f"not listed: task {task} was made by a newer scry", listed.stderr)
        for action in ("show", "rm", "cancel", "rerun"):
            refused = self.task(action, task)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("by a newer scry", refused.stderr)
        self.submit("--by", "plain", "--wait", "true")
        scrytest.wait_until(lambda: not list(self.box.processes("scry-tasks")), LONG)  # nor does anybody wait for it
        self.assertTrue(os.path.exists(mark))
        with open(os.path.join(store, other, "state.json"), "w", encoding="ascii") as file:
            file.write("{")
        self.assertIn("is damaged: remove the task", self.task("ls").stderr)
        self.assertEqual(self.task("rm", other).returncode, 0)


class Connection(http.client.HTTPConnection):
    """To the server's unix socket, where the kernel says who asks."""

    def __init__(self, path):
        super().__init__("localhost", timeout=LONG)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(LONG)
        self.sock.connect(self.path)


class Served(TaskCase):
    """The same tasks by HTTP."""

    def setUp(self):
        super().setUp()
        self.server = self.box.start(self.box.scry("serve"))
        self.assertIn("http://127.0.0.1:", self.server.stdout.readline())

    def ask(self, method, path, body=None, json_body=True):
        connection = Connection(self.box.path("run", "serve.sock"))
        headers = {"Content-Type": "application/json"} if body is not None and json_body else {}
        connection.request(method, "/api/" + path, body=json.dumps(body) if json_body and body is not None else body,
                           headers=headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if text else None

    def test_what_forms_ask_and_what_is_left_behind(self):
        """A check has the rules of a new task, and makes none; the directory of a task gives its own files, and nothing else."""
        status, whole = self.ask("POST", "tasks/check", {"program": "p", "limits": {"seconds": 5}})
        self.assertEqual((status, whole["task"]["limits"]["seconds"], whole["task"]["repeat"]), (200, 5, 1))
        self.assertEqual(whole["command"], "scry submit -n 1 --name= --directory= --env-only --limit-time=5s -- p")
        for wrong, member in (({}, "program"), ({"program": "p", "limits": {"seconds": "soon"}}, "limits.seconds: "), ({"program": 1}, "program: "),
                              ({"program": "p", "collect": {"functions": ["nothing:"]}}, "collect.functions: "),
                              ({"program": "p", "collect": {"logs": ["stdout=(["]}}, "collect.logs[0]: ")):
            refused = [self.ask("POST", path, wrong) for path in ("tasks/check", "tasks")]
            self.assertEqual(refused[0], refused[1])
            self.assertTrue(refused[0][1]["error"]["text"].startswith(member), refused)
        self.assertEqual(self.ask("GET", "tasks")[1]["tasks"], [])
        ways = {way["by"]: way["available"] for way in self.ask("GET", "tasks/ways")[1]["ways"]}
        self.assertEqual((list(ways), ways["plain"]), (["mpirun", "slurm", "ssh", "plain"], True))
        task, = self.submit("--by", "plain", "--wait", "sh", "-c", "echo '[1]'")
        files = [file["path"] for file in self.ask("GET", f"tasks/{task}/output")[1]["files"]]
        self.assertEqual(files, ["runs/1.err", "runs/1.out"])
        self.assertEqual(self.ask("GET", f"tasks/{task}/output/runs/1.out"), (200, [1]))
        for path in ("state.json", "runs/1/job.json", "files/../state.json", "files/.part-1"):
            self.assertEqual(self.ask("GET", f"tasks/{task}/output/{path}")[0], 404, path)

    def test_a_task_from_its_draft_to_its_end(self):
        events = Connection(self.box.path("run", "serve.sock"))
        events.request("GET", "/api/tasks/events")
        stream = events.getresponse()
        self.assertEqual(stream.readline(), b": \n")
        status, task = self.ask("POST", "tasks", {"name": "<script>", "program": "./p", "files": ["p"], "launch": {"by": "plain"},
                                                  "limits": {"disk_bytes": 4 << 20}})
        self.assertEqual((status, task["state"]), (201, "draft"))
        self.fits("task", task)
        place = f"tasks/{task['id']}"
        self.assertEqual(self.ask("POST", f"{place}/queue")[1]["error"]["kind"], "unknown")  # its file
        for name in ("..", "%2e%2e", ".x", "a%2fb", "-x"):
            self.assertIn(self.ask("PUT", f"{place}/files/{name}", b"x", False)[0], (400, 404, 405), name)
        large = Connection(self.box.path("run", "serve.sock"))
        large.putrequest("PUT", f"/api/{place}/files/p")
        large.putheader("Content-Length", str(300 << 20))
        large.endheaders()
        self.assertEqual(large.getresponse().status, 413)  # before it comes
        large.close()
        half = Connection(self.box.path("run", "serve.sock"))
        half.putrequest("PUT", f"/api/{place}/files/p")
        half.putheader("Content-Length", "100000")
        half.endheaders(b"#!/bin/sh\n")
        files = self.box.path("home", ".local/state/scry/tasks", task["id"], "files")
        scrytest.wait_until(lambda: os.listdir(files), LONG)
        self.assertEqual(self.ask("POST", f"{place}/queue")[0], 409)
        half.close()
        scrytest.wait_until(lambda: not os.listdir(files), LONG)
        script = b"#!/bin/sh\necho hello\n"
        self.assertEqual(self.ask("PUT", f"{place}/files/p", script + b"#" * 700000, False)[0], 204)
        status, task = self.ask("POST", f"{place}/queue")
        self.assertEqual(status, 200, task)
        last = {}
        while last.get("state") not in ("done", "failed"):
            line = stream.readline()
            if line.startswith(b"data: "):
                last = json.loads(line[6:])
        self.assertEqual((last["state"], last["error"], last["name"]), ("done", None, "<script>"))
        events.close()
        self.assertEqual(self.ask("GET", place)[1]["runs"][0]["exit_code"], 0)
        job = self.ask("GET", place)[1]["runs"][0]["job"]
        self.assertEqual(self.ask("GET", f"jobs/{job}/report")[1]["id"], job)
        self.assertEqual([each["id"] for each in self.ask("GET", "tasks")[1]["tasks"]], [task["id"]])
        self.assertEqual(self.ask("GET", f"scaling?tasks={task['id']}")[1]["tasks"][0]["efficiency"], 1)
        many = ",".join([task["id"]] * 20)
        self.assertEqual(len(self.ask("GET", f"scaling?tasks={many}")[1]["tasks"]), 20)
        self.assertEqual(self.ask("POST", f"{place}/cancel")[0], 409)
        self.assertEqual(self.ask("POST", f"{place}/rerun")[0], 200)
        self.waits_for(task["id"], "done")
        self.assertEqual(self.ask("DELETE", place)[0], 204)
        self.assertEqual(self.ask("GET", place)[0], 404)

    def test_refused(self):
        for method, path, body, status in (("POST", "tasks", {"program": "-x"}, 400), ("POST", "tasks", {"what": 1}, 400),
                                           ("POST", "tasks", [], 400), ("GET", "tasks/20260101T000000-a-1-b", None, 404),
                                           ("GET", "tasks/..%2f..%2fx", None, 404), ("DELETE", "tasks/x", None, 404),
                                           ("POST", "tasks/x/cancel", None, 404), ("GET", "scaling", None, 400),
                                           ("GET", "scaling?tasks=-x", None, 400), ("PUT", "tasks/x/files/y", {}, 404)):
            found, answer = self.ask(method, path, body)
            self.assertEqual(found, status, (method, path, answer))
            self.assertNotIn("\n", answer["error"]["text"])
        self.assertEqual(self.ask("POST", "tasks", b'{"program": "true"}', False)[0], 400)  # as a page of others could send it


if __name__ == "__main__":
    scrytest.main()
