# SPDX-License-Identifier: Apache-2.0
"""`scry run` at a terminal: an interactive shell on a pty starts it, stops it with ^Z, continues and interrupts it."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time

import scrytest
from jobtest import target
from scrytest import process_state, wait_until


def command_line(pid):
    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
        return file.read().replace("\0", " ")


def pending(pid):
    """The signals that wait for this process, as bits."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return sum(int(line.split()[1], 16) for line in file if line.startswith("ShdPnd"))


def switches(pid):
    """How often a process has slept or was stopped."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return re.search(r"(?m)^voluntary_ctxt_switches:\s+(\d+)", file.read()).group(1)


class Terminal:
    """A bash with job control on a pty of its own."""

    def __init__(self, box, rows=24, columns=80):
        self.box = box
        self.seen = ""
        self.watched = "scry run -q"  # in place of this
        env = {**box.env, "PS1": "ready> ", "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(box.path("work"))
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"], env)
        self.resize(rows, columns)
        self.expect("ready> ")

    def resize(self, rows, columns):
        termios.tcsetwinsize(self.fd, (rows, columns))

    def send(self, text):
        os.write(self.fd, text.encode())

    def read_more(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            more = os.read(self.fd, 65536)
        except OSError:  # the shell has ended
            return False
        self.seen += more.decode(errors="replace")
        return bool(more)

    def expect(self, pattern, timeout=20):
        """Waits for a regular expression in what is shown, and forgets what came up to its end."""
        end = time.monotonic() + timeout * scrytest.SCALE
        while True:
            match = re.search(pattern, self.seen)
            if match:
                self.seen = self.seen[match.end():]
                return match
            if time.monotonic() > end:
                raise AssertionError(f"{pattern!r} was not shown; there is {self.seen!r}")
            self.read_more(0.1)

    def run(self, line):
        self.send(line.replace("scry run -q", self.watched) + "\n")

    def close(self):
        """Ends everything in the shell's session."""
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and int(name) != self.pid and os.getsid(int(name)) == self.pid:
                    os.kill(int(name), signal.SIGKILL)
            except ProcessLookupError:
                pass
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


