# SPDX-License-Identifier: Apache-2.0
"""Tracing where there is too little of something: memory for the buffers, time for a thousand processes at once, rights.
The program does what it does alone; what was not traced is counted, and why is said."""

import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import scrytest
from ctracertest import TracerCase
from jobtest import areas_left, count_lines, target
from scrytest import wait_until

MEGABYTE = 1 << 20
USER = scrytest.Sandbox.ordinary_user()
is_root = unittest.skipUnless(os.getuid() == 0, "only root can")


class LimitsCase(TracerCase):
    def run_target(self, *command, options=(), status=0, **more):
        done = self.scry_run(*options, "--", *command, **more)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertNotIn("ld.so", done.stderr)
        return done

    def mount_runtime(self, size):
        """A tmpfs as runtime directory, as it mostly is; false: not here."""
        place = self.box.path("run")
        if self.box.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", place]).returncode:
            return False
        self.addCleanup(lambda: subprocess.run(["umount", "-l", place], check=True))
        self.addCleanup(self.box.stop_monitor)
        return True

    def untraced(self, done):
        """How many processes were not traced, as the summary says."""
        return sum(int(count) for count in re.findall(r"(\d+) process(?:es were| was) not traced: ", done.stderr))

    def check_together(self, count):
        """All the children of one program at the same time: each is traced as a whole, or counted as untraced."""
        done = self.run_target(target("privileges"), "together", count, timeout=60)
        self.assertEqual(done.stdout, f"early {count} late {count}\n")
        untraced = self.untraced(done)
        traced = self.calls() if untraced < count else {"early": 0, "late": 0}
        self.assertEqual(traced, {"early": count - untraced, "late": count - untraced}, done.stderr)
        return done, untraced


@is_root
class LittleRoom(LimitsCase):
    """The runtime directory, in which the buffers are, is a tmpfs of 4 MB. A page that cannot be had is SIGBUS for
    whoever writes to it; that must not be the program."""

    def setUp(self):
        super().setUp()
        if not self.mount_runtime("4m"):
            self.skipTest("mount(2) is not permitted here")

    def fill(self):
        with open(self.box.path("run", "filler"), "wb", buffering=0) as file:
            try:
                while file.write(bytes(65536)):
                    pass
            except OSError:
                pass

    def test_more_processes_than_room(self):
        done, untraced = self.check_together(60)
        self.assertGreater(untraced, 10)
        self.assertTrue(self.lines_said(done.stderr, "were not traced", "no room for the trace buffer", "run"), done.stderr)

    def test_many_threads(self):
        done = self.run_target(target("traced"), "threads", 200, options=["--buffer", "64M"])
        self.assertEqual(done.stdout, "calls work 800\ncalls leaf 1600\n")
        if not self.report()["trace"]["threads_omitted"]: # those that had no room are counted
            self.assertEqual(self.calls(), {"work": 800, "leaf": 1600}, done.stderr)

    def test_filled_while_it_runs(self):
        def fill():
            wait_until(lambda: glob.glob(self.box.path("jobs", "2*", "trace", "*", "*")), 20)
            self.fill()
        filler = threading.Thread(target=fill)
        filler.start()
        calls = 3000000
        done = self.run_target(target("traced"), "storm", calls, options=["--trace", "fn:hot", "--args"])
        filler.join()
        self.assertEqual(done.stdout, f"calls hot {calls}\n")
        trace = self.report()["trace"]
        events, missing = trace["events"], trace["discarded"] + trace["overwritten"]
        self.assertEqual(events + missing, 2 * calls, done.stderr)

    @scrytest.thorough
    def test_full(self):
        """Nothing of it is left: the program hears nothing of it."""
        done = self.run_target(target("traced"), "calls", 3)
        self.fill()
        done = self.run_target(target("traced"), "calls", 3)
        self.assertEqual(done.stdout, "calls work 3\ncalls leaf 6\n")
        self.assertEqual(len(self.lines_said(done.stderr, "not traced: no room for the trace buffer")), 1, done.stderr)


