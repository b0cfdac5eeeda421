# SPDX-License-Identifier: Apache-2.0
"""`scry run` is not there for the command: exit status, signals, streams, descriptors, environment, limits."""

import ctypes
import glob
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

import scrytest
from jobtest import JobCase
from scrytest import children, process_gone, process_state, wait_until

# Says what a process finds itself in, but for what differs between any two processes.
LOOK = r"""
import json, os, resource, signal, sys
def disposition(n):
    return str(signal.getsignal(n))
with open("/proc/self/status") as file:
    status = dict(line.split(":", 1) for line in file)
descriptors = {}
for name in os.listdir("/proc/self/fd"):
    try:
        descriptors[name] = os.readlink("/proc/self/fd/" + name)
    except OSError:
        pass
descriptors = {fd: target for fd, target in descriptors.items() if not target.startswith("/proc")}
print(json.dumps({
    "argv": sys.argv[1:], "cwd": os.getcwd(), "umask": os.umask(0), "nice": os.nice(0),
    "environment": {k: v for k, v in os.environ.items() if k not in (
        "SCRY_JOB", "SCRY_AGENT_SOCKET", "SCRY_TRACE_WANTED", "SCRY_MPI", "SCRY_MPI_DIR", "SCRY_METRICS", "SCRY_PART", "SCRY_RSH_OMPI", "SCRY_RSH_HYDRA",
        "OMPI_MCA_plm_rsh_agent", "HYDRA_LAUNCHER_EXEC", "LD_PRELOAD", "ASAN_OPTIONS", "_")},
    "mask": status["SigBlk"].strip(), "ignored": status["SigIgn"].strip(), "limits": {
        name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")},
    "descriptors": descriptors, "group": os.getpgrp(), "session": os.getsid(0),
    "affinity": sorted(os.sched_getaffinity(0)), "input": sys.stdin.read()}, sort_keys=True))
"""


class RunCase(JobCase):
    def command_of(self, run):
        """The pid of the command under a started scry run."""
        return wait_until(lambda: [pid for pid in children(run.pid) if self.is_started(pid)], 20)[0]

    def is_started(self, pid):
        try:
            return "scry" not in os.path.basename(os.readlink(f"/proc/{pid}/exe"))
        except OSError:
            return False


