# SPDX-License-Identifier: Apache-2.0
"""Nothing is lost in silence: entries and exits of a program = events + discarded + overwritten, however it and the
monitor end, and nothing stays behind in the runtime directory."""

import itertools
import os
import re
import shutil
import signal
import struct

import scrytest
from jobtest import areas_left, count_lines, trace_process, traces_of
from scrytest import wait_until

BABELTRACE = shutil.which("babeltrace2")
ENDING = ("test", "system", "targets", "ending")
LATE = re.compile(r"(\d+) process(?:es were| was) not traced: the monitor did not answer in time on this busy node")
WAITS = re.compile(r"(\d+) waits? for the monitor ran out, (\d+) records? dropped")
GIVEN_UP = 3  # waits in vain, one after the other (agent/hooks/record.c)
CALL = " (entry|exit)(_of|_values)?: "


class ExactCase(scrytest.TestCase):
    def setUp(self):
        super().setUp()
        self.job = self.box.path("work", "job")
        self.file = self.box.path("work", "numbers")

    def command(self, way, *arguments, options=()):
        return self.box.scry("run", "-o", self.job, *options, "--", scrytest.built(*ENDING), way, self.file,
                             *arguments)

    def ended(self, way, *arguments, options=(), status=0, gone=False):
        done = self.box.run(self.command(way, *arguments, options=options))
        self.assertEqual(done.returncode, status, done.stderr)
        said = self.said()
        if "not traced" in done.stderr:
            # a child of fork does not wait long for a busy monitor: then it is told, and all of its calls are missing
            self.assertEqual((way, LATE.findall(done.stderr)), ("fork", ["1"]), done.stderr)
            said = said[:-1]
        self.check(2 * sum(said), gone=gone)
        self.assertEqual(WAITS.findall(done.stderr), [tuple(map(str, self.waits()))] if self.waits()[0] else [])
        self.check_waits("wait" in options)
        return len(said)

    def waits(self):
        """How many waits for room were in vain, and how many records were dropped after one."""
        found = [trace_process(path) for path in self.traces()]
        return [sum(int(process[key][0]) for process in found) for key in ("waits_ran_out", "waits_dropped")]

    def check_waits(self, waits, cut_off=0, disturbed=False):
        """Who waits for room drops nothing, unless a wait ran out: then that record, and the exit of its call; after
        GIVEN_UP of them, which only a disturbed monitor brings about, nobody waits until there is room. Of each thread
        that was killed one such record may have been counted as that, and not yet as missing."""
        discarded, (ran_out, dropped) = self.sums()[1], self.waits()
        if not waits:
            self.assertEqual((ran_out, dropped), (0, 0))
            return
        self.assertIn(dropped - discarded, range(cut_off + 1), (discarded, ran_out, dropped))
        if not disturbed or ran_out < GIVEN_UP:
            self.assertLessEqual(discarded, 2 * ran_out)

    def begin_again(self):
        shutil.rmtree(self.job, ignore_errors=True)
        if os.path.exists(self.file):
            os.unlink(self.file)

    def said(self):
        """How many calls the program itself has counted, of each thread."""
        with open(self.file, "rb") as file:
            numbers = struct.unpack("4096Q", file.read())
        return numbers[1:numbers[0] + 1]

    def traces(self):
        return traces_of(self.job)

    def sums(self):
        """events, discarded, overwritten of all traces of the job together."""
        found = [trace_process(path) for path in self.traces()]
        return [sum(int(process[key][0]) for process in found) for key in ("events", "discarded", "overwritten")]

    def tallied(self):
        """Calls that were only counted, since records of them cost too much."""
        return sum(int(trace_process(path).get("tallied", [0])[0]) for path in self.traces())

    def closed(self):
        states = [trace_process(path)["state"][0] for path in self.traces()]
        return set(states) & {"exited", "crashed"} and "running" not in states

    def on_disk(self):
        """The numbers of entries, exits, and missing records, as another program reads the traces."""
        if not BABELTRACE:
            return None
        (calls,), warnings = count_lines(self.box, self.traces(), CALL)
        return [calls, sum(map(int, re.findall(r"discarded (\d+) event", warnings)))]

    def check(self, least, most=None, gone=False):
        """All is told, and all that is said to be there is there. gone: of some threads nothing, or nothing from
        some time on, is left, nor where their records are missing."""
        wait_until(self.closed, 20)
        sums, tallied = self.sums(), self.tallied()
        self.assertGreaterEqual(sum(sums) + 2 * tallied, least, (sums, tallied))
        self.assertLessEqual(sum(sums) + 2 * tallied, least if most is None else most, (sums, tallied))
        on_disk = self.on_disk()
        if gone and on_disk:
            self.assertEqual(on_disk[0], sums[0])
            self.assertIn(on_disk[1] - sums[1], range(sums[2] + 1))
        else:
            self.assertIn(on_disk, (None, [sums[0], sums[1] + sums[2]]))
        wait_until(lambda: not areas_left(self.box))


