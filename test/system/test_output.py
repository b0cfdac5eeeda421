# SPDX-License-Identifier: Apache-2.0
"""`scry logs`: what a job printed, of files and as a relay keeps it, while it runs and afterwards."""

import json
import os
import pty
import signal
import subprocess

import schematest
import scrytest
from jobtest import JobCase
from scrytest import wait_until


class Logs(JobCase):
    def run_into(self, out, err, script, *options, mode="w"):
        """A job whose streams go to files of the box; err None: to the same one."""
        with open(self.box.path("work", out), mode, encoding="utf-8") as stdout:
            with open(self.box.path("work", err) if err else os.devnull, mode, encoding="utf-8") as stderr:
                return self.box.start(self.box.scry("run", *options, "--", "sh", "-c", script), stdout=stdout,
                                      stderr=stderr if err else stdout).wait()

    def start_into(self, out, script, *options):
        """Starts one that reads lines from the fifo `go`, and returns it with the file; its job is known."""
        os.mkfifo(self.box.path("work", "go"))
        with open(self.box.path("work", out), "w", encoding="utf-8") as file:
            run = self.box.start(self.box.scry("run", "-q", *options, "--", "sh", "-c", script), stdout=file, stderr=file)
        wait_until(lambda: os.path.getsize(self.box.path("work", out)))
        return run

    def go(self):
        with open(self.box.path("work", "go"), "w", encoding="ascii") as file:
            file.write("go\n")

    def logs(self, *arguments, **options):
        return self.scry("logs", *arguments, "@last", **options)

    def follow(self, *arguments):
        return self.box.start(self.box.scry("logs", "-f", *arguments, "@last"), stderr=subprocess.PIPE)

    def keep(self, files, job="kept"):
        """The directory of a job that has ended, with output as a relay keeps it: {name: text}."""
        path = self.box.path("jobs", job)
        self.scry_run("-q", "-o", path, "true")
        os.mkdir(os.path.join(path, "output"))
        for name, text in files.items():
            with open(os.path.join(path, "output", name), "wb") as file:
                file.write(text)
        return path

    def test_files(self):
        """Of files only what is the job's: not what was there before, and not what scry says itself."""
        out = self.box.path("work", "out")
        with open(out, "w", encoding="ascii") as file:
            file.write("before\n")
        self.run_into("out", "err", "echo one; echo wrong >&2; printf 'two\\0\\r\\n\\033[31mthree'", mode="a")
        with open(out, "a", encoding="ascii") as file:
            file.write("after\n")
        raw = self.box.start(self.box.scry("logs", "@last"), text=False)
        self.assertEqual(raw.communicate()[0], b"one\ntwo\0\r\n\033[31mthreewrong\n")
        self.assertEqual((self.logs("--stderr").stdout, self.logs("--stdout", "--last", "1").stdout), ("wrong\n", "\033[31mthree"))
        self.assertEqual(self.logs("--grep", "^(two|wr)", "-n", "1").stdout, "wrong\n")
        self.assertEqual(self.logs("--grep", "(", status=2).stderr.split(":")[:2], ["scry logs", " --grep"])
        lines = [json.loads(line) for line in self.logs("--json").stdout.splitlines()]
        self.assertEqual([(line["stream"], line["text"], line.get("cut", False)) for line in lines],
                         [("stdout", "one", False), ("stdout", "two\\x00", False), ("stdout", "\033[31mthree", True), ("stderr", "wrong", False)])
        for line in lines:
            self.assertEqual(list(schematest.violations(line, schematest.schema("logs"))), [], line)
        self.assertIn("have no times", self.logs("--since", "10m", status=1).stderr)
        self.assertEqual(self.at_a_terminal(), f"==> {out} <==\none\ntwo\\x00\nthree\n==> {self.box.path('work', 'err')} <==\nwrong\n")

    def at_a_terminal(self, *arguments):
        main, side = pty.openpty()
        process = self.box.start(self.box.scry("logs", *arguments, "@last"), stdout=side, stderr=side, env={"TERM": "xterm", "NO_COLOR": "1"})
        os.close(side)
        text = b""
        while True:
            try:
                text += os.read(main, 65536)
            except OSError:
                break
        os.close(main)
        self.assertEqual(process.wait(), 0)
        return text.decode().replace("\r\n", "\n")

    def test_one_file(self):
        self.run_into("all", None, "echo one; echo two >&2", "-q")
        self.assertEqual(self.logs().stdout, "one\ntwo\n")
        both = self.logs("--stderr")
        self.assertEqual(both.stdout, "one\ntwo\n")
        self.assertIn("went to one file", both.stderr)

    def test_what_became_of_the_file(self):
        """It is renamed, cut, replaced, gone; each is one line, and an exit status where nothing is left."""
        path = self.box.path("work", "all")
        self.run_into("all", None, "echo one; echo two", "-q")
        os.rename(path, path + ".1")
        done = self.logs()
        self.assertEqual((done.stdout, done.stderr), ("one\ntwo\n", f"scry logs: warning: {path} was renamed to all.1\n"))
        os.rename(path + ".1", path)
        os.truncate(path, 4)
        done = self.logs()
        self.assertEqual(done.stdout, "one\n")
        self.assertRegex(done.stderr, r"\A[^\n]*cut short: 4 of the 8 bytes[^\n]*\n\Z")
        os.rename(path, self.box.path("tmp", "elsewhere"))
        with open(path, "w", encoding="ascii") as file:
            file.write("secret of another\n")
        done = self.logs(status=1)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"\A[^\n]* is another file by now\n\Z")
        os.unlink(path)
        os.symlink(self.box.path("tmp", "elsewhere"), path)
        self.assertNotEqual(self.logs(status=1).stderr, "")
        os.unlink(path)
        self.assertRegex(self.logs(status=1).stderr, r"\A[^\n]*, which is gone\n\Z")

    def test_mirror(self):
        """Of a job that came from elsewhere no file here is opened, whatever it names."""
        self.run_into("all", None, "echo one", "-q")
        job = json.loads(self.scry("ps", "--json").stdout)["jobs"][0]["path"]
        with open(os.path.join(job, "remote.json"), "w", encoding="ascii") as file:
            json.dump({"format": "scry-remote", "version": 1, "connected": False, "state": "ended"}, file)
        done = self.logs(status=1)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"\A[^\n]*unsupported: [^\n]* is in \S*/all on [^\n]*\n\Z")
        self.assertIn("unsupported: ", self.logs("--rank", "0", status=1).stderr)

    def test_nothing_is_kept(self):
        self.scry_run("-q", "true")
        done = self.logs(status=1)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"\A[^\n]*standard output and standard error went to a pipe[^\n]*--tee[^\n]*\n\Z")
        self.run_into("out", "err", "echo x", "-q")
        self.assertEqual(self.logs("--stderr").stdout, "")
        self.scry("logs", "nothing", status=1)
        self.assertIn("expected", self.logs("--since", "soon", status=2).stderr)

    def test_kept(self):
        """By their times, with a gap where something was thrown away."""
        self.keep({"stdout.0000000000000000": b"one\nfour\nfi", "stdout.0000000000200000": b"ve\nsix\n",
                   "stdout.times": b"0 1000.000\n4 1003.000\n9 1004.500\n200003 2000.000\n",
                   "stderr.0000000000000000": b"two\nthree\n", "stderr.times": b"0 1001.000\n4 1002.250\n"})
        done = self.logs()
        self.assertEqual(done.stdout, "one\ntwo\nthree\nfour\nfive\nsix\n")
        self.assertEqual(done.stderr, "... 2.0 MB of stdout are not kept ...\n")
        self.assertEqual(self.at_a_terminal(), "one\ntwo\nthree\nfour\nfi\n... 2.0 MB of stdout are not kept ...\nve\nsix\n")
        lines = [json.loads(line) for line in self.logs("--json").stdout.splitlines()]
        self.assertEqual([(line["time"], line["text"], line.get("missing_bytes")) for line in lines],
                         [(1000, "one", None), (1001, "two", None), (1002.25, "three", None), (1003, "four", None), (1004.5, "fi", None),
                          (1004.5, None, (2 << 20) - 11), (1004.5, "ve", None), (2000, "six", None)])
        for line in lines:
            self.assertEqual(list(schematest.violations(line, schematest.schema("logs"))), [], line)
        self.assertEqual(self.logs("--since", "1970-01-01T00:16:42Z").stdout, "three\nfour\nfive\nsix\n")
        self.assertEqual(self.logs("--since", "1m").stdout, "")
        self.assertEqual(self.logs("--since", "1970-01-01", "--stderr", "--grep", "t").stdout, "two\nthree\n")
        self.assertEqual(self.logs("-n", "2").stdout, "ve\nsix\n")
        self.assertEqual(self.logs("-n", "0").stdout, "")
        self.assertEqual(self.logs("-f", "-n", "1").stdout, "six\n")

    def test_kept_empty(self):
        self.keep({})
        self.assertEqual((self.logs().stdout, self.logs().stderr), ("", ""))

    def test_follows_a_file(self):
        """To the end of the job, and no further: what scry says then is not the job's. Also when it is renamed meanwhile."""
        path = self.box.path("work", "all")
        os.mkfifo(self.box.path("work", "go"))
        with open(path, "w", encoding="utf-8") as file:
            run = self.box.start(self.box.scry("run", "--", "sh", "-c", "echo one; read x <go; echo two; exit 3"), stdout=file, stderr=file)
        wait_until(lambda: "one" in open(path, encoding="ascii").read())
        os.rename(path, self.box.path("tmp", "elsewhere"))
        follow = self.follow()
        self.assertEqual(follow.stdout.readline(), "one\n")
        self.assertEqual(self.logs().stdout, "one\n")
        self.go()
        self.assertEqual(follow.stdout.read(), "two\n")
        self.assertEqual((run.wait(), follow.wait()), (3, 0))
        with open(self.box.path("tmp", "elsewhere"), encoding="utf-8") as file:
            self.assertIn("ended: exit status 3", file.read())

    def test_follows_what_is_kept(self):
        """Segments that come and go, a line that comes in two pieces, a stream that begins late; then the job ends."""
        run = self.start_into("all", "echo x; read x <go")
        job = json.loads(self.scry("ps", "--json").stdout)["jobs"][0]["path"]
        output = os.path.join(job, "output")
        os.mkdir(output)

        def write(name, text):
            with open(os.path.join(output, name), "a", encoding="ascii") as file:
                file.write(text)

        write("stdout.0000000000000000", "one\ntw")
        follow = self.follow("--stdout")
        self.assertEqual(follow.stdout.readline(), "one\n")
        write("stdout.0000000000000000", "o\n")
        self.assertEqual(follow.stdout.readline(), "two\n")
        write("stdout.0000000000000008", "three\n")
        self.assertEqual(follow.stdout.readline(), "three\n")
        both = self.follow()
        self.assertEqual([both.stdout.readline() for _ in range(3)], ["one\n", "two\n", "three\n"])
        write("stderr.0000000000000000", "late\n")
        self.assertEqual(both.stdout.readline(), "late\n")
        os.unlink(os.path.join(output, "stdout.0000000000000008"))
        write("stdout.0000000000000100", "end")
        self.go()
        self.assertEqual((follow.stdout.read(), both.stdout.read()), ("end", "end"))
        self.assertEqual((run.wait(), follow.wait(), both.wait()), (0, 0, 0))
        self.assertIn("242 B of stdout are not kept", follow.stderr.read())

    def test_scry_run_is_killed(self):
        """The job goes on unwatched: so does who follows it, to its end."""
        run = self.start_into("all", "echo $$; read x <go; echo two")
        follow = self.follow()
        command = int(follow.stdout.readline())
        run.send_signal(signal.SIGKILL)
        run.wait()
        self.go()
        self.assertEqual((follow.stdout.read(), follow.wait()), ("two\n", 0))
        wait_until(lambda: scrytest.process_gone(command))
        self.assertIn("was killed", follow.stderr.read())
        self.assertEqual(self.logs().stdout, f"{command}\ntwo\n")

    def test_reader_goes(self):
        run = self.start_into("all", "echo x; read x <go")
        follow = self.follow()
        follow.stdout.readline()
        follow.stdout.close()
        follow.wait()
        self.go()
        self.assertEqual(run.wait(), 0)

    def test_long_lines(self):
        """A line of megabytes is shown whole; the last lines of a large file are found from its end."""
        self.run_into("all", None, "seq 1 100000; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end", "-q")
        with open(self.box.path("work", "all"), encoding="ascii") as file:
            text = file.read()
        self.assertEqual(self.logs().stdout, text)
        lines = text.splitlines(True)
        for count in (1, 2, 3, 50000):
            self.assertEqual(self.logs("-n", str(count)).stdout, "".join(lines[-count:]))
        self.assertEqual(self.logs("--grep", "^x", "-n", "1").stdout, lines[-2])

    def test_named_by_others(self):
        """Who makes up a job may name what is no file, or patterns that lead everywhere: neither is opened."""
        fifo, path = self.box.path("tmp", "fifo"), self.box.path("jobs", "forged")
        self.run_into("all", None, "echo one", "-q", "-o", path)
        os.mkfifo(fifo)
        with open(os.path.join(path, "job.json"), encoding="utf-8") as file:
            info = json.load(file)
        info["outputs"][0]["path"] = info["outputs"][1]["path"] = fifo
        info["argv"] = ["srun", "-o", "/%x/%x/o.%t", "true"]
        with open(os.path.join(path, "job.json"), "w", encoding="utf-8") as file:
            json.dump(info, file)
        writer = self.box.start(["sh", "-c", 'echo blocked >"$0"', fifo])
        self.scry("logs", path, status=1)
        self.assertRegex(self.scry("logs", "--rank", "0", path, status=1).stderr, "unsupported")
        self.assertIsNone(writer.poll())  # nobody has opened its FIFO to read
        with open(fifo, encoding="ascii") as file:
            self.assertEqual(file.read(), "blocked\n")
        writer.wait()

    def test_ranks(self):
        """The files that launchers write for each rank, by the command line of the launcher."""
        for name in ("mpirun.openmpi", "srun"):
            self.script("#!/bin/sh\n", name)
            os.chmod(self.box.path("work", name), 0o700)
        for path, text in (("o{ut/1/rank.03/stdout", "three\n"), ("o{ut/1/rank.03/stderr", "wrong\n"), ("o{ut/1/rank.13/stdout", "13\n"),
                           ("s-7.003", "of slurm\n")):
            path = self.box.path("work", path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
        self.scry_run("-q", "./mpirun.openmpi", "-n", "20", "--output-filename", "o{ut", "true")
        self.assertEqual(self.logs("--rank", "3").stdout, "three\nwrong\n")
        self.assertEqual(self.logs("--rank", "13").stdout, "13\n")
        self.assertRegex(self.logs("--rank", "4", status=1).stderr, r"\A[^\n]*unsupported: no file of rank 4[^\n]*\n\Z")
        self.scry_run("-q", "sh", "-c", "./srun -o s-%j.%3t true; true")
        self.assertEqual(self.logs("--rank", "3").stdout, "of slurm\n")
        self.run_into("all", None, "echo", "-q")
        self.assertIn("unsupported", self.logs("--rank", "0", status=1).stderr)


scrytest.main()