class AtTerminal(scrytest.TestCase):
    def setUp(self):
        super().setUp()
        self.terminal = Terminal(self.box)
        self.addCleanup(self.terminal.close)

    def pids(self):
        """scry run and its command."""
        def find():
            shells = scrytest.children(self.terminal.pid)
            found = [(run, command) for run in shells for command in scrytest.children(run)]
            return [pair for pair in found if "sleep" in os.readlink(f"/proc/{pair[1]}/exe")]
        def safe():
            try:
                return find()
            except OSError:
                return []
        return wait_until(safe)[0]

    def picture(self):
        """The lines of the next picture of scry top."""
        self.terminal.expect(r"\x1b\[H")
        frame = self.terminal.expect(r"(?s)(.*?)\x1b\[J").group(1)
        return [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line).strip("\r") for line in frame.split("\r\n")]

    def test_stop_and_continue(self):
        self.terminal.run("scry run -q sleep 1000")
        run, command = self.pids()
        self.terminal.send("\x1a")
        self.terminal.expect(r"Stopped .*scry run")
        wait_until(lambda: process_state(command) == "T")
        self.assertEqual(process_state(run), "T")
        self.terminal.run("fg")
        self.terminal.expect(r"scry run -q .*sleep")
        wait_until(lambda: process_state(command) == "S")
        wait_until(lambda: process_state(run) == "S")
        # continued by itself only, scry run takes the command along
        self.terminal.send("\x1a")
        self.terminal.expect(r"Stopped .*scry run")
        wait_until(lambda: process_state(command) == "T" and process_state(run) == "T")
        os.kill(run, signal.SIGCONT)
        wait_until(lambda: process_state(command) == "S")
        os.kill(command, signal.SIGTERM)
        self.terminal.run("wait; echo status $?")
        wait_until(lambda: scrytest.process_gone(run))

    def start_inner_shell(self):
        self.terminal.run("scry run -q bash --norc --noprofile --noediting -i")
        self.terminal.expect("ready> ")  # the inner one's
        self.terminal.run("PS1='inner> '")
        self.terminal.expect(r"\ninner> ")

    def stop_and_go(self, script, stopped="Stopped"):
        """The command stops itself; the shell prints its prompt, and `fg` and `bg` continue it."""
        for go in ("fg", "bg; wait %1"):
            self.terminal.run(f"scry run -q {script}")
            self.terminal.expect(rf"{stopped}.*scry run")
            self.terminal.run(go)
            self.terminal.expect(r"on\r\n")
            self.terminal.run("echo status $?")
            self.terminal.expect(r"status 3")

    def test_command_stops_itself(self):
        self.stop_and_go("bash -c 'kill -STOP $$; echo on; exit 3'")

    def test_command_stops_its_group(self):
        """As an editor does at ^Z. It stops once."""
        self.stop_and_go("bash -c 'kill -TSTP 0; echo on; exit 3'")

    def test_command_is_continued_alone(self):
        """Nobody else would wake scry run."""
        self.terminal.run("scry run -q bash -c 'kill -STOP $$; echo on; exit 3'")
        self.terminal.expect(r"Stopped.*scry run")
        (run,) = [pid for pid in scrytest.children(self.terminal.pid)]
        (command,) = scrytest.children(run)
        wait_until(lambda: process_state(run) == "T" and process_state(command) == "T")
        os.kill(command, signal.SIGCONT)
        self.terminal.expect(r"on\r\n")
        wait_until(lambda: scrytest.process_gone(run) or process_state(run) == "Z")

    def test_shell_that_suspends(self):
        """A shell has a process group of its own, and has to get the terminal back."""
        self.start_inner_shell()
        for _ in range(2):
            self.terminal.run("suspend -f")
            self.terminal.expect(r"Stopped.*scry run")
            self.terminal.expect(r"ready> ")
            self.terminal.run("fg")
            self.terminal.expect(r"scry run -q .*bash")
            self.terminal.run("echo back $((6 * 7))")
            self.terminal.expect(r"back 42")
        self.terminal.run("exit 7")
        self.terminal.expect(r"ready> ")
        self.terminal.run("echo status $?")
        self.terminal.expect(r"status 7")

    def suspend(self):
        """The inner shell stops; scry run and the inner shell."""
        self.terminal.run("suspend -f")
        self.terminal.expect(r"Stopped.*scry run")
        self.terminal.expect(r"ready> ")
        (run,) = scrytest.children(self.terminal.pid)
        (inner,) = [pid for pid in scrytest.children(run) if command_line(pid).startswith("bash")]
        return run, inner

    def go_on(self):
        self.terminal.run("fg")
        self.terminal.expect(r"scry run -q .*bash")

    def test_stops_again_before_scry_run_has_looked(self):
        """The SIGCONT of `fg` is not passed on when the shell has been stopped once more."""
        self.start_inner_shell()
        _, inner = self.suspend()
        with self.box.pause("run.signal") as pause:
            self.go_on()
            pause.reached()
            self.terminal.run("echo back $((6 * 7)); suspend -f; echo again")
            self.terminal.expect(r"back 42")
            wait_until(lambda: process_state(inner) == "T")
        self.terminal.expect(r"Stopped.*scry run")
        self.assertEqual(process_state(inner), "T")
        self.go_on()
        self.terminal.expect(r"again")

    def test_stops_again_before_scry_run_is_woken(self):
        """What was to end the first stop of a command that was continued alone does not end the second."""
        fifo = self.box.path("work", "fifo")
        os.mkfifo(fifo)
        self.terminal.run("scry run -q bash -c 'kill -STOP $$; read a < fifo; kill -STOP $$; echo again; exit 3'")
        self.terminal.expect(r"Stopped.*scry run")
        (run,) = scrytest.children(self.terminal.pid)
        (command,) = scrytest.children(run)
        wait_until(lambda: process_state(run) == "T" and process_state(command) == "T")
        before = switches(run)
        with self.box.pause("witness.wake") as pause:
            os.kill(command, signal.SIGCONT)
            pause.reached()
            with open(fifo, "w", encoding="ascii"):
                pass
            wait_until(lambda: process_state(command) == "T")
        wait_until(lambda: switches(run) != before and process_state(run) == "T")
        self.assertEqual(process_state(command), "T")
        self.terminal.run("fg")
        self.terminal.expect(r"again\r\n")
        self.terminal.run("echo status $?")
        self.terminal.expect(r"status 3")

    def test_interrupted_before_the_command_is_there(self):
        """^C while scry run still prepares: no process of the job could get it, so it is passed on."""
        with self.box.pause("run.launch") as pause:
            self.terminal.run("scry run -q sleep 100")
            pause.reached()
            (run,) = scrytest.children(self.terminal.pid)
            self.terminal.send("\x03")
            wait_until(lambda: pending(run) & 1 << (signal.SIGINT - 1))
        self.terminal.run("echo status $?")
        self.terminal.expect(r"status 130")

    def test_command_that_will_not_stop(self):
        """^Z is the command's to handle: what ignores it is not stopped, and neither is scry run."""
        self.terminal.run("""scry run -q bash -c 'trap "" TSTP; echo go; read a; echo got $a; exit 3'""")
        self.terminal.expect(r"\ngo")
        self.terminal.send("\x1a")
        self.terminal.send("text\n")
        self.terminal.expect(r"\ngot (\S*)text")
        self.terminal.run("echo status $?")
        self.terminal.expect(r"status 3")

    def test_interrupt(self):
        """^C reaches the command once; the shell sees 130 and gives up its loop."""
        self.terminal.run("for i in 1 2 3; do echo turn$i; scry run -q sleep 1000; done; echo after")
        self.pids()
        self.terminal.send("\x03")
        self.terminal.expect(r"ready> ")
        self.assertNotIn("turn2\r\n", self.terminal.seen)
        self.terminal.run("echo status $?")
        self.terminal.expect(r"status 130")

    def test_interrupt_arrives_once(self):
        self.terminal.run("""scry run -q bash -c 'n=0; trap "n=\\$((n+1))" INT; echo go; """
                          """while test $n = 0; do sleep 0.05; done; """
                          """for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.05; done; echo count $n; exit 4'""")
        self.terminal.expect(r"\ngo")
        self.terminal.send("\x03")
        self.assertEqual(self.terminal.expect(r"count (\d)\r").group(1), "1")
        self.terminal.run("echo status $?")
        self.terminal.expect(r"status 4")

    def test_stop_arrives_once(self):
        """^Z at a command that handles it."""
        self.terminal.run("""scry run -q python3 -I -c 'import os, signal; wanted = {signal.SIGTSTP, 41}; """
                          """signal.pthread_sigmask(signal.SIG_BLOCK, wanted); print("run", os.getppid(), flush=True)\n"""
                          """while True: print("came", int(signal.sigwait(wanted)), flush=True)'""")
        run = int(self.terminal.expect(r"run (\d+)\r").group(1))
        self.terminal.send("\x1a")
        self.terminal.expect(r"came 20\r")
        os.kill(run, 41)
        self.assertEqual(self.terminal.expect(r"came (\d+)\r").group(1), "41")

    def test_input_and_modes(self):
        self.terminal.run("scry run -q cat")
        self.terminal.send("some text\n")
        self.terminal.expect(r"some text\r\nsome text")
        self.terminal.send("\x04")
        self.terminal.run("scry run -q sh -c 'stty -echo; test -t 0 && test -t 1 && test -t 2; echo tty $?; stty echo'")
        self.terminal.expect(r"tty 0")

    def test_interactive_shell_inside(self):
        """A command with job control of its own takes the terminal and gives it back."""
        self.start_inner_shell()
        self.terminal.run("sleep 1000")

        def sleeping():
            for run in scrytest.children(self.terminal.pid):
                for inner in scrytest.children(run):
                    for pid in scrytest.children(inner):
                        # in the foreground with a group of its own
                        if scrytest.process_status(pid).get("Name") == "sleep":
                            return pid
            return None
        wait_until(sleeping)
        self.terminal.send("\x1a")
        self.terminal.expect(r"Stopped .*sleep 1000")
        self.terminal.run("fg")
        self.terminal.expect(r"(\n|inner> )sleep 1000\r?\n")
        wait_until(lambda: process_state(sleeping()) == "S")
        self.terminal.send("\x03")
        self.terminal.expect(r"inner> ")
        self.terminal.run("exit 7")
        self.terminal.expect(r"ready> ")
        self.terminal.run("echo status $?")
        self.terminal.expect(r"status 7")

    def test_in_the_background(self):
        """The summary of a background job is printed also where the terminal stops background output."""
        self.terminal.run("stty tostop; scry run sleep 0.2 &")
        self.terminal.expect(r"scry: job \S+ \S*ended|ended: exit status 0")
        self.terminal.run("stty -tostop; wait; echo done")
        self.terminal.expect(r"done")

    def test_top(self):
        """Redraws, follows the window's size, ends with q and leaves the terminal as it was."""
        self.terminal.run("scry run -q --name watched sleep 1000 &")
        self.terminal.expect("ready> ")
        wait_until(lambda: '"running"' in self.box.run(self.box.scry("ps", "--json")).stdout)
        self.terminal.run("stty -g > before; scry top @last; stty -g > after; echo left")
        self.terminal.expect(r"\x1b\[\?1049h")
        self.terminal.expect(r"scry \S+ watched  running")
        self.terminal.expect(r"S .*sleep")
        self.terminal.resize(10, 60)

        def fits():
            lines = self.picture()
            return len(lines) <= 10 and max(len(line) for line in lines) <= 60
        wait_until(fits)  # those drawn before, and one that was just being drawn, have the former size
        self.assertTrue(fits())
        self.terminal.send("q")
        self.terminal.expect(r"\x1b\[\?1049l")
        self.terminal.expect(r"left")
        with open(self.box.path("work", "before")) as before, open(self.box.path("work", "after")) as after:
            self.assertEqual(before.read(), after.read())
        # when the job ends, the last picture stays on the ordinary screen
        self.terminal.run("scry top @last; echo left")
        self.terminal.expect(r"\x1b\[\?1049h")
        self.terminal.expect(r"running")
        run, _ = self.pids()
        os.kill(run, signal.SIGTERM)
        self.terminal.expect(r"(?s)\x1b\[\?1049l.*scry \S+ watched  signaled.*left")


