# SPDX-License-Identifier: Apache-2.0
"""scry omis: one shot, from a pipe, and the shell on a terminal."""

import base64
import json
import os
import pty
import re
import select
import signal
import subprocess
import termios
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "system"))
import scrytest


class Terminal:
    """A program on a terminal of 24 by 100, and what it has shown."""

    def __init__(self, box, command):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(box.path("work"))
            os.execve(command[0], command, {**box.env, "TERM": "xterm", "COLUMNS": "100"})
        self.text = ""

    def type(self, text):
        os.write(self.fd, text.encode())

    def editing(self):
        """Waits until the program edits the line itself: a ^D that the terminal still takes for its own is lost."""
        scrytest.wait_until(lambda: not termios.tcgetattr(self.fd)[3] & termios.ICANON, 10, "the line editor has the terminal")

    def read(self, timeout):
        if not select.select([self.fd], [], [], timeout)[0]:
            return False
        try:
            more = os.read(self.fd, 65536)
        except OSError:  # the other side is closed
            more = b""
        self.text += more.decode("utf-8", "replace")
        return bool(more)

    def expect(self, pattern, timeout=10.0):
        """Waits until the pattern is there, and forgets everything up to its end."""
        end = time.monotonic() + timeout * scrytest.SCALE
        while True:
            match = re.search(pattern, self.text, re.S)
            if match:
                self.text = self.text[match.end():]
                return match
            if time.monotonic() > end or not self.read(0.1) and time.monotonic() > end:
                raise AssertionError(f"{pattern!r} did not appear in {self.text!r}")

    def wait(self, timeout=10.0):
        """The exit status."""
        end = time.monotonic() + timeout * scrytest.SCALE
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = None
                return os.waitstatus_to_exitcode(status)
            self.read(0.02)
        raise AssertionError(f"the program does not end; it has shown {self.text!r}")

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


