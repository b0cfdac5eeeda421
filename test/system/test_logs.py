# SPDX-License-Identifier: Apache-2.0
"""What programs write to files: `scry run --log`, and the built-in patterns for standard error and standard output."""

import contextlib
import glob
import json
import os
import re
import signal
import subprocess
import sys

import schematest
import scrytest
from jobtest import JobCase
from scrytest import wait_until

STEPS = r"out.log=step (?<n>\d+) of (?<total>\d+):info"


class Logs(JobCase):
    def setUp(self):
        super().setUp()
        self.work = self.box.path("work")
        os.makedirs(self.work, exist_ok=True)

    def run_job(self, script, *options, streams=">job.out 2>job.err"):
        """Runs a script in the working directory; its streams are files unless others are given."""
        return self.box.run(["sh", "-c", f'exec "$0" "$@" {streams}', *self.box.scry("run", "-q", *options, "--", "sh", "-c", script)],
                            cwd=self.work)

    def spool(self):
        """Of the job that runs, as it is by now."""
        jobs = json.loads(self.scry("ps", "--json").stdout)["jobs"]
        path = jobs and os.path.join(jobs[0]["path"], "spool", "records.jsonl")
        if not path or not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8") as file:
            return file.read()

    def wait_until_found(self, name):
        """Until the observer reads the file."""
        path = os.path.realpath(os.path.join(self.work, name))
        def holders():
            found = set()
            for link in glob.glob("/proc/[0-9]*/fd/*"):
                with contextlib.suppress(OSError):
                    if os.readlink(link) == path:
                        with open(link.replace("/fd/", "/fdinfo/"), encoding="ascii") as file:
                            found.add(int(re.search(r"flags:\s+(\d+)", file.read())[1], 8) & os.O_ACCMODE)
            return found
        wait_until(lambda: os.O_RDONLY in holders())

    def notes(self):
        return [record["note"] for record in self.records("warning") if record["note"].startswith("log_")]

    def write(self, name, text):
        with open(os.path.join(self.work, name), "a", encoding="utf-8") as file:
            file.write(text)

    def test_lines_and_progress(self):
        self.write("out.log", "step 7 of 3\n")  # before the job
        self.run_job("echo 'step 1 of 3' >>out.log; mv out.log out.old; echo 'step 2 of 3' >>out.log; "
                     "printf 'step 3 of 3' >>out.log", "--log", STEPS)
        lines = self.records("log")
        self.assertEqual([(line["text"], line["level"], line["fields"]["n"]) for line in lines],
                         [(f"step {n} of 3", "info", str(n)) for n in (1, 2, 3)])
        self.assertEqual([line["line"] for line in lines], [None, 1, 2])
        self.assertEqual((self.records("progress")[-1]["done"], self.records("progress")[-1]["total"]), (3, 3))
        self.assertRegex(self.scry("ps", "--all").stdout, r"(?m)^JOB .* PROGRESS +COMMAND\n.* 100 %  sh ")
        self.assertEqual([(file["file"], file["state"]) for file in self.records("log_file")],
                         [("out.log", "watched"), ("stderr", "watched"), ("stdout", "watched"), ("out.log", "rotated")])
        schema = schematest.schema("records")
        for record in self.records("log", "log_file", "progress"):
            self.assertEqual(list(schematest.violations(record, schema)), [], record)

    def test_built_in_patterns(self):
        """Of both streams; of a file without an expression; none that is left out."""
        script = "echo Bus error; echo Bus error >&2; echo 'x: Permission denied' >&2; echo Killed >>own.log"
        self.run_job(script, "--log", "own.log", "--log-patterns", "!permission_denied")
        # of files that are written at once either may be read first
        self.assertEqual(sorted((line["file"], line["pattern"], line["level"]) for line in self.records("log")),
                         [("own.log", "killed", "error"), ("stderr", "bus_error", "error"), ("stdout", "bus_error", "error")])
        self.run_job(script, "--log-patterns", "off")
        self.assertEqual(self.records("log", "log_file"), [])

    def test_streams_are_one_file(self):
        """As in most batch jobs: it is read once."""
        self.run_job("echo Bus error >&2; echo 3 >&1", "--log", "stdout=^\\d$", streams=">>job.out 2>&1")
        self.assertEqual([(line["file"], line["text"]) for line in self.records("log")],
                         [("stdout", "Bus error"), ("stdout", "3")])

    def test_redirected_by_the_job(self):
        """A script that sends its own streams elsewhere, while it runs."""
        os.mkfifo(os.path.join(self.work, "go"))
        run = self.box.start(["sh", "-c", 'exec "$0" "$@" 2>job.err', *self.box.scry(
            "run", "-q", "--", "sh", "-c", "echo Bus error >&2; exec 2>new.err; echo Bus error >&2; read line <go; echo Segmentation fault >&2")],
                             cwd=self.work)
        wait_until(lambda: '"new.err"' in self.spool())
        self.write("go", "go\n")
        self.assertEqual(run.wait(), 0)
        self.assertEqual([(line["pattern"], line["line"]) for line in self.records("log")], [("bus_error", 1), ("bus_error", 1), ("segfault", 2)])

    def test_redirected_for_a_command(self):
        """What a script sends to a file of its own is read, too, and says why."""
        os.mkfifo(os.path.join(self.work, "go"))
        self.write("solver", "#!/bin/sh\necho 'ERROR: mesh is empty'; read line <go; exit 3\n")
        run = self.box.start(["sh", "-c", 'exec "$0" "$@" >job.out 2>job.err', *self.box.scry(
            "run", "-q", "--", "sh", "-c", "sh solver >solver.log 2>&1; exit $?")], cwd=self.work)
        wait_until(lambda: "mesh is empty" in self.spool())
        self.write("go", "go\n")
        self.assertEqual(run.wait(), 3)
        reason = self.report()["last"]["reason"]
        self.assertEqual((reason["fields"]["file"], reason["fields"]["text"]), ("solver.log", "ERROR: mesh is empty"))

    def test_output_for_a_command(self):
        """What a script sends to a file of the output alone may be data, unless that command fails."""
        os.mkfifo(os.path.join(self.work, "go"))
        self.write("solver", "#!/bin/sh\necho 'ERROR: mesh is empty'; read line <go; exit $1\n")
        for status, reason in ((3, "probably what solver.log says: ERROR: mesh is empty"), (0, None)):
            run = self.box.start(["sh", "-c", 'exec "$0" "$@" >job.out 2>job.err', *self.box.scry(
                "run", "-q", "--", "sh", "-c", f"sh solver {status} >solver.log; exit {status}")], cwd=self.work)
            self.wait_until_found("solver.log")
            self.write("go", "go\n")
            self.assertEqual(run.wait(), status)
            last = self.report()["last"]
            self.assertEqual(last and last["reason"]["text"], reason)
            self.assertEqual([line["text"] for line in self.records("log")], ["ERROR: mesh is empty"] if reason else [])

    def test_data_of_a_shell(self):
        """What a script itself wrote to a file is nothing that a command said that fails later."""
        for name in ("1", "2", "go"):
            os.mkfifo(os.path.join(self.work, name))
        self.write("steps.sh", "for each in 1 2; do echo $each,store; read line <$each; done >data.csv\nsh -c 'read line <go; exit 3' >step.csv\nexit $?\n")
        run = self.box.start(self.box.scry("run", "-q", "--", "sh", "steps.sh"), cwd=self.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.wait_until_found("data.csv")
        for name in ("1", "2"):
            self.write(name, "\n")
        self.wait_until_found("step.csv")
        self.write("go", "\n")
        _, said = run.communicate()
        self.assertEqual(run.returncode, 3, said)
        last = self.report()["last"]
        self.assertEqual((last["said_last"], self.records("log_last"), self.notes()), ([], [], []))
        self.assertNotIn("store", json.dumps(last))

    def test_progress_of_a_command(self):
        """How far the job is, as a program says whose output its script sends to a file; the line that is not whole yet says nothing."""
        os.mkfifo(os.path.join(self.work, "go"))
        self.write("solver", "#!/bin/sh\necho step 3/100; printf 'step 4/10'; read line <go\n")
        run = self.box.start(["sh", "-c", 'exec "$0" "$@" >job.out 2>job.err', *self.box.scry(
            "run", "-q", "--", "sh", "-c", "sh solver >solver.log; exit $?")], cwd=self.work)
        wait_until(lambda: '"type":"progress"' in self.spool())
        self.write("go", "go\n")
        self.assertEqual(run.wait(), 0)
        self.assertEqual({(line["source"], line["done"], line["total"]) for line in self.records("progress")}, {("solver.log", 3, 100)})

    def test_log_of_a_program(self):
        """What a program that fails wrote last into a log that it has opened itself is why, if it has said nothing else."""
        os.mkfifo(os.path.join(self.work, "go"))
        said = "ERROR: negative density in cell 4711"
        self.write("solve.py", "import sys\nlog = open('solver.log', 'w')\n"
                   f"log.write('step 1\\n' + sys.argv[2] + '\\n')\nlog.flush()\nopen('go').read()\n"
                   "sys.stderr.write(sys.argv[3])\nsys.exit(int(sys.argv[1]))\n")
        for status, line, error, reason in ((3, said, "", "probably what solver.log says: " + said),
                                            (3, said, "ERROR: no mesh\n", "probably what stderr says: ERROR: no mesh"),
                                            (3, "step 2", "", None), (0, said, "", None)):
            run = self.box.start(["sh", "-c", 'exec "$0" "$@" >job.out 2>job.err', *self.box.scry(
                "run", "-q", "--sample", "0.1", "--", sys.executable, "solve.py", str(status), line, error)], cwd=self.work)
            self.wait_until_found("solver.log")
            self.write("go", "go\n")
            self.assertEqual(run.wait(), status)
            last = self.report()["last"]
            self.assertEqual(last and last["reason"]["note"] != "cause_unknown" and last["reason"]["text"] or None, reason)
            self.assertNotIn("trouble", self.scry("report", "@last").stdout)

    def test_own_words(self):
        """What a script sent to a file for a command that failed is what that said, whatever the script says then."""
        os.mkfifo(os.path.join(self.work, "go"))
        self.write("solver", "#!/bin/sh\necho 'residual 1e9 at step 17'; read line <go; exit 3\n")
        run = self.box.start(["sh", "-c", 'exec "$0" "$@" >job.out 2>job.err', *self.box.scry(
            "run", "-q", "--", "sh", "-c", "sh solver >solver.log 2>&1 || echo see solver.log; exit 3")], cwd=self.work)
        self.wait_until_found("solver.log")
        self.write("go", "go\n")
        self.assertEqual(run.wait(), 3)
        self.assertRegex(self.report()["last"]["reason"]["text"], r"^probably sh \(pid \d+\), which ended with exit status 3.*; it said: residual 1e9 at step 17$")

    def test_own_words_while_another_runs(self):
        """So is what a command said that has started something since, which writes to the same file."""
        os.mkfifo(os.path.join(self.work, "go"))
        self.write("solver", "#!/bin/sh\necho 'residual 1e9 at step 17'; sh -c 'read line <go'; exit 3\n")
        run = self.box.start(["sh", "-c", 'exec "$0" "$@" >job.out 2>job.err', *self.box.scry(
            "run", "-q", "--", "sh", "-c", "sh solver >solver.log 2>&1 || echo see solver.log; exit 3")], cwd=self.work)
        wait_until(lambda: "read line <go" in self.spool())
        self.write("go", "go\n")
        self.assertEqual(run.wait(), 3)
        self.assertRegex(self.report()["last"]["reason"]["text"], r"^probably sh \(pid \d+\), which ended with exit status 3.*; it said: residual 1e9 at step 17$")

    def test_words_behind_a_pipe(self):
        """What a pipeline writes to a file is what the stage said that failed, however short it was; not what it was made into."""
        self.write("solver", "#!/bin/sh\necho residual 9\necho 'no convergence in block 7'\nexit 3\n")
        for at, (script, said) in enumerate((("sh solver | cat >out.txt", "; it said: no convergence in block 7"),
                                            ("F=kept-; sh solver | tee -a ${F}1 | wc -l >lines.txt", "; it said: no convergence in block 7"),
                                            ("mkdir -p run2; cd run2; sh ../solver >direct.txt", "; it said: no convergence in block 7"),
                                            ("sh solver | wc -l >count.txt", ""))):
            self.write(f"job{at}.sh", f"set -o pipefail\n{script}\n")
            with self.subTest(script=script):
                self.run_job(f"bash job{at}.sh", streams=">job.out 2>job.err")
                self.assertRegex(self.report()["last"]["reason"]["text"],
                                 rf"^probably sh \(pid \d+\), which ended with exit status 3(, when its script was at job{at}.sh:2)?{said}$")

    def test_words_behind_a_tee(self):
        """So is what tee(1) wrote to a file that was seen with it, and looks like a log of the script."""
        os.mkfifo(os.path.join(self.work, "go"))
        self.write("solver", "#!/bin/sh\necho 'no convergence in block 7'\nread line <go\nexit 3\n")
        run = self.box.start(["sh", "-c", 'exec "$0" "$@" >job.out 2>job.err', *self.box.scry(
            "run", "-q", "--sample", "0.1", "--", "bash", "-o", "pipefail", "-c", "sh solver | tee solver.log >/dev/null; exit $?")], cwd=self.work)
        self.wait_until_found("solver.log")
        self.write("go", "go\n")
        self.assertEqual(run.wait(), 3)
        self.assertRegex(self.report()["last"]["reason"]["text"], r"^probably sh \(pid \d+\), .*; it said: no convergence in block 7$")

    def test_words_before_a_stop(self):
        """A program of Fortran that stops with a number has said before, on standard output, why."""
        for name, stop in (("solver", "STOP 3"), ("model", "ERROR STOP 3")):
            self.write(name, f"#!/bin/sh\necho ' step 1'\necho ' the grid has a hole at cell 17'\necho '{stop}' >&2\nexit 3\n")
        for name, said in (("solver", r"sh \(pid \d+\), which ended with exit status 3; it said: the grid has a hole at cell 17"),
                           ("model", "what stdout says: the grid has a hole at cell 17; then ERROR STOP 3")):
            with self.subTest(name=name):
                self.run_job(f"sh {name}; exit $?", streams=">job.out 2>job.err")
                self.assertRegex(self.report()["last"]["reason"]["text"], rf"^probably {said}$")

    def test_words_of_its_script(self):
        """What a script writes to the same file when a program is over is not what that said, nor is it told so where that is not known."""
        self.write("fit", "#!/bin/sh\necho 'fit: 12 points'\necho 'the grid has 64 levels'; read line <go; exit 3\n")
        os.mkfifo(os.path.join(self.work, "go"))
        for end, said in (("trap 'echo it is cleaned' EXIT; sh fit; exit 3", "it said: the grid has 64 levels"),
                          ("m='all is over'; sh fit; echo $m; exit 3", "the job said last: fit: 12 points / the grid has 64 levels / all is over")):
            with self.subTest(end=end):
                run = self.box.start(["sh", "-c", 'exec "$0" "$@" >job.out 2>job.err', *self.box.scry(
                    "run", "-q", "--", "bash", "-c", f"exec >fit.log 2>&1; {end}")], cwd=self.work)
                self.wait_until_found("fit.log")
                self.write("go", "go\n")
                self.assertEqual(run.wait(), 3)
                self.assertRegex(self.report()["last"]["reason"]["text"], rf"^probably sh \(pid \d+\), which ended with exit status 3; {said}$")

    def test_words_on_both(self):
        """Harmless words on standard error do not hide what a program said last on standard output."""
        self.run_job("echo step 3; echo the grid has 64 levels; echo connected >&2; exit 3")
        self.assertRegex(self.report()["last"]["reason"]["text"],
                         r"sh \(pid \d+\) ended with exit status 3; it said last: connected / the grid has 64 levels$")

    def test_words_before_make(self):
        """What a program said that make ran is on standard output, above what make says; the recipe itself is no word."""
        self.write("tester", "#!/bin/sh\necho merging\necho 'expected 12 cells, got 11'\nexit 3\n")
        self.write("Makefile", "check:\n\tsh -e tester\nquiet:\n\tsh -c 'exit 3'\nbelow:\n\t$(MAKE) -C . check\n")
        words = r"sh \(pid \d+\), which ended with exit status 3; it said: expected 12 cells, got 11"
        for target, said in (("check", words), ("below", words), ("quiet", r"what stderr says: make: \*\*\* \[Makefile:4: quiet\] Error 3")):
            with self.subTest(target=target):
                self.run_job(f"make {target}; exit $?", streams=">job.out 2>job.err")
                self.assertRegex(self.report()["last"]["reason"]["text"], rf"^probably {said}$")

    def test_through_tee(self):
        """A script that sends its own output through tee does not wait for that."""
        self.write("job.sh", "exec > >(tee job.log) 2>&1\necho begin\nsleep 0.3\necho 'ERROR: no mesh'\nexit 3\n")
        self.assertEqual(self.box.run(["sh", "-c", 'exec "$0" "$@" >job.out 2>job.err', *self.box.scry("run", "-q", "--", "bash", "job.sh")],
                                      cwd=self.work).returncode, 3)
        self.assertEqual(self.report()["last"]["reason"]["text"], "probably what stdout says: ERROR: no mesh")

    def test_patterns_of_files(self):
        self.write("a=1.log", "x 0\n")
        self.run_job("for i in 1 2 3; do echo x $i >>n$i.log; mv n$i.log m$i.log; done; echo x 4 >>a=1.log",
                     "--log", "[nm]?.log=x", "--log", r"./a\=1.log=x")
        # a line may be read before its file has its second name
        self.assertEqual(sorted((re.sub("^n", "m", line["file"]), line["text"]) for line in self.records("log")),
                         [("./a=1.log", "x 4"), ("m1.log", "x 1"), ("m2.log", "x 2"), ("m3.log", "x 3")])

    def test_rotation_within_a_pattern(self):
        """Files that are renamed from one name of a pattern to the next are not read again."""
        for name in ("go1", "go2", "go3"):  # who opens the same one again may meet the writer of before
            os.mkfifo(os.path.join(self.work, name))
        run = self.start_run("-q", "--log", "app.log*=x", "--", "sh", "-c", "echo x 1 >>app.log; read line <go1; "
                             "mv app.log app.log.1; echo x 2 >>app.log; read line <go2; "
                             "mv app.log.1 app.log.2; mv app.log app.log.1; echo x 3 >>app.log.1; echo x 4 >>app.log; read line <go3",
                             cwd=self.work)
        for name, last in (("go1", "x 1"), ("go2", "x 2"), ("go3", "x 4")):
            wait_until(lambda last=last: f'"text":"{last}"' in self.spool())  # not of the command line
            self.write(name, "go\n")
        self.assertEqual(run.wait(), 0)
        self.assertEqual(sorted(line["text"] for line in self.records("log")), ["x 1", "x 2", "x 3", "x 4"])

    def test_progress_of_a_failed_job(self):
        """How far it was stays there, and nothing is left to do."""
        self.run_job("echo 'step 1 of 3' >>out.log; echo 'step 2 of 3' >>out.log; exit 3", "--log", STEPS)
        whole = json.loads(self.scry("ps", "--all", "--json").stdout)
        self.assertEqual(list(schematest.violations(whole, schematest.schema("ps"))), [])
        job, = whole["jobs"]
        self.assertAlmostEqual(job["progress"].pop("share"), 2 / 3)
        self.assertEqual(job["progress"], {"source": "out.log", "done": 2, "total": 3, "left_seconds": None})
        self.assertRegex(self.scry("ps", "--all").stdout, r"(?m)^JOB .* PROGRESS +COMMAND\n.* 66 %  sh ")
        self.assertEqual([self.report()["logs"]["progress"][0][name] for name in ("done", "left_seconds")], [2, None])
        self.assertRegex(self.scry("report", "@last").stdout, r"(?m)^Progress\n  out.log: 2 of 3$")

    def test_what_is_no_file(self):
        """A pipe loses nothing to scry, and the warning says why it is not watched; so for a file that never comes."""
        os.mkfifo(os.path.join(self.work, "pipe"))
        done = self.run_job("(echo x 1 >pipe) & read line <pipe; wait; echo \"$line\"", "--log", "pipe=x", "--log", "stdout=x",
                            "--log", "no.log=x", "--log", "no*=x", streams="2>job.err")
        self.assertEqual(done.stdout, "x 1\n")
        self.assertEqual(self.records("log"), [])
        self.assertEqual(sorted(self.notes()), ["log_missing", "log_missing", "log_unwatched", "log_unwatched"])
        self.assertEqual([file["file"] for file in self.records("log_file") if file["state"] == "unwatched"], ["pipe", "stdout"])

    def test_said_last_below_a_launcher(self):
        """What its launcher says below is nothing that the program said."""
        banner = "line=$(printf '%074d' 0 | tr 0 -); printf '%s\\n' $line 'a non-zero exit code. Per user-direction, the job has been aborted.' $line"
        self.run_job(f"(echo step 7; echo no mesh here; {banner}) >&2; exit 3")
        self.assertEqual(self.report()["last"]["said_last"], ["step 7", "no mesh here"])

    def test_said_last(self):
        """Where no pattern matches, what standard error ended with stands there, and nobody says that it is why."""
        script = "for i in 1 2 3; do echo line $i >&2; done; printf '\\n\\033[1mno mesh here\\033[0m\\n\\n' >&2; exit 3"
        self.write("job.err", "of before\n")
        done = self.box.run(["sh", "-c", 'exec "$0" "$@" >job.out 2>>job.err', *self.box.scry("run", "--", "sh", "-c", script)], cwd=self.work)
        self.assertEqual(done.returncode, 3)
        self.assertEqual([(record["file"], record["lines"]) for record in self.records("log_last")],
                         [("stderr", ["line 2", "line 3", "no mesh here"])])
        with open(os.path.join(self.work, "job.err"), encoding="utf-8") as file:
            self.assertRegex(file.read(), r"  reason     sh \(pid \d+\) ended with exit status 3; it said: no mesh here\n"
                                          r"  said last  line 2\n {13}line 3\n {13}no mesh here\n")
        self.assertEqual(self.report()["last"]["said_last"], ["line 2", "line 3", "no mesh here"])
        self.run_job("echo 'ERROR: no mesh' >&2; exit 3")
        self.assertEqual(self.report()["last"]["said_last"], [])

    def test_last_words(self):
        """The text with which a Python program gives up is the reason, whatever words it has, and whatever it said before."""
        self.write("steer.py", 'import sys\nprint("step 7", file=sys.stderr)\nsys.exit("the mesh has no cells")\n')
        self.run_job("python3 steer.py; exit $?", streams=">job.out 2>job.err")
        last, = self.records("log_last")
        report = self.report()["last"]
        self.assertRegex(report["reason"]["text"],
                         r"^probably python3[\d.]* \(pid \d+\), which ended with exit status 1.*; it said: the mesh has no cells$")
        self.assertFalse(report["reason"]["sure"])
        self.assertIn(last["seq"], report["reason"]["evidence"])
        self.assertEqual(report["said_last"], ["step 7", "the mesh has no cells"])

    def test_traps(self):
        """What a script's trap fails at is none of why the script failed, also where the trap's status is the script's."""
        clean = 'trap "rm scratch.tmp" EXIT\n'
        for name, shell, script, status, reason in (
                ("a", "bash", clean + "set -e\ncp input.dat w/x\n", 1, "what stderr says: cp: cannot stat 'input.dat'"),
                ("b", "dash", clean + "set -e\ncp input.dat w/x\n", 1, "what stderr says: cp: cannot stat 'input.dat'"),
                ("c", "bash", clean + "cp input.dat w/x || exit 3\n", 3, "what stderr says: cp: cannot stat 'input.dat'"),
                ("d", "bash", clean + "set -e\n" + sys.executable + """ -c 'print({}["gamma"])'\n""", 1, "what stderr says: KeyError: 'gamma'"),
                ("e", "bash", "set -e\nfinish() { no_such_tool 2>/dev/null; rmdir w; }\ntrap finish EXIT\ncp input.dat w/x\n", 127,
                 "what stderr says: cp: cannot stat 'input.dat'"),
                ("f", "bash", clean + "exit 4\n", 4, None)): # nobody knows why it left
            with self.subTest(name):
                self.write(name + ".sh", script)
                self.assertEqual(self.run_job(f"exec {shell} {name}.sh", streams=f">{name}.out 2>{name}.err").returncode, status)
                found = self.report()["last"]["reason"]
                self.assertTrue(found["text"].startswith("probably " + reason) if reason else found["note"] == "cause_unknown", found)

    def test_workers(self):
        """What a worker of a pool raised is the reason, or that a child took too long; not that Python then killed its children."""
        self.write("workers.py", """
import concurrent.futures, multiprocessing, subprocess, sys
def work(number):
    if number == 3:
        raise ValueError("row 3 has no weight")
    return number
if __name__ == "__main__":
    if sys.argv[1] == "pool":
        with multiprocessing.Pool(3) as pool:
            pool.map(work, range(6), 1)
    elif sys.argv[1] == "executor":
        with concurrent.futures.ProcessPoolExecutor(3) as pool:
            list(pool.map(work, range(6)))
    else:
        subprocess.run(["sleep", "60"], timeout=0.3)
""")
        for way, said in (("pool", r"ValueError: row 3 has no weight, at workers\.py:5"),
                          ("executor", r"ValueError: row 3 has no weight, at workers\.py:5"),
                          ("timeout", r"subprocess\.TimeoutExpired: Command '\['sleep', '60'\]' timed out after [0-9.]+ seconds, at workers\.py:15")):
            with self.subTest(way):
                self.assertEqual(self.run_job(f"exec {sys.executable} workers.py {way}", streams=f">{way}.out 2>{way}.err").returncode, 1)
                reason = self.report()["last"]["reason"]
                self.assertRegex(reason["text"], rf"^probably what stderr says: {said}$")
                self.assertFalse(reason["sure"])

    def test_exit_status_0(self):
        """What it hides stands in the summary and beside the command in lists; what nobody wants to read is none of it."""
        def run(script):
            self.box.run(["sh", "-c", 'exec "$0" "$@" >job.out 2>job.err', *self.box.scry("run", "--", "bash", "-c", script)], cwd=self.work)
            with open(os.path.join(self.work, "job.err"), encoding="utf-8") as file:
                found = re.search(r"(?m)^  trouble +(.*)$", file.read())
            job = json.loads(self.scry("ps", "--json").stdout)["jobs"][0]
            self.assertEqual((job["exit_code"], job["cause"]), (0, found and found[1]))
            return found and found[1]
        self.assertIsNone(run("echo 'ERROR: of a log that is shown'; true"))
        self.assertIsNone(run("seq 100000 | head -n 1; grep no /dev/null; true"))
        self.assertEqual(run("echo 'ERROR: the mesh is empty' >&2; true"), "the exit status is 0, but an error was said: ERROR: the mesh is empty")
        self.assertRegex(run("gzip -dc missing.gz | sort | wc -l; true"), r"^the exit status is 0, but gzip \(pid \d+\) failed with 1: gzip: missing.gz: No such")
        self.assertRegex(run("./solver --mesh a.msh; true"), r"^the exit status is 0, but bash \(pid \d+\) failed with 127: bash: line 1: ./solver: No such file")
        self.assertRegex(run("seq 9 | awk '{ print \"awk: no row \" $1 >\"/dev/stderr\"; exit 7 }' | wc -l; true"), r"^the exit status is 0, but awk \(pid \d+\) failed with 7: awk: no row 1$")
        self.assertIsNone(run("until cat ready; do touch ready; done; rm ready; true"))
        self.assertIsNone(run("cat missing || echo none; if ! cp missing x; then true; fi; rm missing && false || true"))
        self.assertRegex(run("cat missing || echo none; cat missing; true"), r"^the exit status is 0, but cat \(pid \d+\) failed with 1: cat: missing: No such")
        self.assertRegex(run("(sh -c 'kill -SEGV $$'); true"), r"^the exit status is 0, but sh \(pid \d+\) crashed by SIGSEGV$")
        self.assertRegex(self.scry("ps").stdout, r"  ! sh crashed by SIGSEGV\n") # STATE says the rest

    def test_unasked_pipe(self):
        """Only a record says that standard error is not watched."""
        self.run_job("echo Bus error >&2", streams="")
        self.assertEqual([(file["file"], file["state"]) for file in self.records("log_file")], [("stderr", "unwatched")])
        self.assertEqual(self.notes(), [])

    def test_much_at_once(self):
        """A file that grows faster than it may be read: its end is looked at, and what is left out is said."""
        self.run_job("echo first >>big.log; truncate -s 3G big.log; (echo; echo last) >>big.log", "--log", "big.log=first|last")
        self.assertEqual(self.records("log")[-1]["text"][-4:], "last")
        skipped = sum(file["bytes"] or 0 for file in self.records("log_file"))
        self.assertGreater(skipped, 2 << 30)
        self.assertEqual(self.notes(), ["log_skipped"])

    def test_much_at_once_of_a_stream(self):
        """The same of standard output, for which nobody asked."""
        done = self.run_job("echo 'ERROR: first'; truncate -s 3G job.out; echo; echo 'ERROR: mesh is empty'; exit 3", streams=">>job.out 2>job.err")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(self.records("log")[-1]["text"], "ERROR: mesh is empty")
        self.assertGreater(sum(file["bytes"] or 0 for file in self.records("log_file")), 2 << 30)
        self.assertEqual(self.notes(), ["log_skipped"])
        self.assertEqual(self.report()["last"]["reason"]["fields"]["file"], "stdout")

    def test_many_lines_are_folded(self):
        self.run_job("seq 1000 | sed 's/^/x /' >>x.log", "--log", "x.log=^x")
        lines, folded = self.records("log"), self.records("log_folded")
        self.assertLessEqual(len(lines), 20)
        self.assertEqual(len(lines) + sum(line["folded"] for line in lines) + sum(line["lines"] for line in folded), 1000)

    def test_while_it_runs(self):
        """A record is there long before the job's end."""
        fifo = self.box.path("work", "go")
        os.mkfifo(fifo)
        run = self.start_run("-q", "--log", STEPS, "--", "sh", "-c", "echo 'step 1 of 9' >>out.log; read line <go", cwd=self.work)
        wait_until(lambda: '"progress"' in self.spool())
        self.write("go", "go\n")
        self.assertEqual(run.wait(), 0)

    def test_changed_while_it_runs(self):
        """scry set adds files and patterns, from now on, and leaves them again."""
        os.mkfifo(os.path.join(self.work, "go"))
        self.write("out.log", "x before\n")
        run = self.start_run("-q", "--log-patterns", "off", "--", "sh", "-c", 'exec 2>err; while read line; do echo "$line" >>out.log; echo "$line" >&2; done <go',
                             cwd=self.work)
        with open(os.path.join(self.work, "go"), "w", encoding="ascii", buffering=1) as go:
            wait_until(lambda: json.loads(self.scry("ps", "--json").stdout)["jobs"])
            self.scry("set", "@last", "log=out.log=x", "log=out.log=^step (?<n>\\d+)")
            wait_until(lambda: '"watched"' in self.spool())
            go.write("x 1\nstep 2 aborted\n")
            wait_until(lambda: "step 2" in self.spool())
            self.scry("set", "@last", "log=off", "log-patterns=all")
            wait_until(lambda: re.search("(?m)^log=off$", self.scry("set", "@last").stdout))
            wait_until(lambda: '"stderr"' in self.spool())
            go.write("x 3\nSegmentation fault\n")
            wait_until(lambda: "Segmentation" in self.spool())
            bad = self.box.run(self.box.scry("set", "@last", "log=out.log=a("))
            self.assertEqual(bad.returncode, 2, bad.stderr)
            self.assertIn("at character 3", bad.stderr)
        self.assertEqual(run.wait(), 0)
        self.assertEqual([(line["file"], line["text"]) for line in self.records("log")],
                         [("out.log", "x 1"), ("out.log", "step 2 aborted"), ("stderr", "Segmentation fault")])

    def test_observer_is_killed(self):
        """Another one goes on, and repeats nothing."""
        os.mkfifo(os.path.join(self.work, "go"))
        run = self.start_run("-q", "--log", "out.log=x", "--", "sh", "-c", "echo x 1 >>out.log; read line <go; echo x 2 >>out.log",
                             cwd=self.work)
        wait_until(lambda: '"text":"x 1"' in self.spool())

        def observer():
            """Its pid, once it has the file open."""
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                        ours = file.read().rpartition(")")[2].split()[1] == str(run.pid)
                    if ours and any(os.readlink(f"/proc/{pid}/fd/{fd}") == os.path.join(self.work, "out.log")
                                    for fd in os.listdir(f"/proc/{pid}/fd")):
                        return int(pid)
                except OSError:
                    continue
            return None

        first = wait_until(observer)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: observer() not in (None, first))
        self.write("go", "go\n")
        self.assertEqual(run.wait(), 0)
        self.assertEqual([line["text"] for line in self.records("log")], ["x 1", "x 2"])

    def metrics(self):
        return {one["name"]: one for one in self.report()["logs"]["metrics"]}

    def test_said(self):
        """Numbers that programs say themselves (scry/agent.h): of all processes and threads, also of plain programs; without scry nothing happens."""
        source = os.path.join(scrytest.SOURCE, "test", "system", "targets", "says.c")
        says = scrytest.compiled("says", ["cc", "-O2", "-I", os.path.join(scrytest.SOURCE, "include"), source, "-lpthread"], source)
        self.assertEqual(self.box.run([says, "1000"]).returncode, 0)
        many = 10 ** 6
        done = self.scry_run("--", says, str(many))
        self.assertEqual(done.returncode, 0, done.stderr)
        figures = {name: (one["values"], one["least"], one["most"]) for name, one in self.metrics().items()}
        self.assertEqual(figures, {"loss": (many, 1, many), "energy": (4, -4, 8), "signals": (1, signal.SIGUSR1, signal.SIGUSR1),
                                   "odd": (0, None, None)})
        self.assertEqual(self.metrics()["loss"]["value"], 1)
        self.assertEqual({name: one["undefined"] for name, one in self.metrics().items()}, {"loss": 0, "energy": 0, "signals": 0, "odd": 2})
        self.assertRegex(done.stderr, r"metrics +.*loss 1 \(from 1 to 1e\+06\)")
        said = self.records("metric")
        self.assertEqual({one["source"] for one in said}, {"scry_metric"})
        self.assertLess(len(said), scrytest.room(20))

    def test_said_python(self):
        """The same of Python; what is no metric does no harm."""
        program = self.script("""
            import scry
            for i in range(100):
                scry.metric("val_loss", 1 / (1 + i))
            for name, value in ((3, 1), ("a", "b"), ("a", float("nan")), ("", 1), ("umlaut ü", 2)):
                scry.metric(name, value)
            """, "said.py")
        there = os.path.join(scrytest.SOURCE, "src", "python")
        python = ["env", f"PYTHONPATH={there}", "PYTHONDONTWRITEBYTECODE=1", "/usr/bin/python3", program]
        self.assertEqual(self.box.run(python).returncode, 0)
        self.assertEqual(self.scry_run("-q", "--", *python).returncode, 0)
        figures = {name: (one["values"], one["least"], one["most"]) for name, one in self.metrics().items()}
        self.assertEqual(figures, {"val_loss": (100, 0.01, 1), "umlaut ü": (1, 2, 2), "a": (0, None, None)})  # nan is told as undefined
        self.assertEqual(self.metrics()["a"]["undefined"], 1)

    def test_said_elsewhere(self):
        """What stands in the environment and is not the job's is left alone."""
        source = os.path.join(scrytest.SOURCE, "test", "system", "targets", "says.c")
        says = scrytest.compiled("says", ["cc", "-O2", "-I", os.path.join(scrytest.SOURCE, "include"), source, "-lpthread"], source)
        for path in "/dev/tty", "/nonexistent", "/proc/1/fd/0", "x" * 300:
            done = self.scry_run("-q", "--", "env", f"SCRY_METRICS={path}", says, "10")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.metrics(), {})

    def test_mistakes(self):
        """One line, before the job is started."""
        for options, said in (("--log=out.log=a(", "at character 3"), ("--log==x", "name a file"),
                              ("--log-patterns=segfualt", "did you mean segfault")):
            done = self.scry_run(options, "--", "touch", os.path.join(self.work, "started"))
            self.assertEqual(done.returncode, 125)
            self.assertRegex(done.stderr, rf"\A[^\n]*{said}[^\n]*\n\Z")
        self.assertFalse(os.path.exists(os.path.join(self.work, "started")))
        self.write("options", "log out.log=x\nlog-patterns off\n")
        self.run_job("echo x >>out.log", "--config", os.path.join(self.work, "options"))
        self.assertEqual([line["text"] for line in self.records("log")], ["x"])
        self.assertRegex(self.scry("run", "--log-patterns", "list").stdout, r"(?m)^segfault +error ")


scrytest.main()