class Status(RunCase):
    def test_exit_status(self):
        for status in (0, 1, 3, 125, 126, 127, 128, 255):
            done = self.scry_run("-q", "sh", "-c", f"exit {status}")
            self.assertEqual(done.returncode, status)
            self.assertEqual((done.stdout, done.stderr), ("", ""))
            self.assertEqual(self.report()["exit_code"], status)
            self.assertIsNone(self.report()["signal"])

    def waits_for_the_disk(self, command):
        """How often a job that fails has its job.json brought to disk at its end."""
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        folder = tempfile.mkdtemp(dir=self.box.path("work"))
        done = self.box.run(["sh", "-c", 'exec "$@" >/dev/null 2>&1', "sh",  # strace lives as long as the monitor
                             "strace", "-D", "-ff", "-y", "-e", "trace=fsync", "-o", os.path.join(folder, "synced"),
                             *self.box.scry("run", "-q", "sh", "-c", command)])
        self.assertEqual(done.returncode, 3)
        self.assertEqual(self.report()["exit_code"], 3)
        self.box.stop_monitor()
        wait_until(lambda: not list(self.box.processes("strace")))
        synced = []
        for path in glob.glob(f"{folder}/synced.*"):
            with open(path, encoding="utf-8", errors="replace") as file:
                synced += re.findall(r"^fsync\(.*job\.json.*= 0$", file.read(), re.M)
        # what is synced under its own name was written a second before, see WRITER_SYNC_NS
        return len([line for line in synced if "/job.json>" not in line])

    def test_failed_job_waits_for_the_disk_once(self):
        """At its end job.json is written twice, the second time with the cause."""
        self.assertEqual(self.waits_for_the_disk("sleep 1; /nowhere/program; exit 3"), 1)

    def test_short_job_does_not_wait_for_the_disk(self):
        for _ in range(10):  # on a busy machine it may not be short
            waits = self.waits_for_the_disk("exit 3")
            if self.report()["wall_seconds"] < 1:
                self.assertEqual(waits, 0)
                return
        self.skipTest("each of ten jobs that do nothing took a second")

    def test_killed_by_a_signal(self):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGSEGV, signal.SIGRTMIN):
            done = self.scry_run("sh", "-c", f"kill -{int(number)} $$")
            self.assertEqual(done.returncode, 128 + number)
            report = self.report()
            self.assertEqual((report["status"], report["signal"]), ("signaled", number))
            self.assertEqual(report["exit_code"], 128 + number)

    def test_status_of_a_launcher(self):
        """Above 128 it is its own, and no signal; a shell's is one."""
        for name, noted in (("mpirun", False), ("script", True)):
            program = self.box.path("work", name)
            with open(program, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\nexit 132\n")
            os.chmod(program, 0o755)
            self.assertEqual(self.scry_run("-q", program).returncode, 132)
            self.assertEqual("shell_signal" in [note["note"] for note in self.report()["warnings"]], noted)

    def test_reason_of_a_signal(self):
        """A limit, a stack that is used up, a NULL pointer; not of those that somebody sent."""
        source = self.box.path("work", "faults.c")
        with open(source, "w", encoding="ascii") as file:
            file.write("long strlen(const char *); struct three { int a, b, c; };\n"
                       "static int deep(int n) { volatile char room[100]; room[0] = n; return deep(n + 1) + room[0]; }\n"
                       "int main(int argc, char **argv) {\n"
                       "    struct three *volatile none = 0;\n"
                       "    switch (argv[1][0]) {\n    case 'd': return deep(0);\n    case 'n': return none->c;\n"
                       "    case 'w': return *(volatile char *)0x123456789000;\n"
                       "    case 'g': return *(volatile char *)0x8000000000000000;\n"
                       "    case 'z': return argc / *(volatile int *)&(int){0};\n"
                       "    case 'c': *(volatile char *)argv[0] = 0; *(volatile char *)(long)\"text\" = 0; break;\n"
                       "    case 's': return strlen((char *)none);\n"
                       "    case 'i': __builtin_trap();\n    }\n"
                       "    for (;;) ;\n}\n")
        program = self.box.path("work", "faults")
        done = self.box.run(["gcc", "-w", "-g", "-O1", "-fno-builtin", "-fno-optimize-sibling-calls", "-o", program, source])
        self.assertEqual(done.returncode, 0, done.stderr)
        core = open("/proc/sys/kernel/core_pattern", encoding="ascii").read().strip()
        logged = scrytest.can_read_kernel_log()
        for cores in (False, True):
            if not (logged if not cores else core == "core"):
                continue
            limit = f"ulimit -s 8192; {'ulimit -c unlimited; ' if cores else ''}"
            for way, reason, address, place in (
                    ("d", "stack overflow (its stack may have 8.0 MB: ulimit -s)", "0x7f", "in deep at faults.c:2"),
                    ("n", "a NULL pointer", "0x8", "in main at faults.c:7"), ("w", None, "0x123456789000", "in main at faults.c:8"),
                    ("g", "probably a pointer with a value that no address has", None, "in main at faults.c:9"),
                    ("c", None if cores else "a write to memory that may only be read", "0x", "in main at faults.c:11"),
                    ("s", "a NULL pointer", "0x0", "in main at faults.c:12" if cores else "in [a-z0-9_]*strlen[a-z0-9_]* of libc.so.6")):
                def crashed():
                    done = self.scry_run("sh", "-c", f"{limit}exec {program} {way}")
                    report = self.report()
                    return (done, report) if cores or scrytest.in_kernel_log(report["crashes"][0]["pid"]) else None

                if way == "g" and cores:  # a core file does not say it, and the log only perhaps
                    continue
                done, report = wait_until(crashed, 20, "the kernel's log says nothing of the crash")
                self.assertEqual((report["signal"], report["reason"]), (signal.SIGSEGV, reason), way)
                (crash,) = report["crashes"]
                self.assertEqual(crash.get("reason"), reason)
                self.assertEqual("address" in crash, address is not None, way)
                if reason:
                    self.assertRegex(done.stderr, rf"was killed by SIGSEGV \(Segmentation fault\)(, core dumped)?: {re.escape(reason)}\n")
                if address:
                    self.assertRegex(done.stderr, rf"crash .*SIGSEGV .*: ({reason and re.escape(reason)}, )?address {address}")
                self.assertRegex(report["last"]["reason"]["text"],
                                 rf"^faults crashed by SIGSEGV{', ' + re.escape(reason) if reason else ''}{', ' + place if place else ''}$")
            for way, reason, line in (("z", "an integer was divided by zero", 10), ("i", "a trap that the compiler put there", 13)):
                if way == "z" or not cores:
                    _, report = wait_until(crashed, 20, "the kernel's log says nothing of it")
                    self.assertEqual(report["crashes"][0]["reason"], reason)
                    self.assertEqual(report["crashes"][0]["frames"][0]["line"], line)
            for sent in "SEGV", "FPE":
                done = self.scry_run("sh", "-c", f"{limit}kill -{sent} $$")
                self.assertIsNone(self.report()["reason"])

    def test_place_in_a_thread(self):
        """The kernel's log has the thread's number: it is known of those that were sampled."""
        if not scrytest.can_read_kernel_log():
            self.skipTest("needs the kernel's log")

        def crashed():
            self.scry_run("sh", "-c", f"ulimit -c 0; exec {scrytest.example('crash')} null thread 0.3")
            crash, = self.report()["crashes"]
            thread, = (each["tid"] for each in self.report()["profile"]["threads"])
            return crash if scrytest.in_kernel_log(thread) else None

        crash = wait_until(crashed, 20, "the kernel's log says nothing of the crash")
        self.assertEqual((crash["reason"], crash["frames"][0]["function"]), ("a NULL pointer", "inner"))

    def test_stack_that_a_handler_said(self):
        """As Open MPI's does, which hides the crash from the kernel's log."""
        source = self.box.path("work", "rank.c")
        with open(source, "w", encoding="ascii") as file:
            file.write("#include <execinfo.h>\n#include <signal.h>\n#include <stdio.h>\n#include <unistd.h>\n"
                       "static void handle(int signo) {\n    void *stack[32];\n    int count = backtrace(stack, 32);\n"
                       "    char **texts = backtrace_symbols(stack, count);\n    for (int i = 1; i < count; i++)\n"
                       f'        fprintf(stderr, "[{os.uname().nodename.partition(".")[0]}:%05d] [%2d] %s\\n", getpid(), i - 1, texts[i]);\n'
                       "    signal(signo, SIG_DFL);\n    raise(signo);\n}\n"
                       "static int walk(int *volatile from) { return *from; }\n"
                       "int main(void) {\n    signal(SIGSEGV, handle);\n    return walk(0);\n}\n")
        program = self.box.path("work", "rank")
        done = self.box.run(["gcc", "-g", "-O0", "-o", program, source])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.box.run(["sh", "-c", f'ulimit -c 0; cd {self.box.path("work")} && exec "$@" 2>err', "sh", *self.box.scry("run", "-q", "--", "./rank")])
        crash, = self.report()["crashes"]
        self.assertEqual([(frame["function"], frame["line"]) for frame in crash["frames"][:2]], [("walk", 14), ("main", 17)])
        self.assertNotIn("note", crash)

    def test_stack_of_fortran(self):
        """gfortran's handler of faults cannot run without a stack: that it said nothing tells so. Of another fault it says where that was."""
        source = self.box.path("work", "array.f90")
        with open(source, "w", encoding="ascii") as file:
            file.write("program array\n integer, pointer :: p(:)\n if (command_argument_count() == 0) then\n  call work(3000000)\n else\n"
                       "  nullify(p)\n  p(3) = 4\n  print *, p(3)\n end if\ncontains\n subroutine work(n)\n  integer, intent(in) :: n\n"
                       "  real(8) :: a(n)\n  a = n\n  print *, sum(a)\n end subroutine\nend program\n")
        program = self.box.path("work", "array")
        done = self.box.run(["gfortran", "-g", "-O1", "-fstack-arrays", "-o", program, source])
        self.assertEqual(done.returncode, 0, done.stderr)
        for argument, reason in (("", r"array crashed by SIGSEGV, probably a stack overflow \(its stack may have 8\.0 MB: ulimit -s\)"),
                                 (" null", r"array crashed by SIGSEGV, (a NULL pointer, )?at array\.f90:7")):
            self.box.run(["sh", "-c", f'ulimit -s 8192; ulimit -c 0; "$0" "$@" 2>{self.box.path("work", "err")}',
                          *self.box.scry("run", "-q", "--", "sh", "-c", f"{program}{argument}; exit $?")])
            self.assertRegex(self.report()["last"]["reason"]["text"], f"^{reason}$")

    def test_reason_of_a_limit(self):
        done = self.scry_run("sh", "-c", "ulimit -t 1; while :; do :; done")
        report = self.report()
        self.assertEqual(report["signal"], signal.SIGKILL)
        self.assertRegex(report["reason"], r"^(probably )?its limit of processor time \(ulimit -t 1\)$")
        self.assertIn(f"was killed by SIGKILL (Killed): {report['reason']}\n", done.stderr)
        self.assertEqual([each for each in report["warnings"] if each["kind"] == "killed"], [])

    def test_reason_out_of_memory(self):
        """In a control group with little; of a script in which a command was in one, the kernel's log says it, too."""
        if not scrytest.can_read_kernel_log():
            self.skipTest("needs the kernel's log")
        for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            group = os.path.join(root, f"scry-test-{os.getpid()}")
            try:
                os.mkdir(group)
            except OSError:
                continue
            try:
                with open(os.path.join(group, limit), "w", encoding="ascii") as file:
                    file.write("30000000")
                hungry = "import sys; open(sys.argv[1], 'w').write('0'); bytearray(1 << 29)"
                done = self.scry_run(sys.executable, "-c", hungry, os.path.join(group, "cgroup.procs"))
                report = self.report()
                script = self.script("\"$@\"; rm -f no-such-file; echo it is incomplete; exit 5\n")
                self.scry_run("sh", script, sys.executable, "-c", hungry, os.path.join(group, "cgroup.procs"))
            except OSError:
                continue
            finally:
                os.rmdir(group)
            self.assertEqual((report["signal"], report["reason"]), (signal.SIGKILL, "out of memory"))
            self.assertIn("was killed by SIGKILL (Killed): out of memory\n", done.stderr)
            self.assertRegex(self.report()["last"]["reason"]["text"], r"^probably out of memory: the kernel killed 1 process, of \S+$")
            return
        self.skipTest("no control group with a limit of memory can be made")

    def test_not_found_and_not_executable(self):
        plain = self.box.path("work", "plain")
        with open(plain, "w", encoding="ascii") as file:
            file.write("text")
        for command, status in (("no-such-command", 127), ("/no/such/file", 127), (plain, 126), ("/", 126)):
            done = self.scry_run("-q", command)
            self.assertEqual(done.returncode, status, command)
            self.assertIn(command, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)
            self.assertEqual(self.report()["status"], "not_started")

    def test_script_without_an_interpreter_line(self):
        path = self.box.path("work", "script")
        with open(path, "w", encoding="ascii") as file:
            file.write("exit 9\n")
        os.chmod(path, 0o755)
        self.assertEqual(self.scry_run("-q", path).returncode, 9)

    def test_scry_itself_failed(self):
        os.mkdir(self.box.path("work", "full"))
        with open(self.box.path("work", "full", "file"), "w", encoding="ascii"):
            pass
        for arguments in ((), ("--nonsense", "true"), ("--sample", "x", "true"), ("--mpi", "maybe", "true"),
                          ("--trace", "bla:x", "true"), ("--depth", "99", "true"), ("--rule", "x", "true"),
                          ("--rule", "no_such_event([]) : print([])", "true"),
                          ("-o", "full", "touch", "started"), ("--config", "missing", "true")):
            done = self.scry_run(*arguments)
            self.assertEqual(done.returncode, 125, arguments)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertFalse(os.path.exists(self.box.path("work", "started")))
        self.assertEqual(self.box.run(self.box.scry("ps", "--json")).stdout.count('"id"'), 0)

    def test_off(self):
        done = self.scry_run("sh", "-c", "echo $SCRY_JOB; exit 4", env={"SCRY": "off"})
        self.assertEqual((done.returncode, done.stdout, done.stderr), (4, "\n", ""))
        self.assertEqual(os.listdir(self.box.path("jobs")), [])

    def test_without_a_monitor(self):
        """No monitor can be had: the job runs as ever, and the summary says what is missing."""
        os.remove(self.box.path("libexec", "scry-monitor"))
        # the build's own must not be found beside the program either
        program = self.box.path("work", "scry")
        with open(os.path.realpath(self.box.path("bin", "scry")), "rb") as source, open(program, "wb") as target:
            target.write(source.read())
        os.chmod(program, 0o755)
        env = {"SCRY_CONNECT": f"unix:{self.box.path('run', 'nobody')}"}
        done = self.box.run([program, "run", "sh", "-c", "echo out; exit 5"], env=env)
        self.assertEqual((done.returncode, done.stdout), (5, "out\n"))
        self.assertIn("no monitor", done.stderr)
        report = self.report()
        self.assertEqual(report["exit_code"], 5)
        self.assertFalse(report["processes_listed_singly"])
        self.assertEqual([process["name"] for process in report["processes"]], ["sh"])
        self.assertGreater(report["peak_rss_bytes"], 0)
        done = self.box.run([program, "run", "-q", "sh", "-c", "echo out; exit 5"], env=env)
        self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (5, "out\n", 1), done.stderr)
        self.assertRegex(done.stderr, "^scry: no monitor: only the command as a whole is known")

    def test_runtime_directory_of_all(self):
        """What is wrong with it is said once, though neither the agent nor the monitor can be had."""
        shared = self.box.path("work", "shared")
        os.mkdir(shared, 0o755)
        done = self.box.run(self.box.scry("run", "true"), env={"SCRY_RUNTIME_DIR": shared})
        self.assertEqual((done.returncode, done.stderr.count("others can enter")), (0, 1), done.stderr)


