# SPDX-License-Identifier: Apache-2.0
"""`srun --scry`, `sbatch --scry` and `#SBATCH --scry` on a real Slurm: what the job sees is what it sees without; what is
recorded; and that a job is never lost because of scry."""

import contextlib
import json
import os
import pty
import re
import resource
import subprocess
import unittest

import brokertest
import scrytest
import slurmtest
from jobtest import JobCase
from scrytest import wait_until

SCRIPT = "#!/bin/bash\n"


class SlurmCase(JobCase):
    plugin, cgroups = "", False

    def setUp(self):
        super().setUp()
        self.slurm = slurmtest.shared(self, self.plugin.format(box=self.box.root), self.cgroups)

    def srun(self, *arguments, status=0, **options):
        done = self.slurm.run("srun", *arguments, **options)
        self.assertEqual(done.returncode, status, f"{done.stderr}\n{self.slurm.said()}")
        return done

    def jobs(self):
        """Oldest first."""
        return json.loads(self.scry("ps", "--all", "--json").stdout)["jobs"][::-1]

    def only_job(self):
        job, = self.jobs()
        return job

    def words(self, jobs):
        return [" ".join(job["argv"]) for job in jobs]


    def cancelled(self, script, options=""):
        number = self.slurm.submit("--scry" + options, script=SCRIPT + script)
        wait_until(lambda: os.path.exists(self.box.path("work", f"{number}.out")) and self.slurm.output(number), timeout=20)
        self.slurm.run("scancel", str(number))
        self.assertEqual(self.slurm.ended(number)["JobState"], "CANCELLED")
        return number

    def check_cancelled(self):
        """The job gets its SIGTERM, once, and what it does with it is recorded."""
        number = self.cancelled("n=0\ntrap 'n=$((n+1))' TERM\necho started\nwhile [ $n = 0 ]; do sleep 0.05; done\n"
                                "sleep 0.3\necho told $n\nexit 9\n")
        wait_until(lambda: self.only_job()["state"] == "ended", message=lambda: self.jobs())
        self.assertEqual(self.only_job()["exit_code"], 9)
        self.assertEqual(self.slurm.output(number), "started\ntold 1\n")
        self.assertIn("ended: exit status 9", self.slurm.output(number, "err"))


    def check_published(self):
        """A cancelled job: the broker has its end, and what Slurm said of it."""
        broker = brokertest.Mosquitto(self.box)
        self.addCleanup(broker.close)
        reader = broker.client("scry/v1/+/+/state")
        self.cancelled("trap 'exit 9' TERM\necho started\nsleep 1000 &\nwhile :; do wait; done\n", options=f"=broker={broker.url}")
        state = reader.wait(lambda: [each for each in map(lambda message: json.loads(message.payload), reader.of("/state"))
                                     if each["complete"]])[-1]
        self.assertEqual((state["state"], state["info"]["result"]["exit_code"]), ("failed", 9))
        self.assertEqual(state["info"]["batch"]["system"], "slurm")


