# SPDX-License-Identifier: Apache-2.0
"""How every process of a job ended, what it was, and which one made the job fail."""

import os
import shutil
import signal
import unittest

import scrytest
from jobtest import JobCase

# 60 processes that nobody can look at while they live: grandchildren that are killed, and others.
WAYS = r"""
import os, signal
for i in range(20):
    if os.fork() == 0:
        if os.fork() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        os.wait()
        os._exit(i)
    os.wait()
    if os.fork() == 0:
        os.execl("/bin/sh", "name", "-c", f"exit {i}", "--password=CANARY")
    os.wait()
"""

STATIC = '#include <signal.h>\nint main(int argc, char **argv) { if (argc > 2) raise(SIGKILL); return 42; }\n'


class EndsCase(JobCase):
    def write(self, name, text):
        path = self.box.path("work", name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def told(self, report, reason=None):
        """All ends are known, or why not: those unknown."""
        unknown = [process for process in report["processes"]
                   if process["exit_code"] is None and process["signal"] is None]
        for process in report["processes"]:
            self.assertEqual(process["status_source"] is None, process in unknown, process)
            self.assertEqual(process["status_unknown"] is not None, process in unknown, process)
        self.assertEqual(report["failed"]["unknown"], len(unknown))
        if not reason:
            self.assertEqual(unknown, [])
        for process in unknown:
            self.assertIn(reason, process["status_unknown"])
        return unknown


class Ends(EndsCase):
    def job_of_all_ways(self):
        self.write("ways.py", WAYS)
        done = self.scry_run("-q", "python3", "ways.py")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = self.report()
        if not report["processes_listed_singly"]:
            self.skipTest("the kernel lists no short processes here")
        self.assertEqual(report["process_count"], 61)
        return report

    def check_all_ways(self):
        report = self.job_of_all_ways()
        self.told(report)
        by_name = {}
        for process in report["processes"]:
            by_name.setdefault(process["name"], []).append(process)
        self.assertEqual(sorted(p["exit_code"] for p in by_name["sh"]), list(range(20)))
        pythons = [p for name, group in by_name.items() if name.startswith("python") for p in group]
        self.assertEqual(sum(p["signal"] == signal.SIGKILL for p in pythons), 20)
        for process in by_name["sh"]:
            self.assertEqual(process["argv"][:2] + process["argv"][3:], ["name", "-c", "--password=***"])
            self.assertEqual(process["argv"][2], f"exit {process['exit_code']}")
        for process in pythons:  # also those that have executed nothing: what their parent was
            self.assertEqual(process["argv"], ["python3", "ways.py"])
        for process in report["processes"]:
            self.assertEqual(process["cwd"], os.path.realpath(self.box.path("work")))
            self.assertFalse(process["argv_cut"])
        failed = report["failed"]
        self.assertEqual((failed["chain"], failed["count"]), ([], 19 + 20 + 19))
        self.assertEqual(failed["first"]["signal"], signal.SIGKILL)

    def test_all_are_known(self):
        self.check_all_ways()

    @unittest.skipUnless(shutil.which("unshare"), "needs unshare")
    def test_container(self):
        """Where the kernel does not tell: nothing wrong, and the reason."""
        self.write("ways.py", WAYS)
        script = f"{' '.join(self.box.scry('run', '-q'))} python3 ways.py"
        done = self.box.run(["unshare", "-n", "sh", "-c", script])
        if "Operation not permitted" in done.stderr:
            self.skipTest("unshare: " + done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = self.report()
        for process in self.told(report, "in a container"):
            self.assertNotEqual(process["ppid"], 0)
        self.assertIn("unknown", self.scry("report", "@last").stdout)

    def test_static_program(self):
        """It has no agent to say what it is, but lives long enough here."""
        source = self.write("plain.c", STATIC)
        program = scrytest.compiled("plain", ["cc", "-static", source], source)
        program = self.box.program(program)
        done = self.scry_run("-q", "sh", "-c", f"{program}; {program} 1 2; exit 0")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = self.report()
        self.told(report)
        plain = [process for process in report["processes"] if process["name"] == "plain"]
        self.assertEqual([(p["exit_code"], p["signal"]) for p in plain], [(42, None), (None, signal.SIGKILL)])
        for process in plain:  # not its parent's
            self.assertIn(process["argv"], [None, [program], [program, "1", "2"]])

    def test_long_command_line(self):
        """Complete if it fits into 16 KB; if a part is missing, that is reported."""
        words = [str(i) * 400 for i in range(10)]
        done = self.scry_run("-q", "sh", "-c", "sleep 0.2; exit 0", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        shell = [process for process in self.report()["processes"] if process["name"] == "sh"][0]
        self.assertEqual((shell["argv"][3:], shell["argv_cut"]), (words, False))
        done = self.scry_run("-q", "sh", "-c", "sleep 0.2; exit 0", *words * 10)
        shell = [process for process in self.report()["processes"] if process["name"] == "sh"][0]
        kept = shell["argv"][3:]
        self.assertGreater(len(kept), 8)
        self.assertEqual((kept[:-1], shell["argv_cut"]), ((words * 10)[:len(kept) - 1], True))


class EndsAsOrdinaryUser(Ends):
    def setUp(self):
        user = scrytest.Sandbox.ordinary_user()
        if not user:
            self.skipTest("these tests run as an ordinary user anyway")
        self.box = scrytest.Sandbox(user=user)
        self.addCleanup(self.box.close)

    def test_all_are_known(self):
        report = self.job_of_all_ways()
        if self.told(report, "to root alone"):
            self.skipTest("before Linux 6.6")
        self.check_all_ways()

    test_container = None


class Failed(EndsCase):
    def test_compiler_of_make(self):
        self.write("good.c", "int good;\n")
        self.write("bad.c", "int bad(void) { return nothing; }\n")
        self.write("Makefile", "all: good.o bad.o last.o\n%.o: %.c\n\tcc -c $<\n")
        done = self.scry_run("make")
        self.assertEqual(done.returncode, 2, done.stderr)
        report = self.report()
        self.told(report)
        chain = report["failed"]["chain"]
        self.assertEqual(chain[-1]["argv"], ["make"])
        self.assertEqual(chain[-2]["argv"], ["cc", "-c", "bad.c"])
        self.assertIn("bad.c", chain[0]["argv"])
        self.assertEqual([process["exit_code"] for process in chain], [1] * (len(chain) - 1) + [2])
        for text in (done.stderr, self.scry("report", "@last").stdout):
            self.assertIn(f"failed     {chain[0]['name']} (pid {chain[0]['pid']}) exit 1 at", text)
            self.assertIn(f"make (pid {chain[-1]['pid']}) exit 2", text)
            self.assertIn("bad.c", text)

    def test_killed_in_a_script(self):
        self.write("job.sh", "grep -q nothing job.sh.none 2>/dev/null\nsh -c 'kill -9 $$'\nstatus=$?\n:\nexit $status\n")
        done = self.scry_run("sh", "job.sh")
        self.assertEqual(done.returncode, 137, done.stderr)
        failed = self.report()["failed"]
        self.assertEqual([process["argv"] for process in failed["chain"]],
                         [["sh", "-c", "kill -9 $$"], ["sh", "job.sh"]])
        self.assertEqual(failed["chain"][0]["signal"], signal.SIGKILL)
        self.assertEqual(failed["first"]["name"], "grep")

    def test_only_the_command(self):
        done = self.scry_run("sh", "-c", "/bin/true; exit 4")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertNotIn("failed", done.stderr)
        self.assertEqual(len(self.report()["failed"]["chain"]), 1)


if __name__ == "__main__":
    scrytest.main()