class Untouched(RunCase):
    def look(self, command, **options):
        done = self.box.run(command, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def compare(self, program=(), **options):
        python = [sys.executable, "-I", "-c", LOOK, "a", "b c", ""]
        alone = self.look([*program, *python], **options)
        watched = self.look([*program, *self.box.scry("run", "-q"), *python], **options)
        # in a pipe, names differ from run to run
        for found in (alone, watched):
            found["descriptors"] = {fd: target.split(":")[0] for fd, target in found["descriptors"].items()}
            found.pop("session" if not program else "nothing", None)
            found.pop("group", None)
        self.assertEqual(alone, watched)
        return watched

    def test_everything(self):
        self.compare(input="from the outside")

    def test_inherited_descriptors(self):
        """PMI_FD and the like: descriptors without close-on-exec reach the command under their numbers."""
        ours, theirs = os.pipe()
        with open("/dev/null", "rb") as file:
            os.dup2(theirs, 77)
            found = self.compare(input="", pass_fds=(ours, 77, file.fileno()))
            self.assertEqual(found["descriptors"]["77"], "pipe")
        for fd in (ours, theirs, 77):
            os.close(fd)

    def test_signals_and_limits(self):
        """Ignored and blocked signals, limits, priority and umask are inherited."""
        def prepare():
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM})
            resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.umask(0o27)
            os.nice(3)

        self.compare(input="", preexec_fn=prepare, restore_signals=False)

    def test_closed_streams(self):
        script = "exec 3>&1 0<&- 1>&- 2>&-; "
        look = "ls -l /proc/self/fd | sed -n 's/.* \\([0-9]*\\) -> \\(pipe\\|socket\\|[^ ]*\\).*/\\1 \\2/p' >&3"
        inner = f"sh -c \"{look}\""
        quoted = inner.replace('"', '\\"')
        alone = self.box.run(["sh", "-c", script + f'sh -c "{quoted}"'])
        watched = self.box.run(["sh", "-c", script + f'"$0" run sh -c "{quoted}"', self.box.scry()[0]])
        listing = re.compile("/proc/[0-9]+/fd")  # of ls itself
        self.assertEqual(listing.sub("", alone.stdout), listing.sub("", watched.stdout))
        self.assertEqual(watched.stderr, "")

    def test_output_goes_straight_through(self):
        done = self.scry_run("sh", "-c", "cat; echo err >&2", input="line\0\n" * 1000)
        self.assertEqual(done.stdout, "line\0\n" * 1000)
        lines = done.stderr.splitlines()
        self.assertRegex(lines[0], r"^scry: job \d{8}T\d{6}-\S+-\d+-[0-9a-f]{6}$")
        self.assertEqual(lines[1], "err")
        self.assertRegex(lines[2], r"^scry: job \S+ ended: exit status 0$")

    def test_job_directory_in_the_environment(self):
        done = self.scry_run("-q", "-o", "here", "sh", "-c", 'echo "$SCRY_JOB"; ls "$SCRY_JOB"')
        directory, *files = done.stdout.split()
        self.assertEqual(os.path.realpath(directory), os.path.realpath(self.box.path("work", "here")))
        self.assertEqual(files, ["job.json", "spool"])
        self.assertEqual(self.report("here")["exit_code"], 0)
        self.assertEqual(sorted({*os.listdir(directory)} - {"profile.json"}), ["job.json", "report.txt", "spool"])
        self.assertEqual(os.stat(directory).st_mode & 0o777, 0o700)

    def test_broken_pipe(self):
        """SIGPIPE works in the job, and its absence in scry run harms nobody."""
        done = self.box.run(["sh", "-c", '"$0" run sh -c "yes; echo $? >&2" 2>err | head -1; cat err',
                             self.box.scry()[0]])
        self.assertIn("y\n", done.stdout)
        run = self.start_run("sh", "-c", "echo; read line; exit 6", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        run.stdout.readline()
        run.stderr.close()  # nobody will read the summary
        run.stdin.write("go\n")
        run.stdin.close()
        self.assertEqual(run.wait(20 * scrytest.SCALE), 6)


class Secrets(RunCase):
    def all_of_a_job(self, *options):
        """All that is shown of a job with a secret, of which it starts processes and one crashes, and all files of it."""
        with open(self.box.path("work", "job.sh"), "w", encoding="ascii") as file:
            file.write('sh -c "kill -ABRT \\$\\$" child "$@"\n'
                       'sh -c "while ! [ -e stop ]; do sleep 0.01; done" child "$@"\n')
        run = self.start_run("--sample", "0.01", *options, "sh", "job.sh", "--password=CANARY", "--token", "CANARY",
                             stderr=subprocess.PIPE)
        self.job_records(lambda records: '"sample"' in records)
        shown = [self.scry(*command).stdout for command in (["ps"], ["ps", "--json"], ["top", "--once", "@last"])]
        with open(self.box.path("work", "stop"), "w", encoding="ascii"):
            pass
        self.assertEqual(run.wait(20 * scrytest.SCALE), 0)
        shown += [run.stdout.read(), run.stderr.read()]
        for command in (["ps", "--all"], ["report", "@last"], ["report", "--json", "@last"], ["replay", "@last"]):
            shown.append(self.box.run(self.box.scry(*command), merged=True).stdout)
        for folder, _, names in os.walk(self.box.path("jobs")):
            for name in names:
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    shown.append(file.read())
        return "\n".join(shown)

    def job_records(self, enough):
        def look():
            paths = glob.glob(self.box.path("jobs", "*", "spool", "records.jsonl"))
            if not paths:
                return False
            with open(paths[0], encoding="utf-8") as file:
                return enough(file.read())
        wait_until(look)

    def test_hidden_wherever_recorded_or_shown(self):
        shown = self.all_of_a_job()
        self.assertNotIn("CANARY", shown)
        self.assertIn("sh job.sh --password=*** --token ***", shown)

    def test_shown_if_wanted(self):
        """So the test above would have found them."""
        self.assertGreater(self.all_of_a_job("--hide-args", "off").count("--password=CANARY"), 6)


class Signals(RunCase):
    TRAP = 'for name in TERM USR1 HUP ABRT SEGV; do trap "echo $name" $name; done; echo ready; ' \
           'while ! [ -e stop ]; do sleep 0.01; done; exit 5'

    def test_passed_on(self):
        run = self.start_run("-q", "sh", "-c", self.TRAP)
        self.assertEqual(run.stdout.readline(), "ready\n")
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGABRT, signal.SIGSEGV):
            os.kill(run.pid, number)
            self.assertEqual(run.stdout.readline(), number.name[3:] + "\n")
        with open(self.box.path("work", "stop"), "w", encoding="ascii"):
            pass
        self.assertEqual(run.wait(20 * scrytest.SCALE), 5)

    # Counts the signals 40 (which queue up) until 41 comes.
    COUNT = """
import signal
count = 0
signal.pthread_sigmask(signal.SIG_BLOCK, {40, 41})
print('ready', flush=True)
while signal.sigwait({40, 41}) == 40:
    count += 1
print(count)
"""

    def test_group_gets_signal_once(self):
        """What is sent to the process group has reached the command; what is sent to scry run, has not."""
        for apart in (False, True):
            leave = "import os; os.setpgid(0, 0)\n" if apart else ""
            run = self.start_run("-q", sys.executable, "-I", "-c", leave + self.COUNT)
            self.assertEqual(run.stdout.readline(), "ready\n")
            for _ in range(20):
                os.killpg(run.pid, 40)
                os.kill(run.pid, 40)
            os.kill(run.pid, 41)
            self.assertEqual(run.stdout.readline(), "40\n", "in a group of its own" if apart else "in ours")
            self.assertEqual(run.wait(20 * scrytest.SCALE), 0)

    # Says which signals come, each by itself.
    SAY = """
import signal
every = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGINT}
signal.pthread_sigmask(signal.SIG_BLOCK, every)
print('ready', flush=True)
while True:
    print(int(signal.sigwait(every)), flush=True)
"""
    END = 41  # comes after whatever came before it

    def start_saying(self, **options):
        run = self.start_run("-q", sys.executable, "-I", "-c", self.SAY, **options)
        self.assertEqual(run.stdout.readline(), "ready\n")
        return run

    def check_said(self, run, send, number):
        """Sent to scry run or to its group, it reaches the command, and only once."""
        send(run.pid, number)
        said = [run.stdout.readline()] if send is os.killpg else []  # a second one can be told when the first is taken
        os.kill(run.pid, self.END)
        while f"{self.END}\n" not in said:
            said.append(run.stdout.readline())
        self.assertEqual(said, [f"{int(number)}\n", f"{self.END}\n"], f"{number!r} by {send.__name__}")

    def end_saying(self, run):
        os.kill(self.command_of(run), signal.SIGKILL)
        self.assertEqual(run.wait(20 * scrytest.SCALE), 137)

    def test_each_signal_comes_once(self):
        """Those that ask for a stop or for going on take each other back; some concern scry run, too."""
        run = self.start_saying()
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTOU, signal.SIGCHLD, signal.SIGUSR1, signal.SIGTSTP,
                       signal.SIGCONT, signal.SIGTTIN, signal.SIGCONT):
            for send in (os.kill, os.killpg):
                self.check_said(run, send, number)
        self.end_saying(run)

    def test_group_stopped_and_scry_run_continued(self):
        """The witness of signals to the group is stopped, too."""
        run = self.start_saying()
        os.killpg(run.pid, signal.SIGSTOP)
        for pid in (run.pid, *children(run.pid)):
            wait_until(lambda: process_state(pid) == "T")
        self.check_said(run, os.kill, signal.SIGCONT)
        for number in (signal.SIGUSR1, signal.SIGCONT):
            for send in (os.kill, os.killpg):
                self.check_said(run, send, number)
        self.end_saying(run)

    def test_own_broken_pipe_is_not_passed_on(self):
        reading, writing = os.pipe()
        os.close(reading)
        with open(writing, "wb") as errors:
            run = self.box.start(self.box.scry("run", sys.executable, "-I", "-c", self.SAY), stderr=errors)
            self.assertEqual(run.stdout.readline(), "ready\n")
            self.check_said(run, os.kill, signal.SIGPIPE)
            self.end_saying(run)
            def limit():  # the command runs unwatched, instead of scry run, which could not say so
                resource.setrlimit(resource.RLIMIT_NOFILE, (6, 6))
            run = self.start_run("sh", "-c", "exit 6", stderr=errors, preexec_fn=limit)
            self.assertEqual(run.wait(20 * scrytest.SCALE), 6)

    def test_alarm_set_before(self):
        """A timer that was running when scry run was executed is the command's."""
        look = "import signal; print(*(round(signal.getitimer(which)[0]) for which in (0, 1, 2)))"
        def prepare():
            signal.setitimer(signal.ITIMER_REAL, 1000)
            signal.setitimer(signal.ITIMER_PROF, 2000)
        done = self.scry_run("-q", sys.executable, "-I", "-c", look, preexec_fn=prepare)
        self.assertRegex(done.stdout, r"^(1000|9\d\d) 0 2000$")

    def test_term_ends_the_command(self):
        run = self.start_run("-q", "sleep", "1000")
        self.command_of(run)
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait(20 * scrytest.SCALE), 128 + signal.SIGTERM)
        self.assertEqual(self.report()["signal"], signal.SIGTERM)

    def test_queued_value(self):
        # siginfo_t as in the kernel's asm-generic/siginfo.h, since Python does not tell the value
        program = ("import ctypes, signal; signal.pthread_sigmask(signal.SIG_BLOCK, {40}); print('ready', flush=True);"
                   "info = (ctypes.c_int * 32)(); mask = (ctypes.c_ulong * 16)(1 << 39);"
                   "ctypes.CDLL(None).sigwaitinfo(mask, info); print(info[0], info[2], info[6], flush=True)")
        for code, value, send in ((0, None, lambda pid: os.kill(pid, 40)),
                                  (-1, 7, lambda pid: ctypes.CDLL(None).sigqueue(pid, 40, ctypes.c_void_p(7)))):
            run = self.start_run("-q", sys.executable, "-I", "-c", program)
            self.assertEqual(run.stdout.readline(), "ready\n")
            send(run.pid)
            told = [int(word) for word in run.stdout.readline().split()]
            self.assertEqual(told[:2], [40, code])
            if value is not None:
                self.assertEqual(told[2], value)

    def test_stopped_and_continued_from_outside(self):
        """Without a terminal a stop of the command is nobody's but its own."""
        run = self.start_run("-q", "sleep", "1000")
        pid = self.command_of(run)
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: process_state(pid) == "T")
        self.assertIn(process_state(run.pid), "SRD")
        os.kill(run.pid, signal.SIGCONT)  # passed on
        wait_until(lambda: process_state(pid) == "S")
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(run.wait(20 * scrytest.SCALE), 137)

    def test_orphans_are_left_alone(self):
        done = self.scry_run("sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!; sleep 0.2")
        pid = int(done.stdout)
        try:
            self.assertEqual(done.returncode, 0)
            self.assertFalse(process_gone(pid))
            self.assertIn("1 still running", done.stderr)
            self.assertEqual(self.report()["left_running"], 1)
            self.assertNotIn("left_running", [warning["note"] for warning in self.report()["warnings"]])
        finally:
            os.kill(pid, signal.SIGKILL)

    def test_orphans_of_what_was_ended(self):
        """A script that SIGTERM ends leaves what it waits for: nobody wanted that to go on, so its names are said."""
        with open(self.box.path("work", "job.sh"), "w", encoding="ascii") as script:
            script.write("sh -c 'echo $$ >pid.new; mv pid.new pid; exec sleep 1000 >&- 2>&-'\n")
        run = self.start_run("sh", "job.sh", stderr=subprocess.PIPE)
        wait_until(lambda: os.path.exists(self.box.path("work", "pid")), 20, "the job starts")
        with open(self.box.path("work", "pid"), encoding="ascii") as file:
            pid = int(file.read())
        try:
            wait_until(lambda: "sleep" in [process["name"] for process in self.report()["processes"]], 20, "it is seen")
            os.kill(run.pid, signal.SIGTERM)
            said = run.communicate(timeout=20 * scrytest.SCALE)[1]
            self.assertIn(f"when it was ended, 1 of its processes still ran: sleep (pid {pid})", " ".join(said.split()))
        finally:
            os.kill(pid, signal.SIGKILL)

    def test_orphans_have_the_parent_that_they_would_have(self):
        with open(self.box.path("work", "orphan"), "w", encoding="ascii") as script:
            script.write("while kill -0 $1; do sleep 0.01; done 2>/dev/null\n"
                         "ps -o ppid= -p $$ >parent.new; mv parent.new parent\n")
        root = "sh -c 'sh orphan $$ & exit 0'; until [ -e parent ]; do sleep 0.01; done; cat parent; rm parent"
        alone = self.box.run(["sh", "-c", root])
        watched = self.scry_run("-q", "sh", "-c", root)
        self.assertEqual(alone.stdout, watched.stdout)

    def test_orphans_are_counted(self):
        """A daemon's time belongs to the job, also when its parent ended before it."""
        burn = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
        script = f"(({sys.executable} -I -c '{burn}' && touch done) &) ; while ! [ -e done ]; do sleep 0.02; done"
        self.assertEqual(self.scry_run("sh", "-c", script).returncode, 0)
        self.assertGreater(self.report()["cpu_seconds"], 0.29)


if __name__ == "__main__":
    scrytest.main()
