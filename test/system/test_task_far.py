# SPDX-License-Identifier: Apache-2.0
"""Tasks that run elsewhere: by Slurm, by ssh. Over several nodes: test_task_hosts.py."""

import json
import os
import signal
import subprocess
import time

import scrytest
import slurmtest
import sshtest
from tasktest import LONG, STOMMEL, TaskCase


class Elsewhere(TaskCase):
    @scrytest.thorough
    def test_slurm_clock_that_is_set(self):
        """How long Slurm may let a run go on is by a clock of this machine that nobody sets."""
        slurm = slurmtest.Slurm(self.box)
        self.addCleanup(slurm.close)
        task, = self.submit("--by", "slurm", "--limit-time", "300s", "sleep", "1000")
        scrytest.wait_until(lambda: (runs := self.show(task)["runs"]) and runs[0]["job"], LONG)
        path = os.path.join(self.show(task)["runs"][0]["directory"], "job.json")
        with open(path, encoding="utf-8") as file:
            info = json.load(file)
        info["started_ns"] -= 3600 * 10 ** 9
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(info, file)
        os.rename(path + ".new", path)
        for _ in range(2):
            self.submit("--by", "plain", "--wait", "true")  # so the runner has looked again
        shown = self.show(task)
        self.assertEqual((shown["state"], shown["error"]), ("running", None))
        self.assertEqual(self.task("cancel", task).returncode, 0)
        self.waits_for(task, "cancelled")
        task, = self.submit("--by", "slurm", "--limit-time", "1s", "--wait", "sleep", "1000")
        self.assertEqual(self.show(task)["error"]["kind"], "time")

    def test_slurm(self):
        slurm = slurmtest.Slurm(self.box)
        self.addCleanup(slurm.close)
        task, = self.submit("--by", "slurm", "--partition", "main", "--repeat", 2, "--wait", "sh", "-c", "echo $SLURM_JOB_ID")
        shown = self.show(task)
        self.assertEqual((shown["state"], len(shown["runs"])), ("done", 2), shown)
        # while Slurm's own queue has it, nothing is said of how far it is, though a run before it took a moment only; but why
        slurm.run("scontrol", "update", "PartitionName=main", "MaxTime=1")
        begun = time.monotonic()
        waiting = self.box.start(self.box.scry("submit", "--by", "slurm", "--partition", "main", "--limit-time", "1s", "--wait",
                                               "sh", "-c", "echo $SLURM_JOB_ID"), stderr=subprocess.PIPE)
        like = waiting.stdout.readline().strip()
        scrytest.wait_until(lambda: self.show(like)["state"] == "running", LONG)
        self.assertIsNone(self.show(like)["progress"])
        scrytest.wait_until(lambda: self.show(like)["waits_for"] == "PartitionTimeLimit", LONG, lambda: json.dumps(self.show(like)))
        looks = 0
        while looks < 2:  # its limit of time begins when Slurm begins it
            looks += time.monotonic() > begun + 1
            self.submit("--by", "plain", "--wait", "true")  # so the runner has looked again
        self.assertIn("running, waiting for: PartitionTimeLimit\n", self.task("show", like).stdout)
        self.assertEqual(self.task("cancel", like).returncode, 0)
        self.waits_for(like, "cancelled")
        self.assertEqual(waiting.communicate(timeout=LONG)[1],
                         f"scry: task {like} waits for: PartitionTimeLimit\nscry: task {like} was cancelled\n")
        slurm.run("scontrol", "update", "PartitionName=main", "MaxTime=INFINITE")
        with open(shown["runs"][0]["directory"] + ".out", encoding="ascii") as file:
            self.assertGreater(int(file.read()), 0)
        task, = self.submit("--by", "slurm", "sleep", "1000")
        scrytest.wait_until(lambda: (runs := self.show(task)["runs"]) and runs[0]["job"], LONG)
        self.assertEqual(self.task("cancel", task).returncode, 0)
        shown = self.waits_for(task, "cancelled")
        self.assertEqual(shown["runs"][0]["signal"], 15)
        self.assertIn("probably because its task was cancelled", self.why(shown))
        if os.path.exists(os.path.join(scrytest.BUILD, "examples", "stommel")):
            task, = self.submit("--by", "slurm", "-n", 2, "--trace", "fn:solve", "--wait", scrytest.example("stommel"), *STOMMEL)
            shown = self.show(task)
            self.assertEqual((shown["state"], shown["error"]), ("done", None))
            report = json.loads(self.box.run(self.box.scry("report", "--json", shown["runs"][0]["job"])).stdout)
            self.assertEqual(len(report["mpi"]["ranks"]), 2)
            task, = self.submit("--by", "slurm", "-n", 2, "--launcher", "--ntasks-per-node=1", scrytest.example("stommel"),
                                "400", "400", "10000000")
            scrytest.wait_until(lambda: len(list(self.box.processes("stommel"))) == 2, LONG)
            self.assertEqual(self.task("cancel", task).returncode, 0)
            self.waits_for(task, "cancelled")
            scrytest.wait_until(lambda: not list(self.box.processes("stommel")), LONG)  # on both nodes
        for options, program, kind, text in (
                (("--limit-time", "1s"), "sleep 1000", "time", "stopped: it took longer"),
                (("--limit-space", "4M"), "i=0; while :; do i=$((i+1)); head -c 100000 /dev/zero >f$i; done", "space", "more of the disk"),
                (("--limit-memory", "90M"), "ulimit -d; scontrol show job $SLURM_JOB_ID >&2; exit 1", "run", "exit status 1")):
            where = ("--file", self.program("", "any")) if "space" in options[0] else ()
            task, = self.submit("--by", "slurm", *options, *where, "--wait", "sh", "-c", program)
            error = self.show(task)["error"]
            self.assertEqual(error and error["kind"], kind, error)
            self.assertIn(text, error["text"])
        path = self.show(task)["runs"][0]["directory"]
        with open(path + ".out", encoding="ascii") as said, open(path + ".err", encoding="ascii") as batch:
            self.assertEqual(said.read(), f"{90 << 10}\n")
            self.assertIn("mem=90M", batch.read())
        refused, = self.submit("--by", "slurm", "--partition", "nowhere", "--wait", "true")
        self.assertIn("Invalid partition", self.show(refused)["error"]["text"])

    @scrytest.thorough
    def test_slurm_kills(self):
        """What Slurm ends itself, by its own limits, is told as that."""
        slurm = slurmtest.Slurm(self.box, cgroups=True)
        self.addCleanup(slurm.close)
        hungry = self.program("#!/usr/bin/python3\nx = bytearray(30 << 20)\nimport os\nfor _ in range(4):\n    os.fork()\n"
                              "x[::4096] = b'x' * len(x[::4096])\nimport time\ntime.sleep(1000)\n", "hungry")
        task, = self.submit("--by", "slurm", "--limit-memory", "100M", "--wait", hungry)
        error = self.show(task)["error"]
        self.assertEqual(error["kind"], "memory", error)

    def test_ssh(self):
        far = sshtest.Node(self, "n2")
        self.box.env.update(far.near_env())
        program = self.program("#!/bin/sh\ntest -n \"$SCRY_JOB\" && exec pwd -P\n")
        task, = self.submit("--by", "ssh", "--hosts", "n2", "--file", program, "--wait", "./program")
        shown = self.show(task)
        self.assertEqual((shown["state"], shown["error"]), ("done", None))
        self.assertEqual([phase["phase"] for phase in shown["phases"]], ["run", "gather"])
        with open(shown["runs"][0]["directory"] + ".out", encoding="utf-8") as file:
            self.assertIn(task, file.read())
        report = self.box.run(self.box.scry("report", "--json", shown["runs"][0]["directory"]))
        self.assertEqual(json.loads(report.stdout)["id"], shown["runs"][0]["job"])
        task, = self.submit("--by", "ssh", "--hosts", "n2", "sleep", "1000")
        # it may be ended as soon as scry run is there: the shell before it has written its number
        pid = far.box.path("home", ".cache/scry/tasks", task, "runs/1/job.json")
        scrytest.wait_until(lambda: os.path.exists(pid), LONG)
        self.assertEqual(self.task("cancel", task).returncode, 0)
        shown = self.waits_for(task, "cancelled")
        self.assertEqual(shown["runs"][0]["signal"], 15)
        self.assertIn("probably because its task was cancelled", self.why(shown))
        self.assertEqual([each for each in far.box.processes("sleep")], [])
        task, = self.submit("--by", "ssh", "--hosts", "nowhere", "--wait", "true")
        self.assertIn("nothing came of run 1 on nowhere: ", self.show(task)["error"]["text"])

    def far_program(self, far, text):
        """A task that runs it on the other host, which says there that it has begun."""
        program = self.program(f"#!/bin/sh\n{text}")
        task, = self.submit("--by", "ssh", "--hosts", "n2", "--limit-time", "60s", "--file", program, "./program")
        begun = far.box.path("home", ".cache/scry/tasks", task, "files/begun")
        scrytest.wait_until(lambda: os.path.exists(begun), LONG, lambda: json.dumps(self.show(task)))
        return task

    @scrytest.hasten(5)
    def test_ssh_is_lost(self):
        """The run goes on, is waited for, and comes home with what it wrote; nothing is left there."""
        far = sshtest.Node(self, "n2")
        self.box.env.update(far.near_env())
        task = self.far_program(far, "echo x >begun\nwhile ! [ -e go ]; do sleep 0.1; done\necho after\necho y >>begun\n")
        for pid in list(self.box.processes("ssh")):
            os.kill(pid, signal.SIGKILL)
        self.waits_for(task, "gathering")
        self.kill_runner()
        behind, = self.submit("--by", "plain", "true")  # which starts another one
        there = far.box.path("home", ".cache/scry/tasks")
        with open(os.path.join(there, task, "files/go"), "w", encoding="ascii"):
            pass
        shown = self.waits_for(task, "done", "failed")
        self.assertEqual((shown["state"], shown["error"], shown["runs"][0]["exit_code"]), ("done", None, 0))
        files = self.box.path("home", ".local/state/scry/tasks", task)
        for path, text in (("runs/1.out", "after\n"), ("files/begun", "x\ny\n")):
            with open(os.path.join(files, path), encoding="ascii") as file:
                self.assertEqual(file.read(), text)
        self.assertEqual(os.listdir(there), [])
        self.waits_for(behind, "done")

    @scrytest.thorough
    @scrytest.hasten(5)
    def test_ssh_is_slow(self):
        """What comes home says how far it is: by its bytes, of those that are there."""
        far = sshtest.Node(self, "n2")
        self.box.env.update(far.near_env())
        slow = self.program(f"#!/bin/sh\ncase $* in *\"; send \"*) ;; *) exec {self.box.env['SCRY_SSH']} \"$@\" ;; esac\n{self.box.env['SCRY_SSH']} \"$@\" | "
                            f"{{ while ! [ -e {self.box.path('work', 'go')} ]; do head -c 10000; sleep 0.1; done; cat; }}\n", "slow")
        program = self.program("#!/bin/sh\nhead -c 20000000 /dev/urandom >result\n")
        task, = self.submit("--by", "ssh", "--hosts", "n2", "--file", program, "./program", env={"SCRY_SSH": slow})
        shown = {}

        def comes():
            shown.update(self.show(task))
            return shown["state"] == "gathering" and shown["progress"] and shown["left_seconds"]
        scrytest.wait_until(comes, LONG, lambda: json.dumps(shown))
        self.assertEqual((shown["progress"] < 0.5, shown["left_seconds"] > 2), (True, True), shown)
        self.assertEqual(shown["phases"][-1]["progress"], shown["progress"])
        self.program("", "go")
        self.assertEqual(self.waits_for(task, "done", "failed")["error"], None)
        files = self.box.path("home", ".local/state/scry/tasks", task)
        self.assertEqual(os.path.getsize(os.path.join(files, "files/result")), 20000000)
        self.assertEqual([name for name in os.listdir(os.path.join(files, "runs")) if name.endswith(".bytes")], [])

    @scrytest.hasten(5)
    def test_ssh_is_gathered_again(self):
        """A disk without room for it is left alone; a connection may end, or none be made. All of it stays there, and a rerun brings it."""
        far = sshtest.Node(self, "n2")
        self.box.env.update(far.near_env())
        state, how = self.box.path("home", ".local/state/scry"), self.box.path("work", "how")
        os.makedirs(state, mode=0o700)
        full = not self.box.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "none", state]).returncode
        if full:
            self.addCleanup(self.box.run, ["umount", "-l", state])
        ssh = self.box.env["SCRY_SSH"]
        self.box.env["SCRY_SSH"] = self.program(f"""#!/bin/sh
case $*$(cat {how}) in
*"; send "*lost) {ssh} "$@" | head -c 3000000 ;;
*"; send "*silent) echo "ssh: no route to n2" >&2; exit 255 ;;
*) exec {ssh} "$@" ;;
esac
""", "ssh")
        program = self.program("#!/bin/sh\nhead -c 9000000 /dev/urandom >result; cksum <result\n")
        there = far.box.path("home", ".cache/scry/tasks")
        ways = ([("room", "and of the disk here no more than")] if full else []) + [("lost", "the connection was lost"), ("silent", "no route to n2")]
        for way, text in ways:
            self.program(way, "how")
            runs = 2 if way == "lost" else 1
            task, = self.submit("--by", "ssh", "--hosts", "n2", "--repeat", runs, "--file", program, "./program")
            shown = self.waits_for(task, "done", "failed")
            self.assertEqual((shown["error"]["kind"], text in shown["error"]["text"], len(shown["runs"])), ("gather", True, 1), shown["error"])
            self.assertTrue(os.path.exists(os.path.join(there, task, "files/result")))
            if way == "room":
                self.assertLess(shown["space_bytes"], 1000000)
                self.box.run(["mount", "-o", "remount,size=400m", state])
            self.program("", "how")
            self.assertEqual(self.task("rerun", task).returncode, 0)
            shown = self.waits_for(task, "done", "failed")
            self.assertEqual((shown["error"], [run["state"] for run in shown["runs"]], os.listdir(there)), (None, ["done"] * runs, []))
            files = os.path.join(state, "tasks", task)
            with open(os.path.join(files, f"runs/{runs}.out"), encoding="ascii") as file:
                self.assertEqual(file.read(), self.box.run(["cksum"], stdin=open(os.path.join(files, "files/result"), "rb")).stdout)

    @scrytest.thorough
    @scrytest.hasten(5)
    def test_ssh_what_does_not_listen(self):
        """Cancelled while the connection is lost, the run is ended there with all that it began."""
        far = sshtest.Node(self, "n2")
        self.box.env.update(far.near_env())
        task = self.far_program(far, "trap '' TERM\nsetsid sleep 1000 &\n(setsid sleep 1000 &)\necho x >begun\nwhile :; do sleep 1; done\n")
        for pid in list(self.box.processes("ssh")):
            os.kill(pid, signal.SIGKILL)
        self.waits_for(task, "gathering")
        self.assertEqual(self.task("cancel", task).returncode, 0)
        self.assertEqual(self.waits_for(task, "cancelled", "failed")["state"], "cancelled")
        scrytest.wait_until(lambda: not list(far.box.processes("sleep")), LONG)


    @scrytest.thorough
    def test_ssh_what_went_away(self):
        """What has left the session and its parents does not outlive a run that listens and is cancelled."""
        far = sshtest.Node(self, "n2")
        self.box.env.update(far.near_env())
        task = self.far_program(far, "(setsid sleep 1000 &)\necho x >begun\nexec sleep 2000\n")
        scrytest.wait_until(lambda: len(list(far.box.processes("sleep"))) == 2, LONG)
        self.assertEqual(self.task("cancel", task).returncode, 0)
        self.assertEqual(self.waits_for(task, "cancelled", "failed")["runs"][0]["signal"], signal.SIGTERM)
        self.assertEqual(list(far.box.processes("sleep")), [])

    @scrytest.thorough
    @scrytest.hasten(5)
    def test_ssh_what_it_leaves_behind(self):
        """What goes on there when the run is over is ended, before it comes home, and the task says so."""
        far = sshtest.Node(self, "n2")
        self.box.env.update(far.near_env())
        program = self.program("#!/bin/sh\n(setsid sh -c 'trap \"\" TERM; echo $$ >deaf; while :; do sleep 0.2; done' &)\n"
                               "(setsid sleep 1000 &)\nwhile ! [ -s deaf ]; do sleep 0.1; done\n")
        task, = self.submit("--by", "ssh", "--hosts", "n2", "--file", program, "--wait", "./program")
        shown = self.show(task)
        self.assertEqual((shown["state"], shown["error"]), ("done", None))
        run, gather = (phase["left_behind"] for phase in shown["phases"])
        self.assertEqual((gather, set(run["names"])), (None, {"sh", "sleep"}))
        self.assertEqual([each for each in far.box.processes() if "sshd" not in os.readlink(f"/proc/{each}/exe")
                          and "scry" not in os.readlink(f"/proc/{each}/exe")], [])


if __name__ == "__main__":
    scrytest.main()
