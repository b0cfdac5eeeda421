# SPDX-License-Identifier: Apache-2.0
"""Children of fork that execute nothing are traced like their parent, and soon; what cannot be traced is said why."""

import glob
import os
import re
import signal
import subprocess

import scrytest
from jobtest import JobCase, areas_left, traces_of
from scrytest import wait_until

CHILDREN = scrytest.rounds(60, 200)
AT_ONCE, REFILL = 64, 0.05  # FORKS_AT_ONCE, FORK_REFILL_MS: so many are traced, and then one in this time, if nobody asked for them


def forks():
    return scrytest.built("test", "system", "targets", "forks")


class ForksCase(JobCase):
    def scry_run(self, *arguments):
        return self.scry("run", *arguments)

    def check_omitted(self, report, many):
        """How many children of `many` were omitted; the others were due."""
        omitted = report["trace"]["children_omitted"]
        self.assertGreaterEqual(omitted, many - AT_ONCE - 1 - report["wall_seconds"] / REFILL)
        self.assertGreater(omitted, 0)
        return omitted

    def untraced(self, done):
        """How many children were not waited for, as the summary says."""
        said = re.search(r"(\d+) process(?:es were| was) not traced: the monitor did not answer", done.stderr)
        return int(said.group(1)) if said else 0


class Forks(ForksCase):
    def check(self, *options):
        done = self.scry_run(*options, "--", forks(), CHILDREN)
        untraced = self.untraced(done)
        # none is lost without a word; and on a machine that is not overloaded, none at all
        self.assertEqual(self.calls(), {"child_work": 1 + CHILDREN - untraced}, done.stderr)
        self.assertLess(untraced, CHILDREN / 4, done.stderr)
        wait_until(lambda: not areas_left(self.box), message="areas are left over")

    def test_own_functions(self):
        self.check("--trace", "all")

    def test_quick_succession(self):
        """Nobody asked for them: some are traced, the others are said. Of those that crash it is said what would trace them."""
        many = 10 * CHILDREN
        done = self.scry_run("--", forks(), many, "crash")
        report = self.report()
        trace, omitted = report["trace"], self.check_omitted(report, many)
        self.assertEqual(self.calls(), {"child_work": 1 + many - omitted - self.untraced(done)})
        # what is said of a crash is said once; on a slow machine those that crash may be among the traced
        pid, said = re.search(r"  crash      forks \(pid (\d+)\): SIGSEGV [^\n]*\n    ([^\n]*)\n", done.stderr).groups()
        traced = any(os.path.basename(path).startswith(f"{pid}-") for path in traces_of(glob.glob(self.box.path("jobs", "2*"))[0]))
        self.assertEqual(said, "`scry report` shows the calls that led to it" if traced else
                         "no core file: use `ulimit -c unlimited` or --crash-stack for backtraces, or `--trace all`, as children of fork were not traced")
        self.assertFalse(trace["complete"])
        self.assertIn(f"{omitted} processes were not traced: children of fork", done.stderr)

    def test_quick_succession_of_a_worker(self):
        """A server's worker is a child of fork itself."""
        many = 10 * CHILDREN
        done = self.scry_run("--", forks(), many, "worker")
        omitted = self.check_omitted(self.report(), many)
        self.assertEqual(self.calls(), {"child_work": 1 + many - omitted - self.untraced(done)})

    def test_quick_succession_then_one(self):
        """Children that call nothing take nothing from one that does."""
        done = self.scry_run("--", forks(), 10 * CHILDREN, "last")
        self.assertEqual(self.calls(), {"child_work": 2}, done.stderr)
        trace = self.report()["trace"]
        self.assertEqual((trace["children_omitted"], trace["complete"]), (0, True))

    def test_out_of_reach(self):
        """Children that cannot say so are counted, even where all are wanted."""
        for options in ((), ("--trace", "all")):
            done = self.scry_run(*options, "--", forks(), CHILDREN, "nofile")
            self.assertEqual(self.calls(), {"child_work": 1})
            trace = self.report()["trace"]
            self.assertEqual((trace["children_omitted"], trace["complete"]), (CHILDREN, False))
            self.assertIn(f"{CHILDREN} processes were not traced: children of fork that did not reach the monitor", done.stderr)

    def test_quick_succession_off(self):
        """Nothing is recorded, so nothing is missing."""
        for how in "", "nofile":
            done = self.scry_run("--trace", "off", "--", forks(), 10 * CHILDREN, how)
            self.assertNotIn("not traced", done.stderr)

    def test_quick_succession_with_a_rule(self):
        """Somebody waits for what each of them does."""
        done = self.scry_run("--rule", 'ct_function_called([], "fn:child_work") : print(["called"])', "--", forks(), 2 * CHILDREN)
        self.assertEqual(self.report()["trace"]["children_omitted"], 0, done.stderr)

    @scrytest.thorough
    def test_selection(self):
        self.check("--trace", "fn:child_*")

    def test_values(self):
        self.check("--args")

    def test_not_chosen(self):
        done = self.scry_run("-q", "--trace", "fn:none", "--", forks(), CHILDREN)
        self.assertRegex(done.stderr, r"^scry: no function of \S+ is meant by the selection 'fn:none'[^\n]*\n$")
        self.assertEqual(self.calls(), {})
        self.assertEqual(self.scry_run("-q", "--trace", "fn:child_work", "--", forks(), 1).stderr, "")

    def test_children_that_call_nothing(self):
        """They need no area, and have no trace."""
        self.scry_run("--", forks(), CHILDREN, "idle")
        self.assertEqual(self.calls(), {"child_work": 1})
        traces = [name for _, names, _ in os.walk(self.box.path("jobs")) for name in names
                  if re.fullmatch(r"\d+-\d+", name)]
        self.assertEqual(len(traces), 1)


    def test_after_their_parent(self):
        """Who was not made by fork() looks at its parent's memory until its first call, also when the parent has long been forgotten."""
        run = self.start_run("--", "sh", "-c", f"{forks()} 5 orphans | cat", stdin=subprocess.PIPE)
        wait_until(self.ended, message="the parent's trace is over")
        run.stdin.close()
        self.assertEqual(run.wait(scrytest.room(30)), 0)
        self.assertEqual(self.calls(), {"child_work": 5})
        self.assertTrue(self.report()["trace"]["complete"])

    def ended(self):
        for place, _, names in os.walk(self.box.path("jobs")):
            if ".process" in names:
                with open(os.path.join(place, ".process"), encoding="utf-8") as file:
                    return "\nstate\texited\n" in file.read()
        return False