@is_root
class LittleDisk(LimitsCase):
    """The job directories are on a disk of a few MB. What is written of the trace can be read, with names, and what is
    not is counted: recorded and missing are what the program made."""
    FUNCTIONS = 300

    def setUp(self):
        super().setUp()
        self.disk = self.box.path("jobs")

    def mount(self, size):
        if self.box.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", self.disk]).returncode:
            self.skipTest("mount(2) is not permitted here")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", self.disk], check=True))
        self.addCleanup(self.box.stop_monitor)

    def program(self):
        """Calls each of its functions, a given number of times. The last ones are first called at the end. With a path,
        it waits early on until there is something; with another, it makes a directory of that name halfway, and waits
        until that is gone."""
        source = self.box.path("work", "many.c")
        numbers = range(self.FUNCTIONS)
        with open(source, "w", encoding="ascii") as out:
            out.write("#include <stdlib.h>\n#include <sys/stat.h>\n#include <unistd.h>\nint sum;\n")
            out.writelines(f"void with_a_rather_long_name_{n}(void) {{ sum += {n}; }}\n" for n in numbers)
            out.write("__attribute__((no_instrument_function)) int main(int argc, char **argv) {\n"
                      "    int rounds = atoi(argv[1]);\n    for (int i = rounds; i; i--) {\n"
                      "        while (argc > 2 && i == rounds - rounds / 20 && access(argv[2], F_OK) != 0)\n"
                      "            usleep(1000);\n"
                      "        if (argc > 3 && i == rounds / 2)\n"
                      "            for (mkdir(argv[3], 0700); access(argv[3], F_OK) == 0;)\n"
                      "                usleep(1000);\n")
            out.writelines(f"        with_a_rather_long_name_{n}();\n" for n in numbers[:-20])
            out.write("    }\n")
            out.writelines(f"    with_a_rather_long_name_{n}();\n" for n in numbers[-20:])
            out.write("    return 0;\n}\n")
        return self.compile(source, name="many")

    def check_run(self, rounds, *options, said, waits_for=()):
        done = self.run_target(self.program(), rounds, *waits_for, options=options, timeout=60)
        self.assertRegex(done.stderr, said)
        self.check_counts(2 * (rounds * (self.FUNCTIONS - 20) + 20), done.stderr)

    def check_counts(self, made, err):
        report = self.report()
        trace = report["trace"]
        self.assertEqual(trace["events"] + trace["discarded"] + trace["overwritten"], made, err)
        self.assertGreater(trace["overwritten"], 0, err)
        self.assertGreater(trace["events"], 0, err)
        self.assertIn(f'{trace["events"]} events', err)
        self.assertIn(f'{trace["overwritten"]} ', err)
        for row in report["functions"]:
            self.assertRegex(row["name"], "^with_a_rather_long_name_")
        if shutil.which("babeltrace2"):
            self.assertEqual(count_lines(self.box, self.traces(), "<unknown>", " entry| exit")[0], [0, trace["events"]])

    def test_runs_full(self):
        self.mount("4m")
        self.check_run(2400, said="tracing +.*nearly full")

    @scrytest.thorough
    def test_small_buffer(self):
        self.mount("3m")  # where the monitor is slow, most finds no room in the buffer, and little comes to the disk
        self.check_run(3500, "--buffer", "1M", said="tracing +.*nearly full")

    @scrytest.thorough
    def test_runs_full_while_waiting(self):
        self.mount("4m")
        self.check_run(2400, "--overflow", "wait", said="tracing +.*nearly full")

    @scrytest.thorough
    def test_tiny(self):
        self.mount("1m")
        self.check_run(1000, said="tracing +.*nearly full")

    def test_no_room(self):
        """No call is kept. What is not known of it is no figure, either."""
        self.mount("300k")
        self.run_target(self.program(), 10, timeout=60)
        shown = self.scry("report", "@last").stdout
        self.assertIn("not kept)", shown)
        self.assertNotIn("(preempted", shown)

    @scrytest.thorough
    def test_filled_by_somebody_else(self):
        """At once: no look at the disk came before."""
        self.mount("60m")
        filled = self.box.path("work", "filled")

        def fill():
            try:
                wait_until(lambda: glob.glob(self.box.path("jobs", "2*", "trace", "*", "*", "stream-*")), 20)
                with open(self.box.path("jobs", "filler"), "wb", buffering=0) as file:
                    while file.write(bytes(65536)):
                        pass
            except OSError:
                pass
            finally:
                with open(filled, "w", encoding="ascii"):
                    pass
        filler = threading.Thread(target=fill)
        filler.start()
        self.addCleanup(filler.join)
        self.check_run(10000, said="tracing +.*(No space left on device|full)", waits_for=[filled])

    @scrytest.thorough
    def test_full_for_a_while(self):
        """When there is room again the trace goes on, and says what is missing between."""
        self.mount("16m")
        limited, halfway, filler = self.box.path("work", "limited"), self.box.path("work", "half"), self.box.path("jobs", "filler")

        def process_says(text):
            for path in glob.glob(self.box.path("jobs", "2*", "trace", "*", "*", ".process")):
                with open(path, encoding="utf-8") as file:
                    if text in file.read():
                        return True
            return False

        def fill():
            try:
                wait_until(lambda: glob.glob(self.box.path("jobs", "2*", "trace", "*", "*", "stream-*")), 20)
                with open(filler, "wb", buffering=0) as file:
                    while os.statvfs(self.disk).f_bavail * 4096 > 400 << 10:
                        file.write(bytes(16384))
                wait_until(lambda: process_says("limited\t1"), 30)
            finally:
                os.mkdir(limited)
            try:
                wait_until(lambda: os.path.isdir(halfway), 30)
                os.remove(filler)
                wait_until(lambda: process_says("trace_disk_was_full"), 30)
            finally:
                os.rmdir(halfway)
        thread = threading.Thread(target=fill)
        thread.start()
        self.addCleanup(thread.join)
        rounds = 1000
        done = self.run_target(self.program(), rounds, limited, halfway, options=["--buffer", "1M"], timeout=100)
        self.assertRegex(done.stderr, "tracing +.*was full for a while")
        self.check_counts(2 * (rounds * (self.FUNCTIONS - 20) + 20), done.stderr)
        report = self.report()
        calls = {row["name"].split("_")[-1]: row["calls"] for row in report["functions"]}
        self.assertEqual([calls.get(str(n)) for n in range(self.FUNCTIONS - 20, self.FUNCTIONS)], [1] * 20)
        self.assertGreater(report["trace"]["events"], rounds * self.FUNCTIONS // 2)


class MemoryGroup:
    """A control group of memory, of whichever version is there."""

    def __init__(self, limit):
        first, second = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
        top = first if os.path.isdir(first) else second
        self.path = tempfile.mkdtemp(prefix="scry", dir=top)
        self.put("memory.limit_in_bytes" if top == first else "memory.max", limit)
        self.oom = "memory.oom_control" if top == first else "memory.events"

    def put(self, name, value):
        with open(os.path.join(self.path, name), "w", encoding="ascii") as file:
            file.write(str(value))

    def killed(self):
        with open(os.path.join(self.path, self.oom), encoding="ascii") as file:
            return int(re.search(r"^oom_kill (\d+)", file.read(), re.M)[1])

    def close(self):
        wait_until(lambda: not self.remove(), 10, f"{self.path} is left")

    def remove(self):
        try:
            os.rmdir(self.path)
        except OSError:
            return os.path.isdir(self.path)
        return False


FULL = """#include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    int main(int argc, char **argv)
    {
        size_t size = (size_t)atoi(argv[1]) << 20;
        volatile char *memory = malloc(size);
        for (size_t i = 0; i < size; i += 4096)
            memory[i] = 1;
        usleep(300000); /* what scry does at a job's start is done then */
        printf("%s\\n", argv[1]);
        return 0;
    }
    """


@is_root
class MemoryLimit(LimitsCase):
    """Buffers count as the job's memory: a job that keeps to its limit must do so while it is traced."""

    def group(self, megabytes):
        try:
            group = MemoryGroup(int(megabytes * scrytest.SCALE) * MEGABYTE)  # sanitized, scry itself needs more
            self.addCleanup(group.close)
            group.killed()
        except (OSError, TypeError):
            self.skipTest("no control group of memory can be made here")
        return group

    def run_in(self, group, command):
        return self.box.run(["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', group.path, *command], timeout=60)

    def test_counted_only(self):
        """Of 64 MB a job that is not traced has 59 as without scry, whatever starts beside it."""
        source = self.box.path("work", "full.c")
        with open(source, "w", encoding="ascii") as file:
            file.write(FULL)
        program = self.compile(source, "-O1", hooks=False)
        for _ in range(3):
            group = self.group(64)
            self.addCleanup(self.box.stop_monitor)
            self.box.stop_monitor()
            done = self.run_in(group, self.box.scry("run", "--", program, 59))
            self.assertEqual((done.returncode, done.stdout), (0, "59\n"), done.stderr)
            self.assertEqual(group.killed(), 0)

    def test_group(self):
        group = self.group(80)
        if not self.mount_runtime("1g"):
            self.skipTest("mount(2) is not permitted here")
        calls = 3000000
        command = self.box.scry("run", "--trace", "all", "--buffer", "1G", "--", target("privileges"), "heavy", 50, calls)
        done = self.run_in(group, command)
        self.assertEqual((done.returncode, done.stdout), (0, f"early 0 late {calls}\n"), done.stderr)
        self.assertEqual(group.killed(), 0)
        trace = self.report()["trace"]
        self.assertEqual(trace["events"] + trace["discarded"], 2 * calls, done.stderr)


class ManyAtOnce(LimitsCase):
    @scrytest.thorough
    def test_thousand(self):
        self.mount_runtime("4g")
        done, untraced = self.check_together(1000)
        if untraced:
            print(f"# {untraced} of 1000 were not traced", flush=True)
        wait_until(lambda: not areas_left(self.box), 20, "areas are left over")
        # and then there is room for one more
        self.run_target(target("traced"), "calls", 3)
        self.assertEqual(self.calls(), {"work": 3, "leaf": 6}, done.stderr)


class SlowSymbols(LimitsCase):
    """Symbols that take long to be read, as those of a big program do the first time."""

    def test_what_is_waited_for(self):
        helper, go = self.box.path("libexec", "scry-symbols"), self.box.path("work", "go")
        real = os.path.realpath(helper)
        os.remove(helper)
        with open(helper, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nwhile [ ! -e {go} ]; do sleep 0.05; done\nexec {real} "$@"\n')
        os.chmod(helper, 0o755)
        run = self.box.start(self.box.scry("run", "--trace", "fn:leaf", "--", target("traced"), "calls", 3),
                             stderr=subprocess.PIPE)
        self.assertRegex(run.stderr.readline(), "^scry: job ")
        self.assertRegex(run.stderr.readline(), r"^scry: pid \d+, .*traced, waits until its symbols are read")
        with open(go, "w", encoding="ascii"):
            pass
        out, err = run.communicate(timeout=30 * scrytest.SCALE)
        self.assertEqual((run.returncode, out), (0, "calls work 3\ncalls leaf 6\n"), err)
        self.assertEqual(self.calls(), {"leaf": 6}, err)


class SilentMonitor(LimitsCase):
    """A monitor that takes connections and does not answer, as one that is stopped: it is waited for once."""

    def test_waited_for_once(self):
        source, program = self.box.path("opens.c"), self.box.path("opens")
        with open(source, "w", encoding="utf-8") as out:
            out.write("#include <dlfcn.h>\n"
                      "int main(void) { for (int i = 0; i < 50; i++) "
                      "if (!dlsym(dlopen(\"libm.so.6\", RTLD_NOW), \"cos\")) return 1; return 0; }\n")
        subprocess.run(["gcc", "-finstrument-functions", "-o", program, source], check=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.box.path("silent"))
            listener.listen(100)
            listener.setblocking(False)
            env = {"LD_PRELOAD": self.box.path("lib", "libscry-agent.so"), "SCRY_AGENT_SOCKET": self.box.path("silent"),
                   "SCRY_JOB": self.box.path("job")}
            self.assertEqual(self.box.run([program], env=env).returncode, 0)
            listener.accept()[0].close()
            self.assertRaises(BlockingIOError, listener.accept)


class ManyFunctions(LimitsCase):
    """The values of this many functions have no room, and less if the address space is limited."""

    FUNCTIONS = 3000

    def program(self):
        source = self.box.path("work", "values.c")
        numbers = range(self.FUNCTIONS)
        with open(source, "w", encoding="ascii") as out:
            out.write("int sum;\n")
            out.writelines(f"int f{n}(int a, double b) {{ sum += a; return a + {n}; }}\n" for n in numbers)
            out.write("__attribute__((no_instrument_function)) int main(void) {\n")
            out.writelines(f"    f{n}({n}, 0.5);\n" for n in numbers)
            out.write("    return 0;\n}\n")
        return self.compile(source, name="values")

    def test_values(self):
        """Recorded values are right, and the number of functions with missing ones is reported."""
        done = self.run_target("sh", "-c", f"ulimit -v 60000; exec {self.program()}", options=["--args"])
        missing = re.search(r"tracing +pid \d+: the values of (\d+) of its functions cannot be had, or not all of them: "
                            r"there is no room for so many; select fewer \(--trace\)", done.stderr)
        self.assertTrue(missing, done.stderr)
        whole = 0
        lines = self.box.run(self.box.scry("replay", "--json", "@last")).stdout.splitlines()
        for call in map(json.loads, lines):
            number = int(call["function"][1:])
            self.assertIn(call.get("args"), (None, {"a": number, "b": 0.5}))
            self.assertIn(call.get("result"), (None, 2 * number))
            whole += "args" in call and "result" in call
        self.assertEqual(len(lines), self.FUNCTIONS)
        if "was let go before" not in done.stderr:  # else it is so busy here that some calls came first
            self.assertEqual(whole, self.FUNCTIONS - int(missing.group(1)))


class Restricted(LimitsCase):
    """Programs that forbid themselves system calls (seccomp) would be killed by those of the agent."""

    def check(self, way):
        done = self.run_target(target("privileges"), way)
        self.assertEqual(done.stdout, "early 10 late 1000\n")
        self.assertEqual(self.calls(), {"early": 10})
        self.assertEqual(len(self.lines_said(done.stderr, "switched itself off", "seccomp")), 1, done.stderr)
        self.assertFalse(self.report()["trace"]["complete"])

    def test_strictly(self):
        self.check("strict")

    def test_by_filter(self):
        self.check("filter")


@is_root
class Dropped(LimitsCase):
    """A program that was started by root and becomes another user."""

    def test_dropped(self):
        done = self.run_target(self.reachable("privileges"), "drop")
        self.assertEqual(done.stdout, "early 10 late 2000\n")
        self.assertEqual(self.calls(), {"early": 10, "late": 1000}) # its own; its child gets to no socket of root's
        self.assertEqual(len(self.lines_said(done.stderr, "gave up its user's rights", "not traced")), 1, done.stderr)

    def test_before_its_first_call(self):
        self.run_target(self.reachable("privileges"), "drop-first")
        self.assertEqual(self.calls(), {"late": 1000})

    def reachable(self, name):
        """A copy of a target where others get to it."""
        return shutil.copy(target(name), self.box.path("work"))


@unittest.skipUnless(USER, "only root can be another user")
class Privileged(LimitsCase):
    """Programs that run with more rights than their user's: the loader puts nothing into them."""
    user = USER

    def check(self, program):
        done = self.run_target(program, "filter", options=["--trace", "all"])
        self.assertEqual(done.stdout, "early 10 late 1000\n")
        self.assertTrue(self.lines_said(done.stderr, "scry: cannot trace", "setuid, setgid or file capabilities", "Remedy"),
                        done.stderr)
        done = self.run_target("sh", "-c", f"{program} filter")
        self.assertEqual(done.stdout, "early 10 late 1000\n")

    def program(self, mode):
        """A copy of root's."""
        program = shutil.copy(target("privileges"), self.box.path("work", "privileges"))
        os.chown(program, 0, 0)
        os.chmod(program, mode)
        return program

    def test_setuid(self):
        self.check(self.program(0o4755))

    @scrytest.thorough
    def test_setgid(self):
        self.check(self.program(0o2755))

    def test_capabilities(self):
        program = self.program(0o755)
        if not shutil.which("setcap") or subprocess.run(["setcap", "cap_net_raw+ep", program], check=False).returncode:
            self.skipTest("setcap does not work here")
        self.check(program)


class StoppedMonitor(LimitsCase):
    """A monitor that is stopped (SIGSTOP) costs the job a moment, once, and its trace; not each of its processes."""

    def monitor(self):
        if not self.box.monitor_pid():
            self.run_target(target("traced"), "calls", 1)
        pid = self.box.monitor_pid()
        self.addCleanup(lambda: os.kill(pid, signal.SIGCONT))
        return pid

    def test_many_programs(self):
        monitor, traced = self.monitor(), target("traced")
        for options in ([], ["--args"], ["--trace", "off"]):
            with self.subTest(options=options):
                script = f"kill -STOP {monitor}; for i in $(seq 20); do {traced} calls 1; done; kill -CONT {monitor}"
                begun = time.monotonic()
                done = self.run_target("sh", "-c", script, options=options)
                # at a second each it were 20
                self.assertLess(time.monotonic() - begun, scrytest.room(8), done.stderr)
                self.assertEqual(done.stdout.count("calls leaf"), 20)
                if "off" not in options:
                    self.assertEqual(self.untraced(done), 20, done.stderr)
                    said = self.box.run(self.box.scry("replay", "@last")).stderr
                    self.assertIn("the monitor did not answer in time", said)
                    self.assertNotIn("compile the program", said)
                    self.assertFalse(self.report()["trace"]["complete"])

    def test_to_the_end(self):
        monitor = self.monitor()
        self.run_target("sh", "-c", f"kill -STOP {monitor}; {target('traced')} calls 1")
        os.kill(monitor, signal.SIGCONT)
        said = self.box.run(self.box.scry("replay", "@last")).stderr
        self.assertIn("was stopped", said)
        self.assertNotIn("compile the program", said)

    @scrytest.thorough
    def test_after_another_died(self):
        """The next monitor is stopped as it starts: neither the job's processes nor its end wait for it."""
        script = f"echo up; read line; for i in $(seq 200); do {target('traced')} calls 1; done"
        job = self.box.start(self.box.scry("run", "-q", "--", "sh", "-c", script), stdin=subprocess.PIPE)
        self.assertEqual(job.stdout.readline(), "up\n")
        with self.box.pause("monitor.starts") as pause:
            os.kill(self.box.monitor_pid(), signal.SIGKILL)
            second = pause.reached()
            os.kill(second, signal.SIGSTOP)
        self.addCleanup(lambda: os.kill(second, signal.SIGCONT))
        begun = time.monotonic()
        job.stdin.write("go on\n")
        job.stdin.close()
        self.assertEqual(job.stdout.read().count("calls leaf"), 200)
        self.assertEqual(job.wait(), 0)
        self.assertLess(time.monotonic() - begun, scrytest.room(6))  # each at a quarter of a second, it were 50

    def test_waiting_for_room(self):
        """Each wait has its end, and so have all of them together."""
        monitor = self.monitor()
        options = ["--trace", "fn:hot", "--overflow", "wait", "--buffer", "1M"]
        job = self.box.start(self.box.scry("run", *options, "--", "sh", "-c", "echo $$; exec \"$@\"", "sh",
                                           target("traced"), "storm", 3000000))
        wait_until(lambda: self.traced_bytes() > 0)
        os.kill(monitor, signal.SIGSTOP)
        wait_until(lambda: self.over(job), 30, "the program goes on without its monitor")
        os.kill(monitor, signal.SIGCONT)
        self.assertEqual(job.wait(), 0)

    def traced_bytes(self):
        return sum(os.path.getsize(path) for path in glob.glob(self.box.path("jobs", "*", "trace", "*", "*", "stream-0000")))

    def over(self, job):
        return job.poll() is not None


class LittleStack(LimitsCase):
    """`ulimit -s` is for the program; scry's own need more."""

    def test_all_parts(self):
        traced = target("traced")
        for size in (32, 48, 64):
            for command in (["run", "-q", "--args", "--locals", "--depth", "8"], ["run", "-q", "--trace", "off"], ["exec"]):
                with self.subTest(size=size, command=command):
                    done = self.box.run(["sh", "-c", f"ulimit -S -s {size}; exec \"$@\"", "sh",
                                         *self.box.scry(*command, "--", "sh", "-c", f"ulimit -s; {traced} calls 2")])
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertRegex(done.stdout, rf"(?s)^{size}\n.*calls leaf \d+")


scrytest.main()