class WithTee(AtTerminal):
    """The command has a terminal of its own, and all is as at the user's."""

    def setUp(self):
        super().setUp()
        self.terminal.watched = "scry run -q --tee"
        self.cooked = self.modes()

    def modes(self):
        return termios.tcgetattr(self.terminal.fd)[:4]

    def kept(self, job="@last"):
        path = json.loads(self.box.run(self.box.scry("report", "--json", job)).stdout)["path"]
        with open(f"{path}/output/output.0000000000000000", encoding="utf-8", newline="") as file:
            return file.read()

    def test_words_are_the_reason(self):
        """And the user's terminal is as it was."""
        self.terminal.run("stty -g >before; scry run --tee sh -c 'stty size; echo ERROR: no such mesh >&2; exit 3'; stty -g >after")
        self.terminal.expect(r"\n24 80\r\n")
        self.terminal.expect(r"reason.*ERROR: no such mesh")
        self.terminal.expect("ready> ")
        with open(self.box.path("work", "before")) as before, open(self.box.path("work", "after")) as after:
            self.assertEqual(before.read(), after.read())
        self.assertEqual(self.kept(), "24 80\r\nERROR: no such mesh\r\n")

    def test_size_follows(self):
        self.terminal.run("scry run -q bash -c 'trap \"stty size\" WINCH; echo go; until read -t 0.05 a; do :; done; exit 3'")
        self.terminal.expect(r"\ngo")
        self.terminal.resize(33, 77)
        self.terminal.expect(r"33 77\r\n")
        self.terminal.run("on")
        self.terminal.run("echo status $?")
        self.terminal.expect("status 3")

    def test_key_is_the_reason(self):
        for key, said in (("\x03", "Ctrl-C"), ("\x1c", r"Ctrl-\\")):
            self.terminal.run("scry run --tee sleep 1000")
            self.pids()
            wait_until(lambda: self.modes() != self.cooked)
            self.terminal.send(key)
            self.terminal.expect(rf"somebody pressed\s+{said}")

    def relay(self):
        """The one that is not a standby: that it has made."""
        def has_terminal(pid):
            try:
                links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
            except OSError:
                return False
            return os.readlink(f"/proc/{self.terminal.pid}/fd/0") in links

        def find():
            named = [pid for pid in os.listdir("/proc") if pid.isdigit() and has_terminal(pid)]
            return [int(pid) for pid in named if scrytest.process_status(pid).get("Name") == "job-relay"]
        return wait_until(find)[0]

    def test_relay_is_killed(self):
        """Again and again, while the command writes and reads."""
        self.terminal.run("scry run -q bash -c 'echo go; for i in {1..6}; do read line; echo \"got $line\"; done; exit 3'")
        self.terminal.expect(r"\ngo")
        for i in range(6):
            os.kill(self.relay(), signal.SIGKILL)
            self.terminal.send(f"line{i}\r")
            self.terminal.expect(rf"got line{i}\r\n")
        self.terminal.run("echo status $?")
        self.terminal.expect(r"status 3")

    def test_much_at_the_end(self):
        """All of it is shown before the terminal is the shell's again: more than can be read of a terminal at once is behind it."""
        shown = []
        for watched in ("", "scry run -q --tee "):
            self.terminal.run(f"{watched}seq 20000; echo E''ND")
            shown.append(self.terminal.expect(r"(?s)E''ND\r\n(.*)END\r\n").group(1))
        self.assertEqual(*shown)

    def test_scry_run_is_killed(self):
        """The command goes on, and the user has the terminal back as it was."""
        fifo = self.box.path("work", "fifo")
        os.mkfifo(fifo)
        self.terminal.run("scry run -q bash -c 'echo go; read a <fifo; echo late $a'")
        self.terminal.expect(r"\ngo")
        (run,) = scrytest.children(self.terminal.pid)
        self.assertNotEqual(self.modes(), self.cooked)
        os.kill(run, signal.SIGKILL)
        self.terminal.expect("ready> ")
        with open(fifo, "w", encoding="ascii") as go:
            go.write("on\n")
        self.terminal.expect(r"late on")
        self.assertEqual(self.modes(), self.cooked)

    def test_outlives(self):
        """What goes on after the command has its terminal still."""
        fifo = self.box.path("work", "fifo")
        os.mkfifo(fifo)
        self.terminal.run("scry run -q bash -c '(read a <fifo; test -t 1 && echo late $a) & exit 4'; echo status $?")
        self.terminal.expect(r"status 4")
        with open(fifo, "w", encoding="ascii") as go:
            go.write("on\n")
        self.terminal.expect(r"late on")

    def test_streams_are_closed(self):
        """A command that has sent all its streams elsewhere, or one that it leaves behind so, is not hung up on."""
        for script in ("exec </dev/null >log 2>&1; read a <fifo; (: </dev/tty) && echo whole >done",
                       "(read a <fifo; echo whole >done) </dev/null >log 2>&1 & exit 0"):
            fifo, done = self.box.path("work", "fifo"), self.box.path("work", "done")
            os.mkfifo(fifo)
            self.terminal.run(f"scry run -q bash -c '{script}'; echo status $?")
            if script.endswith("exit 0"):
                self.terminal.expect(r"status 0")
            with open(fifo, "w", encoding="ascii") as go:
                go.write("on\n")
            wait_until(lambda: os.path.exists(done) and os.path.getsize(done))
            if not script.endswith("exit 0"):
                self.terminal.expect(r"status 0")
            os.unlink(fifo)
            os.unlink(done)

    def test_in_the_background_when_the_terminal_closes(self):
        """A job that runs in the background goes on, as one without scry."""
        fifo, done = self.box.path("work", "fifo"), self.box.path("work", "done")
        os.mkfifo(fifo)
        self.terminal.run("scry run -q bash -c 'read a <fifo; echo whole >done'")
        (run,) = wait_until(lambda: scrytest.children(self.terminal.pid))
        wait_until(lambda: scrytest.children(run) and self.modes() != self.cooked)
        self.terminal.send("\x1a")
        self.terminal.expect(r"Stopped .*scry run")
        self.terminal.run("bg; disown")
        wait_until(lambda: process_state(run) == "S")
        self.terminal.run("exit")
        wait_until(lambda: process_state(self.terminal.pid) == "Z")
        os.close(self.terminal.fd)
        self.terminal.fd = os.open("/dev/null", os.O_RDONLY)
        with open(fifo, "w", encoding="ascii") as go:
            go.write("on\n")
        wait_until(lambda: os.path.exists(done) and os.path.getsize(done))

    def test_in_a_script(self):
        """There the terminal is others', too: it is left, and keys reach all."""
        self.terminal.run("bash -c 'for i in 1 2 3; do echo turn$i; scry run -q sleep 1000; done'")
        self.terminal.expect(r"turn1\r\n")
        wait_until(lambda: [pid for shell in scrytest.children(self.terminal.pid) for run in scrytest.children(shell) for pid in scrytest.children(run)
                            if "sleep" in command_line(pid)])
        self.assertEqual(self.modes(), self.cooked)
        self.terminal.send("\x03")
        self.terminal.expect(r"ready> ")
        self.assertNotIn("turn2\r\n", self.terminal.seen)

    def test_typed_ahead(self):
        """What the command has not read is for the shell, also a line that is not whole."""
        self.terminal.run("scry run -q sh -c 'read a; echo $a; read b </dev/tty; echo $b'")
        self.terminal.send("one\ntwo\necho three\necho fo")
        self.terminal.expect(r"\none\r\n(?s:.*)\ntwo\r\n(?s:.*)ready> three\r\n")
        self.terminal.send("ur\n")
        self.terminal.expect(r"four\r\n")

    def test_end_of_file_typed_ahead(self):
        """Typed before the command is there, and left for the shell: an end of file stays one, behind a line and within one."""
        self.terminal.send("scry run -q --tee sh -c 'cat; cat; sleep 0.1; echo over'; cat; echo status $?\none\n\x04two\x04\x04three\n\x04")
        self.terminal.expect(r"\none\r\n(?s:.*)two(?s:.*)over\r\n(?s:.*)three(?s:.*)status 0\r\n")
        self.assertNotIn("\0", self.terminal.seen)

    def test_full_screen(self):
        """A program that takes the whole screen writes the same bytes, and reads the same keys."""
        text = self.box.path("work", "screen.py")
        with open(text, "w", encoding="ascii") as file:
            file.write(SCREEN)
        shown = []
        for watched in ("", "scry run -q --tee "):
            self.terminal.run(f"{watched}python3 -I screen.py; echo status $?")
            self.terminal.expect(r"\x1b\[\?1049h")
            self.terminal.seen = "\x1b" + self.terminal.seen
            self.terminal.expect("press a key")
            self.terminal.send("\x1b[A")  # up, of xterm as keypad(1) has it
            self.terminal.send("\x1bOA")
            shown.append(self.terminal.expect(r"(?s)(.*)status \d+").group(1))
        self.assertEqual(*shown)