class Ends(ExactCase):
    def test_return(self):
        self.ended("return", 1000)

    def test_underscore_exit(self):
        self.ended("_exit", 1000)

    def test_underscore_exit_of_the_standard(self):
        self.ended("_Exit", 1000)

    def test_quick_exit(self):
        self.ended("quick_exit", 1000)

    def test_abort(self):
        self.ended("abort", 1000, status=128 + signal.SIGABRT)

    def test_killed(self):
        self.ended("kill", 1000, status=128 + signal.SIGKILL)

    def test_exec_with_threads(self):
        self.ended("exec", 1000)
        self.assertEqual(len(self.traces()), 2)

    def test_fork_with_threads(self):
        traced = self.ended("fork", 1000)
        self.assertIn(len(self.traces()), (traced - 3, 2))

    def test_ways_with_little_room(self):
        ways, overflows = (("_exit", 0), ("kill", 128 + signal.SIGKILL), ("exec", 0), ("fork", 0)), ("drop", "flight", "wait")
        for (way, status), overflow in scrytest.rounds(zip(ways, itertools.cycle(overflows)), itertools.product(ways, overflows)):
            with self.subTest(way=way, overflow=overflow):
                self.begin_again()
                self.ended(way, 25000, options=["--buffer", "1M", "--overflow", overflow], status=status)


class Threads(ExactCase):
    def test_many_short_ones(self):
        """More of them than there are packets, at first: each takes one for itself, of those that are promised, and nothing is lost."""
        self.ended("threads", 500)
        self.assertEqual(self.sums()[1:], [0, 0])

    @scrytest.thorough
    def test_with_little_room(self):
        self.ended("threads", 1000, options=["--buffer", "1M"])

    def test_waiting_for_room(self):
        self.ended("threads", 1000, options=["--buffer", "1M", "--overflow", "wait"])

    def test_in_flight(self):
        self.ended("threads", 1000, options=["--buffer", "1M", "--overflow", "flight"], gone=True)
        self.assertGreater(self.sums()[2], 0)


class Limit(ExactCase):
    @scrytest.thorough
    def test_size(self):
        """The last records, written at the end, are below the limit, too."""
        for limit, way in ((1, "_exit"), (2, "fork")):
            with self.subTest(limit=limit, way=way):
                self.begin_again()
                self.ended(way, limit * 75000, options=["--trace", "all", "--max-size", f"{limit}M"])
                size = sum(os.path.getsize(os.path.join(place, name))
                           for place, _, names in os.walk(os.path.join(self.job, "trace")) for name in names)
                self.assertLessEqual(size, limit << 20)
                self.assertGreater(size, limit << 19)
                self.assertGreater(self.sums()[2], 0)