class Hurry(ForksCase):
    def test_more_than_the_monitor_gave(self):
        """A child is quicker than the monitor, which is stopped here: it has memory for its records by itself."""
        run = self.start_run("--trace", "fn:child_work", "--", forks(), 1, "much", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(run.stdout.readline().strip(), "called")
        monitor = self.box.monitor_pid()
        os.kill(monitor, signal.SIGSTOP)
        self.addCleanup(os.kill, monitor, signal.SIGCONT)
        run.stdin.close()
        self.assertRegex(run.stdout.readline(), r"^\d+$")
        os.kill(monitor, signal.SIGCONT)
        self.assertEqual(run.wait(scrytest.room(30)), 0)
        self.assertEqual(self.calls(), {"child_work": 1 + 100000})
        trace = self.report()["trace"]
        self.assertEqual((trace["discarded"], trace["complete"]), (0, True))


class Limits(ForksCase):
    def test_little_address_space(self):
        """A smaller area is made."""
        self.scry_run("--", "sh", "-c", f"ulimit -v 60000; exec {forks()} 3")
        self.assertEqual(self.calls()["child_work"], 4)

    def test_no_address_space(self):
        done = self.scry_run("--", "sh", "-c", f"ulimit -v 8000; exec {forks()} 1")
        self.assertRegex(done.stdout, r"^\d+$")
        self.assertRegex(done.stderr, r"is not traced: its limit of address space \(ulimit -v\)")

    def test_no_open_files(self):
        done = self.scry_run("--", "sh", "-c", f"ulimit -n 4; exec {forks()} 1")
        self.assertRegex(done.stderr, r"is not traced: its limit of open files \(ulimit -n\)")


class Rules(ForksCase):
    def test_that_cannot_hold(self):
        for event, why in (('"fn:nosuch"', "no function of the programs is 'fn:nosuch'"),
                           ('"fn:child_work", "nothing > 1"', "nothing: no such variable")):
            done = self.scry_run("--rule", f'ct_function_called([], {event}) : print(["x"])', "--", forks(), 1)
            self.assertIn(why, done.stderr)


class Library(ForksCase):
    def test_no_library(self):
        self.box.env["SCRY_AGENT_LIB"] = "/etc/passwd"
        done = self.scry_run("--", forks(), 1)
        self.assertIn("is no shared library", done.stderr)
        self.assertNotIn("ld.so", done.stderr)


scrytest.main()
