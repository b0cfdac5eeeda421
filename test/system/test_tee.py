# SPDX-License-Identifier: Apache-2.0
"""scry run --tee: what a job writes to pipes is passed on, kept, and looked through; the job does not notice."""
import os
import signal
import subprocess
import termios

import scrytest
from jobtest import JobCase

SAID = "ERROR: no such mesh"


class Tee(JobCase):
    def tee(self, text, **options):
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        return self.start_run("--tee", "--profile", "0", "--", "sh", "-c", text, **options)

    def kept(self, stream):
        path = os.path.join(self.job_directory(), "output", stream + ".0000000000000000")
        with open(path, encoding="utf-8") as file:
            return file.read()

    def job_directory(self):
        return self.report()["path"]

    def test_reason(self):
        job = self.tee(f'echo "{SAID}" >&2; exit 3', stderr=subprocess.STDOUT)
        said = job.communicate()[0]
        self.assertEqual(job.returncode, 3)
        self.assertRegex(said, rf"(?s)^scry: job \S+\n{SAID}\nscry: job \S+ ended: .*reason .*{SAID}")
        self.assertNotIn("not read", said)
        self.assertEqual(self.kept("output"), SAID + "\n")

    def test_order_and_streams(self):
        job = self.tee("for i in 1 2 3; do echo out $i; echo error $i >&2; done")
        out, error = job.communicate()
        self.assertEqual((out, job.returncode), ("out 1\nout 2\nout 3\n", 0))
        self.assertIn("error 1\nerror 2\nerror 3\nscry: job", error)
        self.assertEqual((self.kept("stdout"), self.kept("stderr")), (out, "error 1\nerror 2\nerror 3\n"))

    def test_reader_goes(self):
        job = self.tee("exec yes", stderr=subprocess.DEVNULL)
        self.assertEqual(job.stdout.readline(), "y\n")
        job.stdout.close()
        self.assertEqual(job.wait(), 128 + signal.SIGPIPE)

    def test_outlives(self):
        """What goes on after the command, and after scry run, still has its output."""
        fifo = self.box.path("work", "fifo")
        os.mkfifo(fifo)
        job = self.tee(f"(read go <{fifo}; echo late) & echo early; exit 4", stderr=subprocess.DEVNULL)
        self.assertEqual(job.stdout.readline(), "early\n")
        self.assertEqual(job.wait(), 4)
        with open(fifo, "w", encoding="ascii") as go:
            go.write("on\n")
        self.assertEqual(job.stdout.read(), "late\n")
        job.stdout.close()

    def test_file_is_left(self):
        """It is read where it is; a terminal for standard error alone is replaced by one of the same size."""
        master, slave = os.openpty()
        termios.tcsetwinsize(slave, (33, 77))
        path = self.box.path("work", "out.txt")
        with open(path, "w", encoding="utf-8") as out:
            job = self.tee(f"test -t 2 && test -f /dev/stdout && stty size <&2 && echo '{SAID}' >&2; exit 3", stdout=out, stderr=slave)
            os.close(slave)
            shown = b""
            while b"reason" not in shown:
                shown += os.read(master, 4096)
            self.assertEqual(job.wait(), 3)
        os.close(master)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "33 77\n")
        self.assertRegex(shown, rb"(?s)\n" + SAID.encode() + rb"\r\n.*reason.*" + SAID.encode())
        self.assertFalse(os.path.exists(os.path.join(self.job_directory(), "output", "stdout.0000000000000000")))
        self.assertEqual(self.kept("stderr"), SAID + "\n")

    def test_terminals_that_are_left(self):
        """Standard output is one, and nobody would know whom its keys are for: that is said."""
        master, slave = os.openpty()
        job = self.tee("test -t 1", stdout=slave, stderr=slave, stdin=subprocess.PIPE)
        os.close(slave)
        job.stdin.close()
        self.assertEqual(job.wait(), 0)
        os.close(master)
        said = [note["text"] for note in self.report()["warnings"]]
        self.assertEqual(len([text for text in said if "is not kept by --tee: it is a terminal" in text]), 2, said)


if __name__ == "__main__":
    scrytest.main()
