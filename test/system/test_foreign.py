# SPDX-License-Identifier: Apache-2.0
"""Job directories of somebody else, who has put links where scry reads and might write: whatever reads them changes no file
of the reader and makes none, outside of the reader's own cache. And scry run records in no such directory."""

import json
import os
import shutil
import socket
import stat
import subprocess
import unittest

import brokertest
import scrytest
import servetest
from jobtest import JobCase, target

ATTACKER = 65534
ID = "20260101T000000-there-77-abcdef"
# What a job directory may have beside what this job has, and what is next to it for a moment.
ALSO = ("stats/sites.json", "stats/sites.json.tmp", "clock.json", "remote.json", "mirror.lock", ".reserve", "spool/reserve",
        "snapshots/0001.json", "parts/.hosts", "parts/.options", "parts/.brought", "parts/.unwatched", "stats/vm/1-0.json")
SECONDS = 5  # for a command, on a machine that does nothing else
FORMATS = ("chrome", "folded", "folded-cpu", "folded-waiting", "csv")


def tree(top):
    """{path: (type and mode, owner, when changed, content)} of all below it; links are not followed."""
    found = {}
    for folder, folders, names in os.walk(top):
        for name in ["."] + folders + names:
            path = os.path.join(folder, name)
            about = os.lstat(path)
            content = None
            if stat.S_ISREG(about.st_mode):
                with open(path, "rb") as file:
                    content = file.read()
            elif stat.S_ISLNK(about.st_mode):
                content = os.readlink(path)
            found[os.path.relpath(path, top)] = about.st_mode, about.st_uid, about.st_mtime_ns, content
    return found


def files(top):
    return sorted(os.path.relpath(os.path.join(folder, name), top) for folder, _, names in os.walk(top) for name in names)


def guessed(count=3000):
    """What scry called the file beside sites.json until its name was random: of the next processes here."""
    number = 2166136261
    for byte in socket.gethostname().encode():
        number = (number ^ byte) * 16777619 & 0xffffffff
    number = (number ^ os.stat("/proc/self/ns/pid").st_ino & 0xffffffff) * 16777619 & 0xffffffff
    with open("/proc/sys/kernel/ns_last_pid", encoding="ascii") as file:
        last = int(file.read())
    return [f"stats/sites.json.{pid}{number:010d}.tmp" for pid in range(last, last + count)]