# What a terminal's library does: other modes, colours, keys of several characters, lines without a return.
SCREEN = """
import curses
def main(screen):
    curses.nonl()
    curses.start_color()
    curses.init_pair(1, curses.COLOR_RED, curses.COLOR_BLACK)
    for row in range(curses.LINES - 1):
        screen.addstr(row, row, f"row {row}", curses.color_pair(1))
    screen.addstr(curses.LINES - 1, 0, "press a key")
    keys = []
    while curses.KEY_UP not in keys:
        keys.append(screen.getch())
    screen.addstr(3, 3, str(keys))
    screen.refresh()
curses.wrapper(main)
"""


class TerminalCloses(scrytest.TestCase):
    """scry run is what the terminal was opened for: it leads the session, as in `xterm -e` or `ssh -t`."""
    options = ["-q"]

    def close(self, script):
        file = self.box.path("work", "said")
        pid, fd = pty.fork()
        if pid == 0:
            os.chdir(self.box.path("work"))
            command = self.box.scry("run", *self.options, "bash", "-c", script)
            os.execvpe(command[0], command, self.box.env)
        wait_until(lambda: os.path.exists(file) and os.path.getsize(file))
        os.close(fd)
        status = os.waitpid(pid, 0)[1]
        with open(file, encoding="ascii") as said:
            return said.read(), os.waitstatus_to_exitcode(status)

    def test_job_ends(self):
        self.assertEqual(self.close("echo started >said; sleep 1000"), ("started\n", 128 + signal.SIGHUP))

    def test_job_gets_hangup(self):
        said, status = self.close("trap 'echo HUP >>said; exit 5' HUP; echo started >said; "
                                  "while :; do sleep 0.01; done")
        self.assertEqual((said, status), ("started\nHUP\n", 5))

    def test_job_that_outlives_its_terminal(self):
        said, status = self.close("trap '' HUP; echo started >said; exec 0<&- 1>&- 2>&-; "
                                  "while ! [ -e gone ]; do (: </dev/tty) 2>/dev/null || touch gone; sleep 0.01; done; "
                                  "exit 6")
        self.assertEqual((said, status), ("started\n", 6))


