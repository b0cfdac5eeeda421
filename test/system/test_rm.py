# SPDX-License-Identifier: Apache-2.0
"""`scry rm`: what was recorded of jobs that are over is removed, and nothing else; limits of age and size; what is said
when jobs take much space."""

import glob
import json
import os

import scrytest
from jobtest import JobCase, target
from scrytest import wait_until


class Remove(JobCase):
    def jobs(self):
        return [job["id"] for job in json.loads(self.scry("ps", "--all", "--json").stdout)["jobs"]][::-1]

    def ended(self, name, age_seconds=0, size=0):
        """A job that ended this long ago, with this many extra bytes in its directory. Returns its id."""
        before = set(self.jobs())
        self.assertEqual(self.scry_run("-q", "--name", name, "true").returncode, 0)
        job, = set(self.jobs()) - before
        path = self.box.path("jobs", job, "job.json")
        with open(path, encoding="utf-8") as file:
            description = json.load(file)
        description["started_ns"] -= age_seconds * 10**9
        with open(path, "w", encoding="utf-8") as file:
            json.dump(description, file)
        with open(self.box.path("jobs", job, "spool", "more"), "wb") as file:
            file.write(os.urandom(size))
        return job

    def test_named(self):
        first, second, third = self.ended("a"), self.ended("b"), self.ended("b")
        self.assertIn("2 jobs have the name 'b'", self.scry("rm", "b", status=1).stderr)
        done = self.scry("rm", "--dry-run", "a")
        self.assertRegex(done.stdout, rf"^would remove +\S+ KB  {first}  a\n$")
        self.assertEqual(self.jobs(), [first, second, third])
        done = self.scry("rm", "a", third)
        self.assertRegex(done.stdout, rf"^removed +\S+ KB  {first}  a\nremoved .*  {third}  b\n2 jobs, \S+ KB\n$")
        self.assertEqual(self.jobs(), [second])
        self.assertEqual(os.listdir(self.box.path("jobs")), [second])
        self.assertEqual(self.scry("rm", "-q", "@last").stdout, "")
        self.assertIn("no job", self.scry("rm", "@last", status=1).stderr)

    def test_running(self):
        """Nothing happens to a job that runs, unless it is asked for; and then not to its command."""
        name = self.box.path("work", "child")
        run = self.start_run("--name", "lives", "sh", "-c", f"sleep 1000 & echo $! >{name}.new; mv {name}.new {name}; wait; exit 7")
        wait_until(self.jobs)
        self.assertIn("is running: only jobs that are over", self.scry("rm", "lives", status=1).stderr)
        self.assertEqual(self.scry("rm", "--older-than", "0").stdout, "0 jobs, 0 B\n")
        self.assertEqual(len(self.jobs()), 1)
        wait_until(lambda: os.path.exists(name))
        with open(name, encoding="ascii") as file:
            child = int(file.read())
        self.scry("rm", "--force", "lives")
        self.assertFalse(scrytest.process_gone(child))
        self.assertEqual(self.jobs(), [])
        os.kill(child, 15)
        self.assertEqual(run.wait(), 7)

    def test_limits(self):
        old, large, last = self.ended("old", 40 * 86400), self.ended("large", 3600, 2 << 20), self.ended("last", 1800, 1 << 20)
        self.assertEqual(self.scry("rm", "--older-than", "8w").stdout, "0 jobs, 0 B\n")
        done = self.scry("rm", "--older-than", "30d", "-n")
        self.assertRegex(done.stdout, rf"^would remove .*  {old}  old\n$")
        self.scry("rm", "--older-than", "30d")
        self.assertEqual(self.jobs(), [large, last])
        self.scry("rm", "--keep-size", "4M")
        self.assertEqual(self.jobs(), [large, last])
        self.scry("rm", "--keep-size", "2M")
        self.assertEqual(self.jobs(), [last])
        self.scry("rm", "--keep-size", "0")  # the job that ended last stays
        self.assertEqual(self.jobs(), [last])

    def test_own_directory(self):
        """Of a directory that the person named, only what scry has put there is removed; links lead nowhere."""
        self.scry_run("-q", "-o", "mine", "true")
        self.scry_run("-q", "-o", "other", "true")
        mine, other = self.box.path("work", "mine"), self.box.path("work", "other")
        for path in (os.path.join(mine, "notes"), self.box.path("work", "precious")):
            with open(path, "w", encoding="utf-8") as file:
                file.write("mine")
        os.symlink(self.box.path("work", "precious"), os.path.join(mine, "spool", "link"))
        os.mkdir(os.path.join(mine, "snapshots"))
        os.symlink(self.box.path("work"), os.path.join(mine, "trace"))
        done = self.scry("rm", "mine", "other")
        self.assertRegex(done.stdout, rf"(?m)^removed .*\(other files are left in mine\)$")
        self.assertEqual(self.files(mine), ["notes", "spool/link", "trace"])
        self.assertFalse(os.path.exists(other))
        self.assertEqual((os.listdir(self.box.path("jobs")), self.jobs()), ([], []))
        self.assertTrue(os.path.exists(self.box.path("work", "precious")))

    def files(self, path):
        """All that is no directory, and empty directories, by their paths in it."""
        return sorted(os.path.relpath(os.path.join(at, name), path) for at, dirs, files in os.walk(path)
                      for name in files + [each for each in dirs if os.path.islink(os.path.join(at, each))
                                           or not os.listdir(os.path.join(at, each))])

    def put(self, path, *names):
        for name in names:
            os.makedirs(os.path.dirname(os.path.join(path, name)), exist_ok=True)
            with open(os.path.join(path, name), "w", encoding="utf-8") as file:
                file.write("mine")

    def test_among_ours(self):
        """Files of others between those of scry stay, wherever they are."""
        self.scry_run("-q", "-o", "mine", "--trace", "all", target(), "calls", "1")
        mine = self.box.path("work", "mine")
        trace, = glob.glob(os.path.join(mine, "trace", "*", "*"))
        trace = os.path.relpath(trace, mine)
        self.assertIn(os.path.join(trace, "stream-0000"), self.files(mine))
        theirs = ["job.json.bak", "snapshots/list.json", "spool/mine", "spool/records.jsonl.gz", "stats/node/7-0/notes",
                  "stats/table.csv", "trace/myresults/data", "trace/myresults/7-0.txt", f"{trace}/.mine/metadata", f"{trace}/notes",
                  f"{trace}/stream-0000.old"]
        self.put(mine, *theirs, "snapshots/0000.json", "stats/sites.json", "stats/node/7-0.json", "stats/other/8-1.json.77.tmp",
                 "stats/other/8-1/MPI_Send.dist", f"{trace}/..counts.tmp", f"{trace}/.metadata.tmp", ".reserve")
        self.assertIn("(other files are left in mine)", self.scry("rm", "mine").stdout)
        self.assertEqual(self.files(mine), sorted(theirs))
        self.assertEqual(self.jobs(), [])

    def test_damaged(self):
        job = self.ended("a")
        os.truncate(self.box.path("jobs", job, "job.json"), 10)
        self.assertIn("--force", self.scry("rm", job, status=1).stderr)
        self.scry("rm", "--force", job)
        self.assertEqual(os.listdir(self.box.path("jobs")), [])

    def test_wrong_arguments(self):
        for arguments, said in (((), "name jobs"), (("--older-than", "x"), "30d"), (("--older-than", "1d", "a"), "not both"),
                                (("--force", "--keep-size", "1"), "--force is for"), (("-x",), "unknown option")):
            self.assertIn(said, self.scry("rm", *arguments, status=2).stderr)

    def test_a_word_when_it_is_much(self):
        self.ended("a", 0, 2 << 20)
        self.assertNotIn("of the disk", self.scry("ps").stdout)
        said = self.box.run(self.box.scry("ps"), env={"SCRY_KEEP_SIZE": "1M"}).stdout
        self.assertRegex(said, r"(?m)^1 job takes 2\.\d MB of the disk: scry rm --older-than 30d$")

    def test_setting(self):
        """scry run removes old jobs if that is set, and never the job that has just ended."""
        old, young = self.ended("old", 40 * 86400), self.ended("young")
        self.scry_run("-q", "--name", "none", "true")
        self.assertEqual(self.jobs()[:2], [old, young])
        done = self.scry_run("-q", "--name", "last", "true", env={"SCRY_KEEP_FOR": "30d"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        wait_until(lambda: old not in self.jobs())
        self.assertEqual(len(self.jobs()), 3)
        self.scry_run("-q", "--keep-size", "0", "true")
        wait_until(lambda: len(self.jobs()) == 1)
        self.assertIn("expected an age", self.scry_run("--keep-for", "x", "true").stderr)


scrytest.main()
