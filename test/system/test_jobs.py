# SPDX-License-Identifier: Apache-2.0
"""Reports about jobs: following process trees, `scry report`, `scry ps`, `scry top --once`, their schemas."""

import json
import os
import re
import signal
import subprocess
import sys

import scrytest
from jobtest import JobCase
from schematest import schema, violations
from scrytest import process_gone, wait_until

# An ordinary user may not get to the one that runs the tests.
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable


class CheckedCase(JobCase):
    def checked(self, name, *command):
        done = self.box.run(self.box.scry(*command))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        value = json.loads(done.stdout)
        self.assertEqual(list(violations(value, schema(name))), [])
        return value

    def report(self, job="@last"):
        return self.checked("report", "report", "--json", job)


class Checker(scrytest.TestCase):
    def test_finds_what_is_wrong(self):
        """The schema checker itself."""
        rule = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0}}, "required": ["a"],
                "additionalProperties": False}
        self.assertEqual(list(violations({"a": 1}, rule)), [])
        for bad in ({}, {"a": -1}, {"a": "1"}, {"a": True}, {"a": 1, "b": 2}, []):
            self.assertEqual(len(list(violations(bad, rule))), 1, bad)


class Following(CheckedCase):
    def test_every_process_is_counted(self):
        """Also those that live for a millisecond, with their times; with perf."""
        done = self.scry_run("sh", "-c", "for i in $(seq 50); do /bin/true; done; sleep 0.1; exit 2")
        self.assertEqual(done.returncode, 2)
        report = self.report()
        if not report["processes_listed_singly"]:
            self.skipTest("perf is refused here: " + done.stderr)
        counts = {command["name"]: command["count"] for command in report["commands"]}
        self.assertEqual(counts, {"true": 50, "seq": 1, "sleep": 1, "sh": 1})
        self.assertEqual(report["process_count"], 53)
        self.assertEqual(report["processes_at_once"], 2)
        self.assertEqual(len(report["processes"]), 53)
        shell, = [process for process in report["processes"] if process["name"] == "sh"]
        self.assertEqual(shell["exit_code"], 2)
        self.assertEqual({process["ppid"] for process in report["processes"] if process["name"] == "true"},
                         {shell["pid"]})
        self.assertIn("true x 50", done.stderr)

    def test_many_on_all_processors(self):
        """None of very many is missing that start and end on several processors at once: of more than a buffer of events holds."""
        count = scrytest.rounds(1000, 2000)
        self.assertEqual(self.scry_run("-q", "sh", "-c", f"seq {count} | xargs -P4 -n1 true").returncode, 0)
        report = self.report()
        if not report["processes_listed_singly"]:
            self.skipTest("perf is refused here")
        counts = {command["name"]: command["count"] for command in report["commands"]}
        self.assertEqual(counts, {"true": count, "seq": 1, "xargs": 1, "sh": 1})
        self.assertEqual(report["process_count"], count + 3)

    def test_threads_memory_and_time(self):
        program = ("import threading, time\nblock = bytearray(80 << 20)\n"
                   "threads = [threading.Thread(target=time.sleep, args=(0.8,)) for _ in range(7)]\n"
                   "[thread.start() for thread in threads]\n"
                   "end = time.process_time() + 0.4\nwhile time.process_time() < end: pass\n"
                   "[thread.join() for thread in threads]\n")
        self.assertEqual(self.scry_run(PYTHON, "-I", "-c", program).returncode, 0)
        report = self.report()
        self.assertGreater(report["peak_rss_bytes"], 80 << 20)
        self.assertLess(report["peak_rss_bytes"], 160 << 20)
        self.assertGreaterEqual(report["peak_tree_rss_bytes"], report["peak_rss_bytes"])
        self.assertGreater(report["cpu_seconds"], 0.39)
        self.assertGreater(report["wall_seconds"], 0.79)
        self.assertEqual(max(process["threads"] for process in report["processes"]), 8)

    def test_shared_memory(self):
        """Six workers of fork that share 100 MB have them once. (So little that a look at some of them uses up no credit.)"""
        program = ("import os, pathlib, signal, time\n"
                   "block = b'x' * (100 << 20)\n"
                   "workers = []\n"
                   "for _ in range(6):\n"
                   "    pid = os.fork()\n"
                   "    if pid == 0: signal.pause()\n"
                   "    workers.append(pid)\n"
                   "spool = pathlib.Path(os.environ['SCRY_JOB'], 'spool', 'records.jsonl')\n"
                   "def told(line): return b'\"type\":\"memory\"' in line and b'\"processes\":7' in line\n"
                   "while not any(map(told, spool.read_bytes().splitlines())): time.sleep(0.05)\n"
                   "for pid in workers: os.kill(pid, 9); os.waitpid(pid, 0)\n")
        done = self.scry_run(PYTHON, "-I", "-c", program)
        report = self.report()
        self.assertGreater(report["peak_tree_rss_bytes"], 600 << 20)
        self.assertGreater(report["peak_tree_pss_bytes"], 100 << 20)
        self.assertLess(report["peak_tree_pss_bytes"], 200 << 20)
        self.assertRegex(done.stderr, r"in one process, 1\d\d MB in all together \([678]\d\d MB if shared pages count for each process\)")
        self.assertRegex(self.scry("diff", "@last", "@last").stdout, r"(?m)^peak in all +1\d\d MB +1\d\d MB ")

    def test_spike(self):
        """A peak between two samples is the kernel's to tell."""
        program = "import time\ntime.sleep(0.1)\nblock = bytearray(100 << 20)\ndel block\n"
        self.scry_run("-q", "--sample", "60", PYTHON, "-I", "-c", program)
        self.assertGreater(self.report()["peak_rss_bytes"], 100 << 20)

    def test_small_process_is_not_charged_with_scry(self):
        """A forked child starts with its parent's size; the report has the command's own."""
        self.scry_run("-q", "sleep", "0.3")
        self.assertLess(self.report()["peak_rss_bytes"], 3 << 20)

    @scrytest.thorough
    def test_ranks(self):
        done = self.scry_run("mpirun", "--oversubscribe", "-n", 2, scrytest.example("stommel"), 60, 60, 500)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("equal", done.stdout)
        names = [process["name"] for process in self.report()["processes"]]
        self.assertEqual(names.count("stommel"), 2)
        self.assertEqual(names.count("mpirun"), 1)

    def test_node(self):
        self.scry_run("-q", "sleep", "0.1")
        node = self.report()["node"]
        self.assertEqual(node["host"], os.uname().nodename)
        self.assertEqual(node["cpus"], os.sysconf("SC_NPROCESSORS_ONLN"))
        self.assertEqual(node["memory_bytes"], os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        system = self.records("sample")[0]["system"]  # caches can be had, and are not free
        with open("/proc/meminfo", encoding="ascii") as file:
            text = file.read()
        cached, shared = (1024 * int(re.search(rf"^{name}: +(\d+) kB", text, re.M).group(1)) for name in ("Cached", "Shmem"))
        if cached - shared > 512 << 20:
            self.assertGreater(system["memory_available_bytes"], system["memory_free_bytes"])
        self.assertLess(system["memory_available_bytes"], node["memory_bytes"])

    def test_names_that_are_no_text(self):
        """Bytes that are no UTF-8 and control characters in arguments and names harm nobody."""
        done = self.scry_run("--name", "a\033[31mb", "sh", "-c", "exit 0", b"\xff\xfe\n".decode("latin-1"))
        self.assertNotIn("\033", done.stderr)
        self.assertEqual(self.report()["name"], "a\033[31mb")
        self.assertNotIn("\033", self.box.run(self.box.scry("report", "@last")).stdout)


class OrdinaryUser(Following):
    """The same where perf may be refused."""

    user = scrytest.Sandbox.ordinary_user()

    def test_ranks(self):
        self.skipTest("done as root")

    @scrytest.thorough
    def test_many_on_all_processors(self):
        super().test_many_on_all_processors()


class Listing(CheckedCase):
    def jobs(self, *arguments):
        return self.checked("ps", "ps", "--json", *arguments)["jobs"]

    def test_ends_meanwhile(self):
        """A job that ends between the look at its description and the one at its scry run has ended, and is not lost."""
        pause = self.box.pause("info.between-looks")
        run = self.start_run("-q", "cat", stdin=subprocess.PIPE)
        wait_until(lambda: [job for job in self.jobs() if job["state"] == "running" and job["processes"]])
        with pause:
            ps = self.box.start(self.box.scry("ps", "--json"))
            pause.reached()
            run.stdin.close()
            self.assertEqual(run.wait(), 0)
            pause.release()
            job, = json.loads(ps.stdout.read())["jobs"]
        self.assertEqual((job["state"], job["status"], job["exit_code"]), ("ended", "exited", 0))

    def test_running_and_ended(self):
        self.scry_run("-q", "--name", "first", "sh", "-c", "exit 3")
        run = self.box.start(self.box.scry("run", "-q", "--name", "second", "sleep", "1000"))
        # the first record of it may be from before it executes the program
        job = wait_until(lambda: [job for job in self.jobs() if job["state"] == "running" and
                                  [process["name"] for process in job["processes"]] == ["sleep"]])[0]
        self.assertEqual((job["name"], job["exit_code"], job["status"]), ("second", None, "running"))
        # the first sample may be of a program that is still being loaded
        listing = wait_until(lambda: re.search(r"(?ms)\A.*^ +\d+ S .*\Z", self.box.run(self.box.scry("ps")).stdout))[0]
        self.assertRegex(listing, r"(?m)^\S+ +running .* second$")
        self.assertRegex(listing, r"(?m)^ +\d+ S .* sleep$")
        self.assertRegex(listing, r"(?m)^\S+ +exit 3 .* first$")
        running = self.report(job["id"])
        self.assertEqual((running["status"], running["exit_code"]), ("running", None))
        once = self.box.run(self.box.scry("top", "--once", job["id"][:-1]))
        self.assertEqual(once.returncode, 0, once.stderr)
        lines = once.stdout.splitlines()
        self.assertRegex(lines[0], r"^scry \S+ second  running")
        # where there is no terminal, lines are whole: that of the node's health is longer the more is short there
        self.assertLessEqual(max(len(line) for line in lines if not line.startswith("health ")), 80)
        self.assertTrue(any(re.search(r"S +\d.* sleep$", line) for line in lines), once.stdout)
        picture = self.checked("top", "top", "--json", "@last")
        self.assertEqual((picture["status"], [each["name"] for each in picture["processes"]]), ("running", ["sleep"]))
        os.kill(run.pid, signal.SIGTERM)
        run.wait()
        self.assertEqual([job["state"] for job in self.jobs()], ["ended", "ended"])
        self.assertEqual(self.jobs()[0]["signal"], signal.SIGTERM)
        self.assertEqual(self.box.run(self.box.scry("top", "@last")).returncode, 0)
        self.assertEqual(self.checked("top", "top", "--json", "@last")["status"], "signaled")

    def test_stopped_monitor(self):
        """What only the monitor knows is not missing without a word."""
        self.scry_run("-q", "true")
        run = self.box.start(self.box.scry("run", "-q", "sleep", "1000"))
        wait_until(lambda: [job for job in self.jobs() if job["state"] == "running" and job["processes"]])
        monitor = self.box.monitor_pid()
        os.kill(monitor, signal.SIGSTOP)
        for command in (("top", "--once", "@last"), ("ps",)):
            done = self.box.run(self.box.scry(*command))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("sleep", done.stdout)
            self.assertIn(f"the monitor (pid {monitor}) was stopped: `kill -CONT {monitor}` lets it go on", done.stderr)
        os.kill(monitor, signal.SIGCONT)
        self.assertEqual(self.box.run(self.box.scry("top", "--once", "@last")).stderr, "")
        os.kill(run.pid, signal.SIGTERM)
        run.wait()

    def test_crash(self):
        self.scry_run("-q", "--crash-stack", scrytest.example("crash"))
        crash, = self.report()["crashes"]
        self.assertEqual(crash["frames"][0]["function"], "inner")

    def test_diff(self):
        self.scry_run("-q", "-o", "a", "sleep", "0.1")
        twice = 2 * self.report("a")["wall_seconds"]  # which is more than 0.1 where processors are wanted
        self.scry_run("-q", "-o", "b", "sh", "-c", f"sleep {twice:.3f}; exit 2")
        diff = self.checked("report-diff", "diff", "--json", "a", "b")
        wall, = [value for value in diff["values"] if value["name"] == "wall_seconds"]
        self.assertGreater(wall["ratio"], 1.5)
        self.assertEqual((diff["a"]["exit_code"], diff["b"]["exit_code"]), (0, 2))
        self.scry_run("-q", "-o", "c", "sh", "-c", "kill -9 $$")
        killed = self.checked("report-diff", "diff", "--json", "a", "c")
        self.assertEqual([killed[run]["signal"] for run in "ab"], [None, 9])
        self.assertEqual((diff["a"]["functions_complete"], diff["b"]["functions_complete"]), (None, None))
        text = self.box.run(self.box.scry("diff", "a", "b")).stdout
        self.assertEqual(text.splitlines()[0], diff["verdict"])
        self.assertTrue(diff["verdict"].startswith("B failed, A did not: "), text)
        self.assertRegex(text, r"(?m)^end +exit +0 +exit +2$")
        self.assertRegex(text, r"(?m)^wall time .*\+\d+\.\d%$")

    def test_bytes(self):
        """What is read and written, to the last process, however short: of a pipe both ends. The data line is of jobs with much."""
        self.scry_run("-q", "sh", "-c", "for each in 1 2 3 4 5 6 7 8; do head -c 500000 /dev/zero | cat >copy; done")
        bytes_of = self.report()["io"]
        for way in "read_bytes", "written_bytes":
            self.assertGreaterEqual(bytes_of[way], 8000000)
            self.assertLess(bytes_of[way], 10000000)
        report = self.box.run(self.box.scry("report", "@last")).stdout
        self.assertNotIn("  data  ", report)
        if os.getuid() == 0:  # the kernel tells each process's at its end
            commands = {command["name"]: command for command in self.report()["commands"]}
            self.assertEqual(commands["head"]["written_bytes"], 8 * (500000 // 1024 * 1024))
            self.assertGreaterEqual(commands["cat"]["written_bytes"], 8 * (500000 // 1024 * 1024))
            self.assertLess(commands["cat"]["read_bytes"], 4500000)
            self.assertFalse(commands["cat"]["bytes_sampled"])
            self.assertRegex(report, r"(?m)^  head +8 .* 3\.8 MB ")
        self.scry_run("-q", "sh", "-c", "head -c 120000000 /dev/zero >/dev/null")
        self.assertRegex(self.box.run(self.box.scry("report", "@last")).stdout, r"(?m)^  data +read 11[45] MB, wrote 11[45] MB; from disks ")

    def files(self):
        """{(file, program): (bytes read, bytes written)} of the last job, in its own folder."""
        work = os.path.realpath(self.box.path("work"))
        return {(os.path.relpath(row["path"], work), row["program"]): (row["read_bytes"], row["written_bytes"])
                for row in self.report()["files"] if row["path"].startswith(work)}

    def test_files(self):
        """By calls, by streams of the C library, in and out of standard streams, in short processes; of a script as of what it starts."""
        script = self.script("""
            dd if=/dev/zero of=a bs=100000 count=10 2>dd.log
            cp a b
            cat b >>c
            for each in 1 2 3; do head -c 1000 a; echo ok; done >d
            tr '\\\\0' x <a | fold >e
            sort <e >f
            awk '{print}' e >g
            rm a && echo two >a
            awk 'BEGIN { print "12345"; fflush(); system("head -c 5000 /dev/zero"); print "6789" }' >h
            """)
        plain = self.scry_run("-q", "sh", script)
        counted = self.scry_run("-q", "--files", "sh", script)
        self.assertEqual((counted.returncode, counted.stdout, counted.stderr), (0, plain.stdout, plain.stderr))
        size, folded, files = 1000000, os.path.getsize(self.box.path("work", "e")), self.files()
        for name, program, expected in (
                ("a", "dd", (0, size)), ("a", "cp", (size, 0)), ("b", "cp", (0, size)), ("b", "cat", (size, 0)),
                ("c", "cat", (0, size)), ("d", "head", (0, 3000)), ("d", "sh", (0, 9)), ("a", "tr", (size, 0)),
                ("e", "fold", (0, folded)), ("e", "sort", (folded, 0)), ("f", "sort", (0, folded + 1)), ("e", "awk", (folded, 0)),
                ("g", "awk", (0, folded + 1)), ("a", "sh", (0, 4)),
                ("h", "awk", (0, 11)), ("h", "head", (0, 5000))):  # they end the last line
            self.assertEqual(files[name, program], expected, (name, program))
        self.assertEqual(files["a", "head"][1], 0)
        self.assertGreaterEqual(files["a", "head"][0], 3000)
        self.assertRegex(self.scry("report", "@last").stdout, r"(?m)^  977 KB +- +cp +\d+  /.*/a$")

    def test_files_of_streams(self):
        """A stream that reads, writes, seeks, appends; what a child of it writes is the child's; errno and places are as without."""
        source = self.script(r"""
            #include <errno.h>
            #include <stdio.h>
            #include <sys/wait.h>
            #include <unistd.h>
            int main(void)
            {
                char line[100];
                for (int child = 0; child < 2; child++) { /* two that append by turns */
                    FILE *mine = fopen("both", "a");
                    fprintf(mine, "%09d\n", 1);
                    fflush(mine);
                    if (fork() == 0) {
                        mine = fopen("both", "a");
                        for (int i = 0; i < 1000; i++) {
                            fprintf(mine, "%099d\n", i);
                            fflush(mine);
                        }
                        return fclose(mine);
                    }
                    wait(NULL);
                    fprintf(mine, "%09d\n", 2);
                    fflush(mine);
                    fprintf(mine, "%09d\n", 3);
                    fclose(mine);
                }
                FILE *out = fopen("out", "w"), *more;
                for (int i = 0; i < 1000; i++)
                    fprintf(out, "%098d\n", i);
                fflush(out);
                if (fork() == 0) {
                    fprintf(out, "%0499d\n", 1);
                    return fclose(out);
                }
                wait(NULL);
                fclose(out);
                more = fopen("out", "a");
                fputs("the end\n", more);
                fclose(more);
                FILE *in = fopen("out", "r");
                while (fgets(line, sizeof line, in))
                    continue;
                rewind(in);
                if (!fgets(line, sizeof line, in) || ftell(in) != 99)
                    return 1;
                fclose(in);
                FILE *one = fopen("one", "w"), *two = fopen("two", "w"), *again = fopen("three", "w");
                fputs("12345\n", one);
                fprintf(two, "%099d\n", 2);
                fflush(one), fflush(two);
                dup2(fileno(two), fileno(one));
                fclose(one), fclose(two);
                fputs("abc\n", again);
                again = freopen("four", "w", again);
                fputs("abcdefg\n", again);
                fclose(again);
                FILE *inside = fmemopen(line, sizeof line, "r");
                errno = 0;
                rewind(inside);
                if (errno || fseek(inside, 1, SEEK_SET) || errno || fclose(inside) || errno)
                    return 3;
                errno = 7;
                if (write(-1, "x", 1) != -1 || errno != EBADF || close(999) != -1 || errno != EBADF || fopen("none", "r"))
                    return 2;
                puts("done");
                return 0;
            }
            """, "streams.c")
        program = self.box.path("streams")
        subprocess.run(["cc", "-O1", "-o", program, source], check=True)
        self.assertEqual(self.scry_run("-q", "--files", program).stdout, "done\n")
        read, written = self.files()["out", "streams"]
        self.assertEqual(written, 99000 + 500 + 8)
        self.assertIn(read - written, (4096, 99))
        self.assertEqual([self.files()[name, "streams"] for name in ("one", "two", "three", "four", "both")],
                         [(0, 6), (0, 100), (0, 4), (0, 8), (0, 2 * 100030)])

    def test_files_where_calls_are_forbidden(self):
        """A process that gives up rights may be killed for a call that it does not expect: it is left alone from there."""
        text = """
            import ctypes
            open("before", "w").write("x" * 5000)
            ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
            open("after", "w").write("x" * 5000)
            """
        self.scry_run("-q", "--files", "/usr/bin/python3", self.script(text, "give_up.py"))
        files = self.files()
        self.assertEqual([files.get((name, "python3")) for name in ("before", "after")], [(0, 5000), None])
        source = self.script(r"""
            #include <linux/filter.h>
            #include <linux/seccomp.h>
            #include <sys/prctl.h>
            #include <sys/syscall.h>
            #include <unistd.h>
            int main(void) /* what it executes may not call statx, as we do */
            {
                struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                                             BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_statx, 0, 1),
                                             BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                                             BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
                struct sock_fprog program = {4, code};
                if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
                    return 9;
                execlp("cat", "cat", "before", NULL);
                return 8;
            }
            """, "sealed.c")
        program = self.box.path("sealed")
        subprocess.run(["cc", "-o", program, source], check=True)
        done = self.scry_run("-q", "--files", program)
        self.assertEqual((done.returncode, done.stdout), (0, "x" * 5000))

    def test_syscalls(self):
        """Of the job's processes alone, to the call, however short they are; threads and calls that wait. Without rights a line says why."""
        text = """
            import os, threading, time
            for each in range(5000):
                os.stat("/")
            for each in range(3):
                if os.fork() == 0:
                    for each in range(700):
                        os.getpgid(0)
                    os._exit(0)
                os.wait()
            thread = threading.Thread(target=time.sleep, args=(0.3,))
            thread.start()
            thread.join()
            """
        first = self.script(r"""
            #include <pthread.h>
            #include <sys/syscall.h>
            #include <unistd.h>
            static pthread_t first;
            static void *go_on(void *unused)
            {
                pthread_join(first, NULL);
                for (int i = 0; i < 500; i++)
                    syscall(SYS_getpgid, 0);
                _exit(0);
            }
            int main(void) /* the first thread ends before */
            {
                pthread_t other;
                first = pthread_self();
                pthread_create(&other, NULL, go_on, NULL);
                pthread_exit(NULL);
            }
            """, "first.c")
        program = self.box.path("first")
        subprocess.run(["cc", "-pthread", "-o", program, first], check=True)
        self.scry_run("--syscalls", program)
        counted = self.report()["syscalls"]
        self.assertEqual(sum(row["count"] for row in counted["calls"] if row["call"] == "getpgid") if counted else 500, 500)
        done = self.scry_run("--syscalls", "/usr/bin/python3", self.script(text, "calls.py"))
        counted = self.report()["syscalls"]
        if not counted:
            self.assertIn("not watched: system calls: ", done.stderr)
            return
        calls = {row["call"]: row for row in counted["calls"]}
        self.assertEqual((calls["getpgid"]["count"], calls["wait4"]["count"]), (2100, 3))
        self.assertLess(calls["newfstatat"]["count"] - 5000, 1000)
        self.assertGreaterEqual(calls["newfstatat"]["count"], 5000)
        self.assertGreaterEqual(calls["clock_nanosleep"]["seconds"], 0.3)
        self.assertEqual([row["count"] for row in counted["processes"] if row["call"] == "getpgid"], [700] * 3)
        self.assertEqual({row["program"] for row in counted["processes"]}, {"python3"})
        self.assertRegex(self.scry("report", "@last").stdout, r"(?m)^  clock_nanosleep +1 +0\.3\d* s +python3 \(\d+\) 0\.3")

    def test_many(self):
        for i in range(13):
            self.scry_run("-q", "--name", f"job{i}", "true")
        self.assertEqual(len(self.jobs()), 10)
        self.assertEqual([job["name"] for job in self.jobs("--all")], [f"job{i}" for i in range(12, -1, -1)])
        self.assertIn("3 more that ended", self.box.run(self.box.scry("ps")).stdout)

    def test_changes_are_recorded(self):
        """Also those of tools on its node: who, what, and with what result. Not what only looks."""
        run = self.start_run("-q", "sleep", "1000")
        wait_until(lambda: any(job["processes"] for job in json.loads(self.scry("ps", "--json").stdout)["jobs"]), 30, "it runs")
        self.scry("snapshot", "@last")
        self.scry("set", "@last", "sample=0.5")
        pid = self.report()["processes"][0]["pid"]
        self.scry("omis", "-c", f': proc_attach3([], {pid}, "") proc_send_signal([], 15)')
        self.assertEqual(run.wait(), 143)
        changes = self.records("request")
        self.assertEqual([(row["who"], row["uid"], row["status"], row["left_out"]) for row in changes],
                         [("scry", os.getuid(), "OMIS_OK", 0)] * 2)
        self.assertIn('"sample","0.5"', changes[0]["request"])
        self.assertIn("proc_send_signal([], 15)", changes[1]["request"])
        self.assertIn("killed by SIGTERM, probably by scry, a tool on its node", self.scry("report", "@last").stdout)

    def test_report_file(self):
        """report.txt is what `scry report` prints."""
        self.scry_run("-q", "-o", "here", "sh", "-c", "sleep 0.1; true")
        with open(self.box.path("work", "here", "report.txt"), encoding="utf-8") as file:
            written = file.read()
        printed = self.box.run(self.box.scry("report", "here"), env={"LC_ALL": "C.UTF-8", "COLUMNS": "80"}).stdout
        self.assertEqual(written, printed)

    def test_wrong_arguments(self):
        for arguments, status, said in ((("report",), 2, "name a job"), (("report", "none"), 1, "no job 'none'"),
                                        (("report", "@last"), 1, "no job yet"), (("top",), 2, "name a job"),
                                        (("set",), 2, "name a job"), (("set", "none"), 1, "no job 'none'"),
                                        (("set", "@last", "depth=x"), 2, "depth: expected a number"),
                                        (("exec",), 2, "name a program"), (("exec", "-x"), 2, "unknown option"),
                                        (("ps", "x"), 2, "'x' is no broker: mqtt://HOST, unix:PATH, local, or @NAME of the file brokers; of a job: scry report x"),
                                        (("report", "@lats"), 1, "@lats: did you mean @last? A line of "),
                                        (("@last",), 2, "scry: @last is a job, not a command: scry report @last"),
                                        (("@lst",), 2, 'scry: there is no command "@lst"'),
                                        (("--name", "x", "run", "true"), 2, "scry: options stand behind the command: scry run --name x true"),
                                        (("-q", "true"), 2, 'scry: there is no command "-q"'),
                                        (("run", "--name", "@last", "true"), 125, "--name: '@last' cannot be a name"),
                                        (("run", "--name", "", "true"), 125, "--name: it is empty"),
                                        (("diff", "a"), 2, "two jobs are compared"),
                                        (("report", "--jsno", "a"), 2, "unknown option --jsno (did you mean --json?)"),
                                        (("ps", "--al"), 2, "unknown option --al (did you mean --all?)"),
                                        (("raport",), 2, 'no command "raport" (did you mean report?)'),
                                        (("run", "--tarce=fn:x", "true"), 125, "--tarce (did you mean --trace?)"),
                                        (("set", "@last", "mintime=1s"), 2, "setting mintime (did you mean min-time?)"),
                                        (("why", "--colour"), 2, "unknown option --colour;"),
                                        (("report", "/"), 1, "no job.json"), (("top", "none"), 1, "no job 'none'"), (("report", "0"), 1, "no job '0'"),
                                        (("report", "1"), 1, "is no job of scry: `scry why 1` and `scry stack 1` say what it does")):
            done = self.box.run(self.box.scry(*arguments))
            self.assertEqual(done.returncode, status, arguments)
            self.assertIn(said, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertEqual(len(done.stderr.splitlines()), 1)
        for option in ("-o", "--config", "--name=a", "--sample", "--max-size"):
            done = self.box.run(self.box.scry("run", option, "/proc/a\033[31m\nb", "./no\033such"))
            self.assertNotEqual(done.returncode, 0)
            self.assertNotIn("\033", done.stderr)
        for command in ("ps", "top", "set", "report", "doctor", "omis", "no\033such\n"):
            done = self.box.run(self.box.scry(command, "a\033[31m\nb"))
            self.assertNotEqual(done.returncode, 0)
            self.assertNotIn("\033", done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)
        for command in ("run", "ps", "report", "set", "top"):
            done = self.box.run(self.box.scry(command, "--help"))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("Example: scry " + command, done.stdout)
        for command in ("run", "exec", "ps", "report", "set", "top", "omis", "doctor", "help"):
            text = self.box.run(self.box.scry(command, "--help")).stdout
            self.assertLessEqual(max(len(line) for line in text.splitlines()), 80, command)

    def test_what_cannot_be_executed(self):
        script = self.box.path("work", "script")
        with open(script, "w", encoding="utf-8") as file:
            file.write("#!/nonexistent/shell\n")
        os.chmod(script, 0o755)
        for command, status, said in (("./script", 127, "./script: its interpreter /nonexistent/shell is not there"),
                                      ("./none", 127, "./none: there is no such file"),
                                      ("none", 127, "none: there is no such command"),
                                      ("", 127, "'': there is no such command"), ("/", 126, "/ is a directory")):
            for env in ({}, {"SCRY": "off"}):
                done = self.box.run(self.box.scry("run", "-q", command), env=env)
                self.assertEqual(done.returncode, status, command)
                self.assertIn(said, done.stderr)
            self.assertIn(said, self.box.run(self.box.scry("ps")).stdout)
            for reader in ("why", "report"):
                self.assertIn(said, self.box.run(self.box.scry(reader, "@last")).stdout, reader)


class Stopped(CheckedCase):
    def test_stop(self):
        """SIGTERM, which the command may handle, then SIGKILL; who asked is the reason."""
        job = self.start_run("-q", "--name", "stubborn", "sh", "-c", "trap 'echo asked' TERM; echo ready; while :; do sleep 0.1; done")
        self.assertEqual(job.stdout.readline(), "ready\n")
        done = self.box.run(self.box.scry("stop", "stubborn"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^SIGTERM was sent to all processes of job \S+; if one goes on: scry stop --kill\n$")
        self.assertEqual(job.stdout.readline(), "asked\n")
        self.assertEqual(self.box.run(self.box.scry("stop", "--kill", "@last")).returncode, 0)
        self.assertEqual(job.wait(), 128 + signal.SIGKILL)
        self.assertIn("somebody asked for it by scry stop", self.box.run(self.box.scry("report", "@last")).stdout)
        done = self.box.run(self.box.scry("stop", "@last"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("has ended, and nothing that it left runs here", done.stderr)

    def test_signal(self):
        """By name and number; to the command alone, unless it is for all; recorded, and the reason of the end. No signal: a suggestion."""
        job = self.start_run("-q", "--name", "listener", "sh", "-c", "trap 'echo first' USR1; (trap 'echo second' USR1; while :; do sleep 0.1; done) & echo $!; while :; do sleep 0.1; done")
        second = int(job.stdout.readline())
        for number in "SIGUSR1", str(int(signal.SIGUSR1)):
            done = self.box.run(self.box.scry("signal", "listener", number))
            self.assertRegex(done.stdout, r"^SIGUSR1 was sent to the command of job \S+\n$")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(job.stdout.readline(), "first\n")
        self.assertIn("sent to all processes of job", self.box.run(self.box.scry("signal", "listener", "stop")).stdout)
        wait_until(lambda: scrytest.process_state(second) == "T")
        self.assertEqual(self.box.run(self.box.scry("signal", "listener", "CONT")).returncode, 0)
        wait_until(lambda: scrytest.process_state(second) != "T")
        for word, said in (("USR3", "USR3 is no signal (did you mean USR1?)"), ("sigtrem", "sigtrem is no signal (did you mean TERM?)"), ("0", "0 is no signal: kill -l lists them"),
                           ("99", "99 is no signal: kill -l lists them")):
            done = self.box.run(self.box.scry("signal", "listener", word))
            self.assertEqual((done.returncode, done.stderr), (2, f"scry signal: {said}; see `scry signal --help`\n"))
        self.assertEqual(self.box.run(self.box.scry("stop", "--signal", "hup", "listener")).returncode, 0)
        self.assertEqual(job.wait(), 128 + signal.SIGHUP)
        os.kill(second, signal.SIGKILL)
        self.assertRegex(self.box.run(self.box.scry("report", "@last")).stdout, r"reason +\w+ was killed by SIGHUP, because somebody asked for it by scry stop\n")
        self.assertIn("is ended: only a running job can be sent a signal", self.box.run(self.box.scry("signal", "@last", "USR1")).stderr)

    def test_stop_of_script(self):
        """All processes of the job get it, and not only its shell."""
        job = self.start_run("-q", "--name", "script", "sh", "-c", "sleep 1000 & echo $!; sleep 1001; exit 3")
        left = int(job.stdout.readline())
        self.assertEqual(self.box.run(self.box.scry("stop", "script")).returncode, 0)
        job.wait()
        wait_until(lambda: process_gone(left))
        self.assertRegex(self.box.run(self.box.scry("report", "@last")).stdout, r"reason +\w+ was killed by SIGTERM, because somebody asked for it by scry stop\n")

    def test_stop_of_what_is_left(self):
        """Of a job that has ended, what it left; nothing that only looks like it."""
        job = self.start_run("-q", "--name", "leaver", "sh", "-c", "(trap '' TERM; env -i sleep 1001 & echo $!; sleep 1000 & echo $!; wait) & sleep 0.5; exit 0")
        silent, left = (int(job.stdout.readline()) for _ in range(2))
        other = subprocess.Popen(["sleep", "1000"])
        try:
            self.assertEqual(job.wait(), 0)
            for options, signal_name, more in (((), "SIGTERM", "; if one goes on: scry stop --kill"), (("--kill",), "SIGKILL", "")):
                done = self.box.run(self.box.scry("stop", *options, "leaver"))
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertRegex(done.stdout, rf"^{signal_name} was sent to what still runs of job \S+, which has ended: .*sleep \(pid {silent}\).*sleep \(pid {left}\).*{more}\n$")
            wait_until(lambda: process_gone(left) and process_gone(silent))
            self.assertIsNone(other.poll())
            self.assertIn("nothing that it left runs here", self.box.run(self.box.scry("stop", "leaver")).stderr)
        finally:
            other.kill()
            other.wait()

    def test_stop_unwatched(self):
        """Whose scry run was killed: the command, and what that left; then there is nothing."""
        run = self.start_run("-q", "--name", "orphan", "sh", "-c", "sleep 1000 & echo $$ $!; wait; exit 3")
        command, left = map(int, run.stdout.readline().split())
        try:
            run.kill()
            run.wait()
            done = self.box.run(self.box.scry("stop", "orphan"))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertRegex(done.stdout, rf"^SIGTERM was sent to what still runs of job \S+, whose scry run was killed: sh \(pid {command}\), sleep \(pid {left}\); if one goes on: scry stop --kill\n$")
            wait_until(lambda: process_gone(command) and process_gone(left))
        finally:
            for pid in (command, left):
                if not process_gone(pid):
                    os.kill(pid, signal.SIGKILL)
        done = self.box.run(self.box.scry("stop", "orphan"))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("neither its command nor its scry run is there any more", done.stderr)
        for word, meant in (("kill", "stop"), ("status", "ps"), ("tail", "logs"), ("attach", "top"), ("repot", "report")):
            self.assertIn(f'no command "{word}" (did you mean {meant}?)', self.box.run(self.box.scry(word)).stderr)


class OldAndNew(CheckedCase):
    def job_file(self):
        return self.box.path("work", "here", "job.json")

    def test_newer_formats_are_refused_by_name(self):
        self.scry_run("-q", "-o", "here", "true")
        with open(self.job_file(), encoding="utf-8") as file:
            description = json.load(file)
        description["version"] = 99
        with open(self.job_file(), "w", encoding="utf-8") as file:
            json.dump(description, file)
        for command in (("report", "here"), ("top", "here")):
            done = self.box.run(self.box.scry(*command))
            self.assertEqual(done.returncode, 1)
            self.assertIn("format 99", done.stderr)
        listed, = self.checked("ps", "ps", "--json")["jobs"]
        self.assertEqual(listed["state"], "unreadable")
        self.assertIn("format 99", listed["reason"])

    def test_damaged(self):
        """What can be read is read, the rest is named."""
        self.scry_run("-q", "-o", "here", "sh", "-c", "sleep 0.2; exit 3")
        spool = self.box.path("work", "here", "spool", "records.jsonl")
        with open(spool, "r+b") as file:
            text = file.read()
            file.truncate(text.index(b"\n", len(text) * 2 // 3) - 1)  # within a line
        report = self.report("here")
        self.assertEqual(report["exit_code"], 3)
        self.assertIn("cut off", report["problems"][0])
        os.remove(spool)
        self.assertIn("records.jsonl", self.report("here")["problems"][0])
        self.assertEqual(self.report("here")["exit_code"], 3)

    def test_many_warnings(self):
        """A report lists some of them, and says how many there are of each kind; the shortest way to a huge answer."""
        many = 20000
        self.scry_run("-q", "-o", "here", "sh", "-c", "exit 3")
        spool = self.box.path("work", "here", "spool", "records.jsonl")
        with open(spool, encoding="ascii") as file:
            next_number = len(file.readlines())
        with open(spool, "a", encoding="ascii") as file:
            for number in range(many):
                print(json.dumps({"seq": next_number + number, "t": 0.1, "type": "warning", "kind": "disk", "note": "disk_filling",
                                  "fields": {}, "text": f"number {number}"}), file=file)
            print(json.dumps({"seq": next_number + many, "t": 0.2, "type": "warning", "kind": "lost", "text": "the last one"}), file=file)
            print(json.dumps({"seq": next_number + many + 1, "t": 0.2, "type": "gap", "from": 0.1, "to": 0.2, "reason": "a test"}),
                  file=file)
        report = self.report("here")
        omitted = many + 1 - len(report["warnings"])
        self.assertLessEqual(len(report["warnings"]), 301)
        self.assertEqual([report["warnings"][at]["text"] for at in (0, 99, -2, -1)],
                         ["number 0", "number 99", f"number {many - 1}", "the last one"])
        self.assertEqual(report["warnings_omitted"], [{"kind": "disk_filling", "count": omitted}])
        self.assertEqual((len(report["gaps"]), report["gaps_omitted"]), (1, 0))
        text = self.box.run(self.box.scry("report", "here")).stdout
        self.assertEqual(text.count("warning    number"), len(report["warnings"]) - 1)
        self.assertIn(f"warning    {omitted} more of the same kinds are not listed", text)

    def test_damaged_description(self):
        self.scry_run("-q", "-o", "here", "sh", "-c", "exit 3")
        for size in (0, 10, os.path.getsize(self.job_file()) // 2):
            with open(self.job_file(), "r+b") as file:
                file.truncate(size)
            done = self.box.run(self.box.scry("report", "here"))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"^scry: job \S*here ended: exit status 3\n  command    what was run, .* not known: ")
            self.assertRegex(done.stdout, r"Not all of the job directory could be read\n  \S*job.json cannot be read: ")
            self.assertNotIn("1970", done.stdout)


if __name__ == "__main__":
    scrytest.main()