@unittest.skipUnless(os.getuid() == 0, "only root can give a job directory to somebody else")
class Foreign(JobCase):
    def setUp(self):
        super().setUp()
        self.job, self.victim = self.box.path("jobs", ID), self.box.path("work", "victim")
        self.assertEqual(self.scry_run("-q", "-o", "mine", "--trace", "all", target(), "calls", "1").returncode, 0)
        os.unlink(self.box.path("jobs", os.listdir(self.box.path("jobs"))[0]))
        os.rename(self.box.path("work", "mine"), self.job)
        path = os.path.join(self.job, "job.json")
        with open(path, encoding="utf-8") as file:
            description = json.load(file)
        description["id"] = ID
        with open(path, "w", encoding="utf-8") as file:
            json.dump(description, file)
        os.mkdir(self.victim, 0o755)
        shutil.copytree(self.job, self.box.path("work", "other"))

    def give(self, uid=ATTACKER):
        """The job directory belongs to somebody else, and so do all links in it."""
        for folder, folders, names in os.walk(self.job):
            os.chmod(folder, 0o755)
            for path in [folder] + [os.path.join(folder, name) for name in folders + names]:
                os.chown(path, uid, uid, follow_symlinks=False)

    def link(self, name, to):
        path = os.path.join(self.job, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(to, path)

    def link_files(self):
        """Each file is a link to one of the victim's, which has the same content; what is not there yet, to one with a word."""
        for name in files(self.job) + list(ALSO) + guessed():
            path, there = os.path.join(self.job, name), os.path.join(self.victim, name.replace("/", "+"))
            if os.path.exists(path):
                shutil.move(path, there)
            elif "sites.json." in name:
                there = os.path.join(self.victim, "dear")
            if not os.path.exists(there):
                with open(there, "w", encoding="utf-8") as file:
                    file.write("{}" if name == "stats/sites.json" else "dear\n")
            self.link(name, there)

    def link_folders(self):
        """Each directory is a link to one of the victim's."""
        for name in ("trace", "spool", "stats", "snapshots", "parts"):
            path, there = os.path.join(self.job, name), os.path.join(self.victim, name)
            if os.path.exists(path):
                shutil.move(path, there)
            else:
                os.mkdir(there, 0o755)
            self.link(name, there)

    def read_all(self):
        """Runs everything that reads a job."""
        out = self.box.path("tmp", "out")
        said = {}
        for words in [("report",), ("report", "--json"), ("why",), ("replay",), ("watch", "--json"), ("ps",), ("ps", "--json"),
                      ("set",)] + [("export", "-f", name, "-o", out) for name in FORMATS]:
            said[words] = self.box.run(self.box.scry(*words, self.job))
        said["diff"] = self.box.run(self.box.scry("diff", self.box.path("work", "other"), self.job))
        self.box.run(self.box.scry("rm", "--dry-run", self.job))
        server = servetest.Server(self.box)
        server.log_in()
        for name in ("", "/report", "/why", "/picture", "/records?until=now"):
            server.ask(f"api/jobs/{ID}{name}")
        server.end()
        return said

    def assert_untouched(self, whole=True):
        before, here = tree(self.victim), tree(self.job)
        said = self.read_all()
        after = tree(self.victim)
        self.assertEqual(sorted(after), sorted(before), "something is new where a link points to")
        self.assertEqual([name for name in before if before[name] != after[name]], [], "a file of the reader has changed")
        self.assertEqual([name for name, about in tree(self.job).items() if here.get(name) != about], [],
                         "the directory of somebody else has changed")
        if whole:  # they have read what they could, and replay has looked for names
            self.assertEqual(said["report",].returncode, 0, said["report",].stderr)
            self.assertIn("work()", said["replay",].stdout, said["replay",].stderr)

    def test_links_to_files(self):
        self.link_files()
        self.give()
        self.assert_untouched()

    def test_links_to_directories(self):
        self.link_folders()
        self.give()
        self.assert_untouched()

    def test_no_link(self):
        """Nothing is made in a directory of somebody else, even where scry could."""
        os.mkdir(os.path.join(self.job, "stats"))
        self.give()
        self.assert_untouched()

    def test_own_that_others_can_write_to(self):
        """Here the reader is who the directory belongs to, but not the only one who can put links there."""
        self.link_files()
        self.give(0)
        for folder in ("", "stats"):
            os.chmod(os.path.join(self.job, folder), 0o777)
        self.assert_untouched()

    @scrytest.thorough
    def test_own_with_links(self):
        """Somebody else's, out of an archive: all of it belongs to the reader now."""
        for link in (self.link_files, self.link_folders):
            with self.subTest(link.__name__):
                link()
                self.give(0)
                before = tree(self.victim)
                self.read_all()
                after = tree(self.victim)
                self.assertEqual([name for name in set(before) | set(after) if before.get(name) != after.get(name)], [])
                shutil.rmtree(self.job)
                shutil.rmtree(self.victim)
                os.mkdir(self.victim, 0o755)
                shutil.copytree(self.box.path("work", "other"), self.job)

    def test_own(self):
        """In a directory that is the reader's alone, names are kept: a program that is gone later has them."""
        self.scry("replay", self.job)
        with open(os.path.join(self.job, "stats", "sites.json"), encoding="utf-8") as file:
            self.assertIn("traced.c", file.read())

    def test_names_are_kept_by_the_reader(self):
        """Of somebody else's job, and of one's own that others can write to, names are kept in the reader's cache, and read from there."""
        cache = self.box.path("home", ".cache", "scry", "names")
        for uid, mode in ((ATTACKER, 0o755), (0, 0o777)):
            with self.subTest(uid=uid):
                self.give(uid)
                os.chmod(self.job, mode)
                before = tree(self.job)
                self.assertIn("traced.c", self.scry("replay", self.job).stdout)
                kept, = os.listdir(cache)
                with open(os.path.join(cache, kept), "r+", encoding="utf-8") as file:
                    text = file.read()
                    self.assertIn("traced.c", text)
                    file.seek(0)
                    file.write(text.replace("traced.c", "cached.c"))
                self.assertIn("cached.c", self.scry("replay", os.path.relpath(self.job, self.box.path("work"))).stdout)
                self.assertEqual(tree(self.job), before)
            shutil.rmtree(cache, ignore_errors=True)

    def names(self):
        """Of every file that is in a job's directory, or may be."""
        return sorted({*files(self.job), *ALSO, "spool/records.jsonl", "control", "keys.json", "report.json"})

    def link_each(self, what):
        """Each name becomes a link to something outside: a file of the same content, a directory, or a pipe. (Where job.json is one
        of the latter, there is no job to be read: so it stays.)"""
        for name in self.names():
            if name == "job.json" and what != "file":
                continue
            path, there = os.path.join(self.job, name), os.path.join(self.victim, name.replace("/", "+"))
            if os.path.exists(path) and what == "file":
                shutil.move(path, there)
            elif os.path.exists(path):
                os.unlink(path)
            if what == "directory":
                os.mkdir(there)
            elif what == "pipe":
                os.mkfifo(there)
            elif not os.path.exists(there):
                with open(there, "w", encoding="ascii") as file:
                    file.write("{}" if name.endswith(".json") else "dear\n")
            self.link(name, there)

    def commands(self, url, job):
        """Everything that is given a job's directory, but scry serve."""
        out = self.box.path("tmp", "out")
        for words in (("report",), ("report", "--json"), ("why",), ("why", "--json"), ("replay",), ("replay", "--json"), ("watch", "--json"),
                      ("top", "--once"), ("top", "--once", "--json"), ("snapshot",), ("snapshot", "--json"), ("set",),
                      ("stop",), ("stop", "--kill"), ("publish", "--broker", url), ("rm", "--dry-run"), ("ps",),
                      ("doctor", "--job"), ("task", "show"), ("task", "cancel"), ("record", "--record", self.box.path("tmp", "store"), "--import"),
                      *(("export", "-f", name, "-o", out) for name in FORMATS)):
            yield *words, job
        other = self.box.path("work", "other")
        yield "diff", job, other
        yield "diff", "--json", other, job
        yield "set", job, "trace=all"
        yield "run", "-q", "-o", job, "true"

    def run_each(self, url, running):
        """Every command ends soon, by itself, and has changed nothing of the victim's."""
        before = tree(self.victim)
        for words in self.commands(url, self.job):
            if running and words[0] in ("watch", "publish"):  # they follow a job that runs
                continue
            try:
                done = self.box.run(self.box.scry(*words), timeout=scrytest.room(SECONDS) / scrytest.SCALE)
            except subprocess.TimeoutExpired:
                self.fail(f"scry {' '.join(words)} does not come to an end")
            self.assertGreaterEqual(done.returncode, 0, f"scry {' '.join(words)}: {done.stderr}")
            after = tree(self.victim)
            self.assertEqual([name for name in {*before, *after} if before.get(name) != after.get(name)], [], f"scry {' '.join(words)}")
        server = servetest.Server(self.box, "--jobs", os.path.dirname(self.job))
        server.log_in()
        for name in ("", "/report", "/why", "/files", "/files.tar", "/picture", *["/records"] * (not running)):
            server.ask(f"api/jobs/{ID}{name}")
        for path, body in (("set", {"trace": "all"}), ("signal", {"signal": "TERM"})):
            server.ask(f"api/jobs/{ID}/{path}", "POST", body)
        server.end()
        done = self.box.run(self.box.scry("rm", "--force", self.job), timeout=scrytest.room(SECONDS) / scrytest.SCALE)
        self.assertGreaterEqual(done.returncode, 0, done.stderr)
        after = tree(self.victim)
        self.assertEqual([name for name in {*before, *after} if before.get(name) != after.get(name)], [], "scry serve, scry rm")

    def test_each_command(self):
        """Every name is a link, to files, directories and pipes; and of one that says it runs, as a process of the reader's."""
        living = self.start_run("-q", "--", "sleep", "600")
        names = scrytest.wait_until(lambda: [name for name in os.listdir(self.box.path("jobs")) if name != ID and
                                             os.path.exists(self.box.path("jobs", name, "job.json"))], message="the job begins")
        with open(self.box.path("jobs", names[0], "job.json"), encoding="utf-8") as file:
            runs = {**json.load(file), "id": ID}
        with brokertest.Mosquitto(self.box) as broker:
            for what, running in (("file", False), ("directory", False), ("pipe", False), ("file", True)):
                with self.subTest(what, running=running):
                    if running:
                        with open(os.path.join(self.job, "job.json"), "w", encoding="utf-8") as file:
                            json.dump(runs, file)
                    self.link_each(what)
                    self.give()
                    self.run_each(broker.url, running)
                    self.assertIsNone(living.poll(), "the reader's own job has ended")
                shutil.rmtree(self.job, ignore_errors=True)
                shutil.rmtree(self.victim)
                os.mkdir(self.victim, 0o755)
                shutil.copytree(self.box.path("work", "other"), self.job)

    def refused(self, path, said):
        before = tree(path)
        done = self.scry_run("-q", "-o", path, "true")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertRegex(done.stderr, said)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertEqual(tree(path), before)

    def test_record_there(self):
        """-o: an empty directory of another user is refused; one's own to which others may write is closed to them."""
        path = self.box.path("work", "theirs")
        os.mkdir(path, 0o700)
        os.chown(path, ATTACKER, ATTACKER)
        self.refused(path, f"theirs belongs to user {ATTACKER}, not to you: name another job directory")
        os.chown(path, 0, 0)
        os.chmod(path, 0o770)
        self.assertEqual(self.scry_run("-q", "-o", path, "true").returncode, 0)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o750)

    def test_export(self):
        """Another's link in the place of the output, or of a file beside it, is not followed."""
        shared, dear = self.box.path("work", "shared"), self.box.path("work", "dear")
        with open(dear, "w", encoding="ascii") as file:
            file.write("dear")
        os.mkdir(shared)
        os.chmod(shared, 0o777)
        for name in ("out", "out.part"):
            os.symlink(dear, os.path.join(shared, name))
            os.chown(os.path.join(shared, name), ATTACKER, ATTACKER, follow_symlinks=False)
        self.scry("export", "-f", "folded", "-o", os.path.join(shared, "out"), self.job)
        with open(dear, encoding="ascii") as file:
            self.assertEqual(file.read(), "dear")
        with open(os.path.join(shared, "out"), encoding="utf-8") as file:
            self.assertIn("leaf", file.read())
        self.assertFalse(os.path.islink(os.path.join(shared, "out")))
        self.assertEqual(sorted(os.listdir(shared)), ["out", "out.part"])


scrytest.main()