class OneShot(scrytest.TestCase):
    def omis(self, *arguments, **options):
        return self.box.run(self.box.scry("omis", *arguments), **options)

    def test_text(self):
        done = self.omis("-c", ": version()", "-c", ': print(["one", 2])')
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[0], r'^2,0,"')
        self.assertIn('"one"', lines[1])

    def test_json(self):
        done = self.omis("--json", "-c", ": version() print([1])", "-c", ": nonsense(")
        self.assertEqual(done.returncode, 1)
        first, second = map(json.loads, done.stdout.splitlines())
        self.assertEqual(first["request"], 1)
        self.assertEqual(len(first["services"]), 3)
        self.assertEqual(first["services"][0], [{"objects": [], "status": 0, "result": None}])
        self.assertEqual(second["request"], 2)
        self.assertEqual(second["services"][0][0]["status"], 16)

    def test_error_status(self):
        done = self.omis("-c", ": no_such_service()", "-c", ": version()")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"OMIS_UNKNOWN_SERVICE: .*no_such_service")
        self.assertNotIn("\033", done.stdout)

    def test_wait_for_a_time(self):
        start = time.monotonic()
        self.assertEqual(self.omis("-c", ": version()", "--wait", "0.3s").returncode, 0)
        self.assertGreaterEqual(time.monotonic() - start, 0.3)

    def test_wait_for_replies(self):
        """Replies of a conditional request, raised by somebody else, end the waiting; the tool's own do not."""
        with self.box.omis() as owner:
            event = owner.request(": user_event_create()").result()
            tool = self.box.start(self.box.scry(
                "omis", "--json", "--wait", "2", "-c", f"user_event_has_been_raised([{event}]) : print([$par1])",
                "-c", ": csr_enable([])"), text=False, bufsize=0)  # nothing read ahead, so select tells the truth
            for _ in range(3):  # defined, then enabled and the answer to csr_enable in any order
                self.assertTrue(select.select([tool.stdout], [], [], 10 * scrytest.SCALE)[0])
                tool.stdout.readline()
            for i in range(2):
                owner.request(f": user_event_raise({event}, [{i}], 0)")
            out, _ = tool.communicate(timeout=10 * scrytest.SCALE)
            self.assertEqual([json.loads(line)["request"] for line in out.splitlines()], [1, 1])
            self.assertEqual(tool.returncode, 0)

    def test_wrong_usage(self):
        for arguments in (["--wait", "x", "-c", ": version()"], ["--nonsense"], ["stray"], ["-c"]):
            done = self.omis(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn("scry omis --help", done.stderr)
            self.assertEqual(done.stdout, "")

    def test_no_monitor(self):
        done = self.omis("--no-start", "-c", ": version()")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no monitor runs at", done.stderr)
        done = self.omis("--connect", "unix:" + self.box.path("tmp", "none.sock"), "-c", ": version()")
        self.assertEqual(done.returncode, 2)
        self.assertIn("none.sock", done.stderr)

    def test_time_limit(self):
        """A request that is not answered in time has failed; what is wrong with the monitor is said."""
        self.omis("-c", ": version()")
        monitor = self.box.monitor_pid()
        program = self.box.start(self.box.scry("omis", "--timeout", "0.3"), stdin=subprocess.PIPE)
        program.stdin.write(": print([1])\n")
        program.stdin.flush()
        self.assertEqual(program.stdout.readline(), "1,[1]\n")
        os.kill(monitor, signal.SIGSTOP)
        self.addCleanup(os.kill, monitor, signal.SIGCONT)
        out, err = program.communicate(": print([2])\n", timeout=30 * scrytest.SCALE)
        self.assertEqual((out, program.returncode), (f"OMIS_OS_ERROR: no answer within 0.3 s: the monitor (pid {monitor}) is "
                                                     f"stopped: `kill -CONT {monitor}` lets it go on\n", 1), err)
        for wrong in ("0", "-1", "x", "1m"):
            done = self.omis("--timeout", wrong)
            self.assertEqual(done.returncode, 2)
            self.assertIn("--timeout: expected seconds", done.stderr)

    def test_flags(self):
        """The flags of 7.1.1: what comes back, and when, but nothing is waited for in vain."""
        both = ("-c", ": print([1])", "-c", ": user_event_create()", "-c", ": csr_enable([])", "-c", ": print([2])")
        plain = self.omis(*both).stdout
        self.assertEqual(len(plain.splitlines()), 4)
        for flags in ("buffer_request", "OMIS_BUFFER_REPLIES", "wait_for_first_reply,buffer_replies"):
            done = self.omis("--flags", flags, *both)
            self.assertEqual(re.sub(r"e_1_\d+", "e", done.stdout), re.sub(r"e_1_\d+", "e", plain), flags)
        done = self.omis("--flags", "dont_return_ok", *both)
        self.assertEqual(done.stdout.splitlines()[0::2], ["1,[1]", "1,[2]"])
        self.assertEqual(len(done.stdout.splitlines()), 3, done.stdout)
        self.assertIn("debug: ", self.omis("--flags", "debug", *both).stderr)
        done = self.omis("--flags", "dont_return")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--flags: expected dont_return_ok, ", done.stderr)

    def test_connect(self):
        self.omis("-c", ": version()")
        done = self.omis("--connect", "unix:" + self.box.path("run", "monitor.sock"), "-c", ": version()")
        self.assertEqual(done.returncode, 0)

    def test_list_services(self):
        done = self.omis("--list-services")
        self.assertEqual(done.returncode, 0)
        names = done.stdout.split()
        for name in ("version", "print", "csr_enable", "proc_get_info"):
            self.assertIn(name, names)
        done = self.omis("--list-services", "--json")
        rows = {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}
        self.assertEqual(set(rows), set(names))
        self.assertEqual(rows["version"]["kind"], "information")
        self.assertEqual(rows["version"]["class"], "R")

    def test_tools_starting_at_once_share_one_monitor(self):
        tools = [self.box.start(self.box.scry("omis", "-c", ": version()")) for _ in range(8)]
        self.assertEqual([tool.wait(30 * scrytest.SCALE) for tool in tools], [0] * 8)
        self.assertEqual(len(list(self.box._processes("scry-monitor"))), 1)

    def test_nothing_to_wait_for(self):
        """A script with a typo ends instead of waiting for what cannot come."""
        done = self.omis("-c", ": csr_enable([c_1_4711])", "--wait", "1")
        self.assertEqual(done.returncode, 1, done.stdout)

    def test_standard_output_full(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run(self.box.scry("omis", "-c", ": version()"), env=self.box.env, stdout=full,
                                  stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output", done.stderr)


class Pipe(scrytest.TestCase):
    def test_lines(self):
        done = self.box.run(self.box.scry("omis"), input="# a comment\n\n: print([1])\n  : print([2])\n: print([3])")
        self.assertEqual(done.returncode, 0)
        self.assertEqual([line[-2] for line in done.stdout.splitlines()], ["1", "2", "3"])

    def test_replies_come_at_once_and_in_order(self):
        with self.box.omis() as omis:
            for i in range(20):
                reply = omis.request(f": print([{i}])")
                self.assertEqual(reply.number, i + 1)
                self.assertIn(f"[{i}]", reply.result())
            self.assertEqual(omis.close(), 0)

    def test_conditional_requests(self):
        """Replies carry the number of the request that defined them."""
        with self.box.omis() as omis:
            event = omis.request(": user_event_create()").result()
            defined = omis.request(f"user_event_has_been_raised([{event}]) : print([$par1])")
            self.assertEqual((defined.number, defined.status()), (2, 2))
            csr = defined.result(0)
            number = omis.send(f": csr_enable([{csr}])")
            self.assertEqual(omis.reply(number).status(1), 0)
            self.assertEqual(omis.reply(2).status(), 4)
            for i in range(3):
                number = omis.send(f": user_event_raise({event}, [{i}], 0)")
                self.assertEqual(omis.reply(number).status(1), 0)
                triggered = omis.reply(2)
                self.assertEqual(triggered.status(), 10)
                self.assertIn(f"{i}", triggered.result())
            number = omis.send(f": csr_delete([{csr}])")
            self.assertEqual(omis.reply(2).status(), 8)
            omis.reply(number)
            self.assertEqual(omis.close(), 0)

    def test_binary(self):
        """Newlines and NULs inside binary data; results that are no UTF-8 come in base64."""
        data = bytes([0, 10, 255, 34, 10, 0])
        tool = self.box.start(self.box.scry("omis", "--json"), stdin=subprocess.PIPE, text=False)
        out, _ = tool.communicate(b": print([%d#%s])\n: print([1])\n" % (len(data), data), timeout=10 * scrytest.SCALE)
        first, second = map(json.loads, out.splitlines())
        result = base64.b64decode(first["services"][1][0]["result_base64"])
        self.assertIn(b"6#" + data, result)
        self.assertNotIn("result", first["services"][1][0])
        self.assertEqual(second["services"][1][0]["status"], 0)

    def test_monitor_killed(self):
        with self.box.omis() as omis:
            omis.request(": version()")
            os.kill(self.box.monitor_pid(), signal.SIGKILL)
            self.assertEqual(omis.process.wait(10 * scrytest.SCALE), 1)
            self.assertIn("the monitor's connection was lost", omis.stderr())
        # the next tool gets a new monitor
        done = self.box.run(self.box.scry("omis", "-c", ": version()"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Shell(scrytest.TestCase):
    def setUp(self):
        super().setUp()
        self.terminal = Terminal(self.box, self.box.scry("omis"))
        self.addCleanup(self.terminal.close)
        self.terminal.expect("omis> ")

    def test_request_history_and_quit(self):
        self.terminal.type(": print([41])\r")
        self.terminal.expect(r"\[41\]\r\n")
        self.terminal.expect("omis> ")
        self.terminal.type("\x1b[A")  # up
        self.terminal.expect(r": print\(\[41\]\)")
        self.terminal.type("\r")
        self.terminal.expect(r"\[41\]\r\n")
        self.terminal.expect("omis> ")
        self.terminal.type("quit\r")
        self.assertEqual(self.terminal.wait(), 0)
        path = self.box.path("home", ".local", "state", "scry", "omis_history")
        with open(path, encoding="utf-8") as file:
            self.assertIn("print", file.read())
        self.assertEqual(os.stat(path).st_mode & 0o077, 0)

    def test_errors_are_red(self):
        self.terminal.type(": no_such()\r")
        self.terminal.expect("\033\\[31mOMIS_UNKNOWN_SERVICE: .*no_such.*\033\\[0m")

    def test_completion(self):
        self.terminal.type(": vers\t")
        self.terminal.expect(r"ion\(")  # the rest of it; what was typed may have been echoed by the terminal itself
        self.terminal.type(")\r")
        self.terminal.expect(r"2,0,\"")
        self.terminal.expect("omis> ")
        self.terminal.type(": proc_get_\t\t")
        self.terminal.expect(r"proc_get_info +proc_get_loader_info")

    def test_completion_of_tokens(self):
        self.terminal.type(": user_event_create()\r")
        event = self.terminal.expect(r"\b(e_\d+_\d+)\r\n").group(1)
        self.terminal.expect("omis> ")
        self.terminal.type(": user_event_destroy(" + event[:-1] + "\t)\r")
        self.terminal.expect("ok\r\n")

    def test_help(self):
        self.terminal.type("help\r")
        self.terminal.expect("proc_get_info")
        self.terminal.expect("omis> ")
        self.terminal.type("help proc_get_info\r")
        self.terminal.expect(r"proc_get_info.*proc_list.*returns.*information service, required")
        self.terminal.expect("omis> ")
        self.terminal.type("help nothing\r")
        self.terminal.expect("no service nothing")

    def test_replies_above_the_prompt(self):
        self.terminal.type(": user_event_create()\r")
        event = self.terminal.expect(r"\b(e_\d+_\d+)\r\n").group(1)
        self.terminal.expect("omis> ")
        self.terminal.type(f"user_event_has_been_raised([{event}]) : print([\"seen\", $par1])\r")
        csr = self.terminal.expect(r"\b(c_\d+_\d+)\r\n").group(1)
        self.terminal.expect("omis> ")
        self.terminal.type(f": csr_enable([{csr}])\r")
        self.terminal.expect("enabled")
        self.terminal.expect("omis> ")
        self.terminal.type(": ver")
        self.terminal.expect(": ver")
        done = self.box.run(self.box.scry("omis", "-c", f": user_event_raise({event}, [5], 0)"))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.terminal.expect(r"\[2\] triggered.*\r\n.*\"seen\",5.*\r\n")
        self.terminal.expect("omis> : ver")  # the line being typed is there again
        self.terminal.type("sion()\r")
        self.terminal.expect(r"2,0,\"")

    def test_interrupt_and_end_of_file(self):
        self.terminal.type("some nonsense")
        self.terminal.expect("nonsense")
        self.terminal.type("\x03")
        self.terminal.expect("omis> ")
        self.terminal.type(": print([7])\r")
        self.terminal.expect(r"\[7\]\r\n")
        self.terminal.expect("omis> ")
        self.terminal.editing()
        self.terminal.type("\x04")
        self.assertEqual(self.terminal.wait(), 0)

    def test_monitor_killed(self):
        os.kill(self.box.monitor_pid(), signal.SIGKILL)
        self.terminal.expect("the monitor's connection was lost")
        self.assertEqual(self.terminal.wait(), 0)


class Doctor(scrytest.TestCase):
    def test_nothing_fails_here(self):
        done = self.box.run(self.box.scry("doctor"))
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertRegex(done.stdout, r"(?m)^ok +kernel +Linux ")

    def test_json_and_running_monitor(self):
        self.box.run(self.box.scry("omis", "-c", ": version()"))
        report = json.loads(self.box.run(self.box.scry("doctor", "--json")).stdout)
        self.assertEqual(report["failed"], 0)
        checks = {check["name"]: check for check in report["checks"]}
        self.assertIn("runs", checks["monitor"]["text"])
        self.assertEqual(checks["runtime"]["state"], "ok")
        self.assertIn(self.box.path("run"), checks["runtime"]["text"])

    def test_unusable_runtime_directory(self):
        done = self.box.run(self.box.scry("doctor"), env={"SCRY_RUNTIME_DIR": "/proc/nothing"})
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"(?m)^fail +runtime ")


scrytest.main()
