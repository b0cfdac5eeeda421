# SPDX-License-Identifier: Apache-2.0
"""The job wrapper of HTCondor, as its manual describes what a starter does (USER_JOB_WRAPPER; the job's environment and
its .job.ad); scry-task by itself; other batch systems by their variables."""

import json
import os

import scrytest
from jobtest import JobCase

AD = """MyType = "Job"
ClusterId = 33
ProcId = 2
RequestMemory = 512
RequestCpus = 1
AllowedJobDuration = 7200
JobBatchName = "tides"
Owner = "someone"
"""


class BatchCase(JobCase):
    def jobs(self):
        return json.loads(self.scry("ps", "--all", "--json").stdout)["jobs"][::-1]

    def only_job(self):
        job, = self.jobs()
        return job


class HTCondor(BatchCase):
    def setUp(self):
        super().setUp()
        self.scratch = self.box.path("work", "dir_1")
        os.mkdir(self.scratch)
        with open(os.path.join(self.scratch, ".job.ad"), "w", encoding="ascii") as file:
            file.write(AD)
        self.given = {"_CONDOR_JOB_AD": os.path.join(self.scratch, ".job.ad"), "_CONDOR_SCRATCH_DIR": self.scratch,
                      "_CONDOR_WRAPPER_ERROR_FILE": os.path.join(self.scratch, ".job_wrapper_failure")}

    def start(self, *command, env=None, **options):
        wrapper = os.path.join(scrytest.BUILD, "src", "batch", "scry-condor-wrapper")
        return self.box.run([wrapper, *command], env={**self.given, **(env or {})}, cwd=self.scratch, **options)

    def test_wanted(self):
        done = self.start("/bin/sh", "-c", "cat; echo \"$1\" >&2; exit 3", "sh", "two  words", env={"SCRY": "on"}, input="in")
        self.assertEqual((done.stdout, done.returncode), ("in", 3))
        self.assertRegex(done.stderr, r"(?m)^two  words$")
        job = self.only_job()
        self.assertEqual((job["name"], job["exit_code"]), ("tides", 3))
        self.assertEqual(job["batch"], {"system": "htcondor", "id": "33.2", "array": None, "step": None, "partition": None,
                                        "nodes": None, "cpus": 1, "memory_bytes": 512 << 20, "time_limit_seconds": 7200})

    def test_not_wanted(self):
        for env in ({}, {"SCRY": "off"}):
            done = self.start("/bin/sh", "-c", "echo ran; exit 4", env=env)
            self.assertEqual((done.stdout, done.stderr, done.returncode), ("ran\n", "", 4))
        self.assertEqual(self.jobs(), [])

    def test_stepping_aside(self):
        """No scry, a wrong option: the job runs. No command: HTCondor is told."""
        done = self.start("/bin/sh", "-c", "echo ran", env={"SCRY": "on", "SCRY_PROGRAM": "/none"})
        self.assertEqual((done.stdout, done.stderr), ("ran\n", "scry: the job runs without scry: /none does not work on this machine\n"))
        done = self.start("/bin/sh", "-c", "echo ran", env={"SCRY": "on", "SCRY_SAMPLE": "x"})
        self.assertEqual(done.stdout, "ran\n")
        self.assertIn("SCRY_SAMPLE: expected seconds", done.stderr)
        self.assertFalse(os.path.exists(self.given["_CONDOR_WRAPPER_ERROR_FILE"]))
        self.assertEqual(self.start("/none", env={}).returncode, 127)
        with open(self.given["_CONDOR_WRAPPER_ERROR_FILE"], encoding="ascii") as file:
            self.assertEqual(file.read(), "cannot execute /none\n")

    def test_bare_environment(self):
        """Of the submitter's environment nothing comes along: the job directory is in the scratch directory."""
        bare = {**self.given, "SCRY": "on", "SCRY_PROGRAM": self.box.path("bin", "scry"), "SCRY_RUNTIME_DIR": self.box.path("run"),
                "SCRY_LIBEXEC": self.box.path("libexec")}
        before, self.box.env = self.box.env, {}
        done = self.start("/bin/echo", "ran", env=bare)
        self.box.env = before
        self.assertEqual(done.stdout, "ran\n", done.stderr)
        self.assertEqual(len(os.listdir(os.path.join(self.scratch, "scry-jobs"))), 1)


class Others(BatchCase):
    def test_variables(self):
        self.scry_run("-q", "true", env={"PBS_JOBID": "12.server", "PBS_JOBNAME": "waves", "PBS_QUEUE": "work\x1b[31m", "NCPUS": "4"})
        job = self.only_job()
        self.assertEqual((job["name"], job["batch"]["system"], job["batch"]["id"]), ("waves", "pbs", "12.server"))
        self.assertIn("batch      pbs job 12.server, work\\x1b[31m, 4 processors\n", self.scry("report", "@last").stdout)
        self.scry_run("-q", "--name", "mine", "true", env={"LSB_JOBID": "5", "LSB_JOBNAME": "theirs"})
        self.assertEqual(self.jobs()[-1]["name"], "mine")


class Task(BatchCase):
    """scry-task, as the plugin of Slurm starts it: of 23.11 and later, and before."""
    def task(self, handed, *command, **options):
        return self.box.run([self.box.path("libexec", "scry-task"), *command], env={"SCRY_HANDED": handed} if handed else {}, **options)

    def handed(self, how="quiet", step="", options="", program="", scry=None):
        return f"{how}\n{step}\n\n{scry or self.box.path('bin', 'scry')}\n{options}\n{program}"

    def test_command(self):
        shell = "echo $0 $1 \"[$SCRY_HANDED$SCRY_STEP]\"; exit 7"
        for handed, command in ((self.handed(), ["/bin/sh", "-c", shell, "a", "b c"]),
                                (self.handed(program="/bin/sh"), ["-c", shell, "a", "b c"]),
                                (self.handed(program="sh"), ["-c", shell, "a", "b c"])):
            done = self.task(handed, *command)
            self.assertEqual((done.stdout, done.stderr, done.returncode), ("a b c []\n", "", 7))
        self.assertEqual({tuple(job["argv"][1:]) for job in self.jobs()}, {("-c", shell, "a", "b c")})
        self.assertEqual(len(self.jobs()), 3)

    def test_damaged(self):
        """Whatever stands in the variable, the command runs."""
        for handed in ("x", "\n\n\n\n\n", "run\n\n\n/none\n\n", self.handed(options="name='x"), self.handed(options="n " * 100),
                       self.handed(how="exec", step="../../x")):
            done = self.task(handed, "/bin/sh", "-c", "echo ran; exit 5")
            self.assertEqual((done.stdout, done.returncode), ("ran\n", 5), (handed, done.stderr))
        self.assertEqual(self.jobs(), [])
        self.assertEqual(self.task("", "/bin/echo", "ran").stdout, "ran\n")
        self.assertEqual(self.task("").returncode, 126)


scrytest.main()