class Killed(ExactCase):
    def busy(self, *options):
        # by default what is called too often is not even counted
        run = self.box.start(self.command("busy", options=["-q", "--trace", "all", *options]))
        wait_until(lambda: self.traces() and len(self.said_now()) == 4 and min(self.said_now()) > 10000, 20)
        (pid,) = {int(trace_process(path)["pid"][0]) for path in self.traces()}
        return run, pid

    def said_now(self):
        try:
            return self.said()
        except (FileNotFoundError, struct.error):
            return ()

    def check_busy(self, run, gone=False):
        self.assertEqual(run.wait(), 128 + signal.SIGKILL)
        said = self.said()
        self.assertEqual(len(said), 4)
        # in each thread one call may have come and gone that it had no time to count
        self.check(2 * sum(said), 2 * sum(said) + 2 * len(said), gone)
        return len(said)

    @scrytest.thorough
    def test_in_the_middle_of_calls(self):
        for overflow in ("drop", "flight", "wait"):
            with self.subTest(overflow=overflow):
                self.begin_again()
                run, pid = self.busy("--buffer", "1M", "--overflow", overflow)
                os.kill(pid, signal.SIGKILL)
                # one killed while it waited to go on may have lost all that it did last
                threads = self.check_busy(run, gone=overflow == "flight")
                self.check_waits(overflow == "wait", cut_off=threads)

    def test_monitor(self):
        """A killed monitor takes nothing with it: the next one knows what is on disk, to the record."""
        run, pid = self.busy("--buffer", "1M", "--overflow", "wait")
        for _ in range(2):
            traces = len(self.traces())
            self.box.stop_monitor(signal.SIGKILL)
            # the next one has taken over, and writes
            wait_until(lambda: len(self.traces()) == traces + 1 and
                       any(name.startswith("stream-") for name in os.listdir(self.traces()[-1])), 20)
            calls = sum(self.said())
            wait_until(lambda: sum(self.said()) > calls + 10000, 20)
        os.kill(pid, signal.SIGKILL)
        threads = self.check_busy(run)
        self.check_waits(True, cut_off=threads, disturbed=True)
        states = [trace_process(path)["state"][0] for path in self.traces()]
        self.assertEqual(len(states), 3)
        self.assertEqual(states.count("exited"), 1, states)
        self.assertEqual(states.count("continued"), len(states) - 1, states)

    @scrytest.thorough
    def test_monitor_that_is_stopped(self):
        """Some waits run out, and the program goes on: the record has their number, and what was dropped."""
        run, pid = self.busy("--buffer", "1M", "--overflow", "wait")
        monitor = self.box.monitor_pid()
        os.kill(monitor, signal.SIGSTOP)
        before = sum(self.said())
        try:
            wait_until(lambda: sum(self.said()) > before + 300000, 30)  # the buffer has room for some 100000
        finally:
            os.kill(monitor, signal.SIGCONT)
        os.kill(pid, signal.SIGKILL)
        threads = self.check_busy(run)
        self.check_waits(True, cut_off=threads, disturbed=True)
        self.assertIn(self.waits()[0], range(3, 100))
        report = self.box.run(self.box.scry("report", self.job))
        self.assertEqual(WAITS.findall(report.stdout), [tuple(map(str, self.waits()))], report.stdout)
        self.assertGreater(self.waits()[1], 0)

    @scrytest.thorough
    def test_monitor_and_program(self):
        """Both are gone when the next monitor comes."""
        run, pid = self.busy("--buffer", "1M")
        self.box.stop_monitor(signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(run.wait(), 128 + signal.SIGKILL)
        if not self.box.monitor_pid():
            self.assertEqual(self.box.run(self.box.scry("run", "-q", "--", "true")).returncode, 0)
        self.check_busy(run)


class Preloaded(ExactCase):
    SOURCE = """#include <stdlib.h>
                int main(void) { return system("! grep libasan /proc/self/maps && echo $LD_PRELOAD") != 0; }"""

    def test_libasan_is_not_handed_on(self):
        with open(self.box.path("work", "asan.c"), "w", encoding="ascii") as file:
            file.write(self.SOURCE)
        program = self.box.path("work", "asan")
        if self.box.run(["gcc", "-g", "-finstrument-functions", "-fsanitize=address", "-o", program,
                         program + ".c"]).returncode:
            self.skipTest("no compiler with the address sanitizer")
        done = self.box.run(self.box.scry("run", "-q", "--", program))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^/\S*/libscry-agent\.so\n$")


if __name__ == "__main__":
    scrytest.main()