class Step(SlurmCase):
    def test_one_task(self):
        """Streams, status and environment are the command's own; the record has what Slurm says."""
        shell = "cat; echo error >&2; echo number $SLURM_JOB_ID >&2; env | grep -E 'SCRY_(TASK|STEP|BATCH)'; exit 3"
        done = self.srun("-J", "deep water", "--mem=50", "--scry", "sh", "-c", shell, input="given\n", status=3)
        self.assertEqual(done.stdout, "given\n")
        self.assertRegex(done.stderr, r"(?m)^error$")
        self.assertRegex(done.stderr, r"scry: job \S+ \(deep water\) ended: exit status 3")
        number, = re.findall(r"(?m)^number (\d+)$", done.stderr)
        job = self.only_job()
        self.assertEqual((job["name"], job["exit_code"]), ("deep water", 3))
        self.assertEqual(job["batch"], {"system": "slurm", "id": number, "array": None, "step": "0", "partition": "main",
                                        "nodes": 1, "cpus": 1, "memory_bytes": 50 << 20, "time_limit_seconds": None})
        report = self.scry("report", job["id"])
        self.assertRegex(report.stdout, rf"batch +slurm job {number}, step 0, main, 1 node, 1 processor, 50 MB of memory asked for\n")

    def test_same_task(self):
        """Limits of the submission, the task's prolog, the number of its tasks: as without scry."""
        look = ["sh", "-c", "ulimit -S -n; echo $FROM_PROLOG $SLURM_NTASKS $SLURM_PROCID; ps -o ni= -p $$; pwd; umask"]
        prolog = self.box.path("work", "prolog")
        with open(prolog, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho export FROM_PROLOG=yes\n")
        os.chmod(prolog, 0o700)

        def limited():
            resource.setrlimit(resource.RLIMIT_NOFILE, (777, 1024))
            os.umask(0o027)
        arguments = ["--task-prolog", prolog, *look]
        plain = self.srun(*arguments, preexec_fn=limited).stdout
        self.assertEqual(plain.split()[:4], ["777", "yes", "1", "0"])
        self.assertEqual(self.srun("--scry", *arguments, preexec_fn=limited).stdout, plain)

    @scrytest.thorough
    def test_many_tasks(self):
        """The tasks of a node are one job, or each is one."""
        shell = ["sh", "-c", "echo $SLURM_PROCID $(basename $SCRY_JOB)$SCRY_HANDED$SCRY_STEP$SCRY_BATCH_MEMORY"]
        said = [line.split() for line in self.srun("-n", 4, "--mem=50", "--scry=name=x", *shell).stdout.splitlines()]
        job = self.only_job()
        self.assertEqual(sorted(said), [[str(n), job["id"]] for n in range(4)])
        said = [line.split() for line in self.srun("-n", 4, "--mem=50", "--scry=each name=y", *shell).stdout.splitlines()]
        each = [job["id"] for job in self.jobs() if job["name"] == "y"]
        self.assertEqual((len(each), sorted(id for _, id in said)), (4, sorted(each)))

    def test_nodes(self):
        """One job on each node, and only one of them is talkative."""
        done = self.srun("-N", 2, "-n", 2, "--scry", "hostname")
        self.assertEqual(len(self.jobs()), 2)
        self.assertEqual(done.stderr.count("ended: exit status 0"), 1)

    def test_mpi(self):
        try:
            program = scrytest.example("stommel_mpich")
        except AssertionError as error:
            raise unittest.SkipTest(str(error)) from None
        done = self.srun("-n", 2, "--mem=100", "--mpi=pmi2", "--scry", program, "60", "60", "50", "50")
        self.assertIn("2 ranks", done.stdout)
        ranks = json.loads(self.scry("report", "--json", "@last").stdout)["mpi"]["ranks"]
        self.assertEqual(sorted(rank["rank"] for rank in ranks), [0, 1])

    def test_terminal(self):
        leader, follower = pty.openpty()
        command = ["srun", "--pty", "--scry", "sh", "-c", "tty; test -t 0 && test -t 1; echo is $?; exit 5"]
        done = subprocess.Popen(command, env=self.box.env, stdin=follower, stdout=follower, stderr=follower,
                                cwd=self.box.path("work"), start_new_session=True)
        os.close(follower)
        said = b""
        with contextlib.suppress(OSError):  # nobody has the other end any more
            while some := os.read(leader, 4096):
                said += some
        os.close(leader)
        self.assertEqual(done.wait(10), 5, said)
        self.assertRegex(said.decode(), r"/dev/pts/\d+\s+is 0")
        self.assertEqual(self.only_job()["exit_code"], 5)

    def test_environment(self):
        """The option holds though nothing of the environment comes along; a variable does without the option."""
        self.srun("--export=SCRY_STATE_DIR,SCRY_RUNTIME_DIR", "--scry", "true")
        self.assertEqual(len(self.jobs()), 1)
        self.srun("true", env={"SCRY": "on"})
        self.assertEqual(len(self.jobs()), 2)
        self.srun("--scry", "true", env={"SCRY": "off"})
        self.srun("--scry=off", "true")
        self.assertEqual(len(self.jobs()), 2)

    def test_several_programs(self):
        """--multi-prog chooses the program after the plugin was asked."""
        plan = self.box.path("work", "plan")
        with open(plan, "w", encoding="ascii") as file:
            file.write("0-1 /bin/sh -c 'echo ran; exit 4'\n")
        done = self.srun("-n", 2, "--scry", "--multi-prog", plan, status=4)
        self.assertEqual(done.stdout, "ran\nran\n")


class Script(SlurmCase):
    def test_option_in_script(self):
        """The script is a job, and each of its steps a part of it."""
        script = SCRIPT + "#SBATCH --scry\n#SBATCH -J ocean\nsrun --mem=50 sh -c 'echo step; exit 2'\necho \"status $?\"\n"
        script += "srun --scry=brokr=x --mem=50 echo late\nexit 7\n"
        number = self.slurm.submit("--mem=200", script=script)
        state = self.slurm.ended(number)
        said = self.slurm.output(number, "err")
        self.assertEqual((state["JobState"], state["ExitCode"]), ("FAILED", "7:0"), said)
        self.assertEqual(self.slurm.output(number), "step\nstatus 2\nlate\n", said)
        self.assertIn("unknown option --brokr", said)
        wait_until(lambda: self.only_job()["state"] == "ended", message=lambda: self.jobs())
        whole = self.only_job()
        self.assertEqual((whole["name"], whole["exit_code"], whole["batch"]["step"], whole["batch"]["memory_bytes"]),
                         ("ocean", 7, None, 200 << 20))
        step, = (part["job"] for part in json.loads(self.scry("report", "--json", whole["id"]).stdout)["parts"])
        self.assertEqual((step["exit_code"], step["batch"]["id"], step["batch"]["step"]), (2, str(number), "0"))
        self.assertNotIn("no MPI calls", said)

    def test_bare_environment(self):
        number = self.slurm.submit("--export=SCRY_STATE_DIR,SCRY_RUNTIME_DIR", "--scry=name=bare", script=SCRIPT + "srun --scry=off /bin/true\n")
        self.assertEqual(self.slurm.ended(number)["JobState"], "COMPLETED", self.slurm.said())
        wait_until(lambda: self.jobs() and self.only_job()["state"] == "ended", message=lambda: self.jobs())
        self.assertEqual((self.only_job()["name"], self.only_job()["batch"]["step"]), ("bare", None))

    @scrytest.thorough
    def test_array(self):
        number = self.slurm.submit("--array=3-4", "--scry", script=SCRIPT + "exit 0\n")
        def both():
            return sorted((job["batch"]["array"], job["state"]) for job in self.jobs())
        wait_until(lambda: both() == [(f"{number}_{task}", "ended") for task in (3, 4)], timeout=30, message=both)

    def test_cancelled(self):
        self.check_cancelled()

    def test_published(self):
        self.check_published()

    def test_killed(self):
        """A job that does not end by itself is killed, with scry run: the record says so."""
        number = self.cancelled("trap '' TERM\necho started\nwhile :; do sleep 0.2; done\n")
        wait_until(lambda: self.only_job()["state"] == "lost", timeout=30, message=lambda: self.jobs())
        self.assertIn("was lost", self.scry("report", self.only_job()["id"]).stdout)
        self.assertEqual(self.slurm.output(number), "started\n")


class ControlGroups(SlurmCase):
    """As on most sites: each job in control groups of its own, which end with it."""
    cgroups = True

    def test_out_of_memory(self):
        program = "x = bytearray(200 << 20); print(len(x))"
        done = self.srun("--mem=60", "--scry", "python3", "-c", program, status=1)
        self.assertIn("Out Of Memory", done.stderr)
        job = self.only_job()
        self.assertEqual((job["state"], job["signal"], job["batch"]["memory_bytes"]), ("ended", 9, 60 << 20))
        self.assertIn("was killed by SIGKILL (Killed): out of memory", self.scry("report", job["id"]).stdout)

    def test_cancelled(self):
        """Here all of scry's own processes get the signal, too."""
        self.check_cancelled()

    @scrytest.thorough
    def test_published(self):
        self.check_published()

    def test_monitor_of_an_ended_job(self):
        """The monitor lives in the job that came first. When that is over, the next job gets another one."""
        def submit(name, *options):
            script = SCRIPT + f"echo up\nwhile [ ! -e {name} ]; do sleep 0.05; done\n"
            number = self.slurm.submit("--scry=sample=0.1", "-J", name, "-w", self.slurm.nodes[0], *options, script=script)
            wait_until(lambda: os.path.exists(self.box.path("work", f"{number}.out")) and self.slurm.output(number), timeout=20)
            return number

        def let_end(name, number):
            with open(self.box.path("work", name), "w", encoding="ascii"):
                pass
            self.assertEqual(self.slurm.ended(number)["JobState"], "COMPLETED")
        first, second = submit("first"), submit("second")
        monitor = self.box.monitor_pid()
        let_end("first", first)
        wait_until(lambda: scrytest.process_gone(monitor) and self.box.monitor_pid(), timeout=20)
        let_end("second", second)
        wait_until(lambda: [job["exit_code"] for job in self.jobs()] == [0, 0], message=lambda: self.jobs())
        self.assertIn("the monitor ended; scry run starts it again", self.slurm.output(second, "err"))


class Wrong(SlurmCase):
    def test_options(self):
        """They are refused before the job waits for its turn."""
        done = self.srun("--scry=brokr=x", "true", status=255)
        self.assertIn("unknown option --brokr", done.stderr)
        done = self.slurm.run("sbatch", "--scry=sample=0", input=SCRIPT)
        self.assertIn("--sample: expected seconds", done.stderr)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("a quote is not closed", self.srun("--scry=name='x", "true", status=255).stderr)
        self.assertEqual(self.jobs(), [])
        self.srun("--scry=name='two words' rule=\": print([1])\"", "true", status=255)
        self.srun("--scry=name='two words'", "true")
        self.assertEqual(self.only_job()["name"], "two words")

    def test_directory(self):
        """What only turns out on the node costs the watching, not the job."""
        done = self.srun("--scry=output=/proc/nowhere", "echo", "ran")
        self.assertEqual(done.stdout, "ran\n")
        self.assertIn("the job runs unwatched: cannot make the job directory", done.stderr)


class NoScry(SlurmCase):
    plugin = "scry={box}/home/scry task={box}/libexec/scry-task"

    def test_task_runs(self):
        done = self.srun("--scry", "echo", "ran")
        self.assertEqual((done.stdout, done.stderr),
                         ("ran\n", f"scry: the task runs without scry: there is no {self.box.path('home', 'scry')} on this node\n"))
        broken = self.box.path("home", "scry")
        with open(broken, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nexit 127\n")
        os.chmod(broken, 0o700)
        done = self.srun("--scry", "sh", "-c", "echo ran; exit 6", status=6)
        self.assertEqual(done.stdout, "ran\n")
        self.assertIn(f"the task runs without scry: {broken} does not work on this node\n", done.stderr)


class Site(SlurmCase):
    plugin = "scry={box}/bin/scry task={box}/libexec/scry-task all --quiet --name=site --wrong nonsense"

    def test_all_jobs(self):
        """A site follows all jobs, with options of its own; a mistake in them costs no job, and users can refuse."""
        done = self.srun("echo", "ran")
        self.assertEqual((done.stdout, self.jobs()), ("ran\n", []))
        self.assertIn("unknown option --wrong", done.stderr)
        with open(self.slurm.path("plugstack.conf"), "r+", encoding="utf-8") as file:
            text = file.read().replace(" --wrong nonsense", "")
            file.seek(0)
            file.truncate()
            file.write(text)
        self.assertEqual(self.srun("echo", "ran").stdout, "ran\n")
        self.assertEqual(self.only_job()["name"], "site")
        self.srun("echo", "ran", env={"SCRY": "off"})
        self.assertEqual(len(self.jobs()), 1)


scrytest.main()