class TerminalClosesWithTee(TerminalCloses):
    options = ["-q", "--tee"]


class Tools(scrytest.TestCase):
    """`scry ps`, `scry top` and `scry omis` at a terminal."""

    def terminal(self, rows=24, columns=80):
        terminal = Terminal(self.box, rows, columns)
        self.addCleanup(terminal.close)
        return terminal

    def test_pager(self):
        """scry replay uses a pager on a terminal, and notices when the person has seen enough."""
        terminal = self.terminal()

        def shown(command):
            terminal.run(f"{command}; echo E''ND $?")  # what is typed is shown, too
            text, status = terminal.expect(r"(?s)E''ND \$\?\r\n(.*?)END (\d+)\r\n").groups()
            self.assertEqual(status, "0", text[:500])
            return text.removeprefix("ready> ")

        self.box.run(self.box.scry("run", "-q", "--name", "large", "--", target(), "calls", "3000"))
        self.box.run(self.box.scry("run", "-q", "--name", "small", "--", target(), "calls", "1"))
        for setting in ("SCRY_PAGER='sed s/^/PAGED/'", "PAGER='sed s/^/PAGED/'", "SCRY_PAGER='sed s/^/PAGED/' PAGER=false"):
            lines = shown(f"{setting} scry replay small").splitlines()
            self.assertRegex(lines[0], r"^PAGEDprocess \d+ ")
            self.assertEqual([line[:5] for line in lines], ["PAGED"] * 5)
            self.assertIn("\033[", lines[1])  # it is still for a terminal
        for command in ("report small", "diff small large"):
            lines = shown(f"SCRY_PAGER='sed s/^/PAGED/' scry {command}").splitlines()
            self.assertEqual([line for line in lines if not line.startswith("PAGED")], [])
        self.assertEqual(len(shown("SCRY_PAGER='head -c 10' scry replay large")), 10)
        for setting in ("SCRY_PAGER=", "SCRY_PAGER=cat", "PAGER=cat"):  # none
            self.assertRegex(shown(f"{setting} scry replay small"), r"^process \d+")
        self.assertRegex(shown("scry replay small"), r"process \d+")  # less, which ends as it fits
        self.assertEqual(shown("SCRY_PAGER='sed s/^/PAGED/' scry replay small >out; grep -c PAGED out | cat").strip(), "0")

    def test_listing_fits(self):
        self.box.run(self.box.scry("run", "-q", "sh", "-c", "exit 3", *["argument"] * 20))
        for columns, shown in ((80, "COMMAND"), (50, "COMMAND"), (200, "CPU")):
            with self.subTest(columns=columns):
                terminal = self.terminal(columns=columns)
                terminal.run("scry ps; echo E''ND")  # what is typed is shown, too, and shall not look like the end
                lines = terminal.expect(r"(?s)E''ND\r\n(.*?)END\r\n").group(1).splitlines()
                self.assertEqual(len(lines), 2, lines)
                self.assertIn(shown, lines[0])
                self.assertRegex(lines[1], r"^\d+T\d+-\S+ +exit 3 .*\bsh?")
                self.assertLessEqual(max(len(line) for line in lines), columns)
        self.box.run(self.box.scry("run", "-q", "sh", "-c", "kill -9 $$", *["argument"] * 20))
        _, killed, failed = self.box.run(self.box.scry("ps")).stdout.splitlines()  # without a terminal each has its line, and is whole
        self.assertRegex(killed, r" sh -c kill -9 \$\$( argument){20}  -> sh was killed by SIGKILL, probably by its own script$")
        self.assertRegex(failed, r" sh -c exit 3( argument){20}$")

    def test_top_gives_the_screen_back_when_stopped(self):
        run = self.box.start(self.box.scry("run", "-q", "sleep", "1000"))
        wait_until(lambda: '"running"' in self.box.run(self.box.scry("ps", "--json")).stdout)
        terminal = self.terminal()
        terminal.run("scry top @last")
        terminal.expect(r"\x1b\[\?1049h")
        terminal.expect("q quit")
        terminal.send("\x1a")
        terminal.expect(r"\x1b\[\?1049l")
        terminal.expect("Stopped")
        terminal.run("fg")
        terminal.expect(r"\x1b\[\?1049h")
        terminal.resize(6, 20)
        terminal.expect(r"q quit  h help  c cp(?!u)")
        terminal.send("q")
        terminal.expect(r"\x1b\[\?1049l")
        terminal.expect("ready> ")
        os.kill(run.pid, signal.SIGTERM)
        run.wait()

    def test_top_keys(self):
        """Help, tree, filter and order change the picture."""
        run = self.box.start(self.box.scry("run", "-q", "sh", "-c", "sleep 1000 & sleep 1001; true"))
        wait_until(lambda: self.box.run(self.box.scry("ps")).stdout.count("sleep") > 2)
        terminal = self.terminal(rows=24)
        terminal.run("scry top @last")
        terminal.expect(r"q quit  h help")
        terminal.send("?")
        terminal.expect(r"processes as a tree")
        terminal.send("?v")
        terminal.expect(r"\d  sh\x1b\[K\r+\n[^\n]*\d    sleep\x1b\[K\r+\n[^\n]*\d    sleep\x1b")
        terminal.send("/lee\n")
        terminal.expect(r"NAME[^\n]*\n[^\n]*\d  sleep\x1b\[K\r+\n[^\n]*\d  sleep\x1b\[K\r+\n\x1b\[J.*/ filter: lee")
        terminal.send("\x1b")
        terminal.expect(r"\d  sh\x1b\[K")
        terminal.send("q")
        terminal.expect(r"\x1b\[\?1049l")
        os.kill(run.pid, signal.SIGTERM)
        run.wait()

    def test_top_ends_with_how_it_ended(self):
        """The functions of the last picture are those that the job has had, not those of half a second before."""
        target = scrytest.built("test", "system", "targets", "traced")
        run = self.box.start(self.box.scry("run", "-q", "--", target, "step"), stdin=subprocess.PIPE)
        wait_until(lambda: '"running"' in self.box.run(self.box.scry("ps", "--json")).stdout)
        terminal = self.terminal()
        terminal.run("scry top @last; echo l''eft")
        terminal.expect(r"[0-9] +step")
        run.stdin.close()
        picture = terminal.expect(r"(?s)\x1b\[\?1049l(.*)left").group(1)
        made = re.search(r"^calls step (\d+)$", run.stdout.read(), re.M).group(1)
        run.wait()
        self.assertRegex(picture, r"exited")
        self.assertRegex(picture, rf" {made} +step")

    def test_top_finds_a_monitor_that_comes_later(self):
        """It may be read before scry run has a monitor, or while that is started again."""
        target = scrytest.built("test", "system", "targets", "traced")
        run = self.box.start(self.box.scry("run", "-q", "--", target, "step"), stdin=subprocess.PIPE)
        once = self.box.scry("top", "--once", "--json", "@last")
        wait_until(lambda: '"step"' in self.box.run(once).stdout)
        os.kill(run.pid, signal.SIGSTOP)  # it would start another at once
        monitor = self.box.monitor_pid()
        os.kill(monitor, signal.SIGKILL)
        wait_until(lambda: scrytest.process_gone(monitor))
        terminal = self.terminal()
        terminal.run("scry top @last")
        terminal.expect(r"1 process ")
        terminal.expect(r"1 process ")
        os.kill(run.pid, signal.SIGCONT)
        terminal.expect(r"[0-9] +step")
        terminal.send("q")
        terminal.expect("ready> ")
        run.stdin.close()
        run.wait()


if __name__ == "__main__":
    scrytest.main()
