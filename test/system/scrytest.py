# SPDX-License-Identifier: Apache-2.0
"""What the system tests share: a private place for a monitor, sessions of `scry omis`, example programs, waiting.

A test file is a unittest module that ends with `scrytest.main()`, which speaks TAP (tapcases.py), so that every case is counted:

    import scrytest

    class Attach(scrytest.TestCase):                 # self.box is a fresh Sandbox in every test
        def test_attach(self):
            program = self.box.start_example("threads", "2")
            with self.box.omis() as omis:
                reply = omis.request(f': node_attach2("localhost") proc_attach3([n_1], {program.pid}, "")')
                self.assertTrue(reply.ok())

    scrytest.main()

Only the standard library is used. Nothing here touches a monitor of the person who runs the tests: sockets, jobs, home
and temporary files of everything started lie in the sandbox, a directory with a short name (a socket's path may have
107 bytes). When the sandbox closes, everything it started is ended, by process id, and the directory removed.
"""

import atexit
import contextlib
import functools
import glob
import hashlib
import itertools
import json
import os
import pwd
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

import tapcases
from omistest import OmisSession

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("SCRY_BUILD") or os.path.join(SOURCE, "build", "check"))
SCALE = tapcases.SCALE
# SCRY_TEST_THOROUGH=1 ./check takes long: all cases with each MPI, everything that depends on luck many times.
INDEX_CACHE = ".cache/scry/symbols"  # of a home
INDEXES = os.path.join(BUILD, "symbol-indexes")
THOROUGH = os.environ.get("SCRY_TEST_THOROUGH") == "1"
# SCRY_TEST_SPREAD=3 spreads what tests of services observe over hosts (spreadtest.py).
SPREAD = int(os.environ.get("SCRY_TEST_SPREAD", "0"))

# A run in the background ignores signals that the programs tested here are to be ended by, and they would inherit that.
for each in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(each) == signal.SIG_IGN:
        signal.signal(each, signal.default_int_handler if each == signal.SIGINT else signal.SIG_DFL)
# Kept from the caller's environment; everything else is left out, so that tests do not depend on it.
KEPT_VARIABLES = ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "LANG", "LC_ALL", "TZ")
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


def can_read_kernel_log():
    """Does it name this machine's processes by the numbers that they have here?"""
    try:
        os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        return False
    with open("/proc/sys/debug/exception-trace", encoding="ascii") as file:
        return file.read().strip() == "1" and os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"


def in_kernel_log(pid):
    """Whether the kernel has a line of a fault of that process: of many it says ten in five seconds."""
    log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            try:
                text = os.read(log, 8192).decode(errors="replace").split(";", 1)[-1]
            except BrokenPipeError:  # it was overwritten meanwhile
                continue
            except BlockingIOError:
                return False
            if f"[{pid}] " in text or f"[{pid}]: " in text:
                return True
    finally:
        os.close(log)


def wait_until(condition, timeout=tapcases.TIMEOUT, message=None):
    """Polls until condition() is true and returns its value; AssertionError after `timeout` seconds, at least TIMEOUT. A condition that
    takes long, for it starts a program, has a rest as long: what it waits for wants the processor, too."""
    timeout = max(timeout, tapcases.TIMEOUT)
    end = time.monotonic() + timeout * SCALE
    while True:
        begun = time.monotonic()
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            text = message() if callable(message) else message
            raise AssertionError(f"not within {timeout:g} s: {text or getattr(condition, '__name__', condition)}")
        time.sleep(min(0.1, max(0.005, time.monotonic() - begun)))


def room(seconds):
    """For what is to be over in so many seconds: the most that it may take here, where all may be slow (SCALE) and more want
    to run than there are processors."""
    with open("/proc/loadavg", encoding="ascii") as file:
        minute, _, _, now, _ = file.read().split()
    wanted = max(float(minute), int(now.partition("/")[0]))
    return seconds * SCALE * max(1, wanted / os.cpu_count())


def rounds(few, many):
    """How often to do what finds something by luck or by going through all there is: `many` times in a thorough run."""
    return many if THOROUGH else few


def process_state(pid):
    """The state letter of /proc/PID/stat ('R', 'S', 'T', 't', 'Z', ...), or None when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return chr(file.read().rsplit(b")", 1)[1].split()[0][0])
    except (FileNotFoundError, ProcessLookupError):
        return None


def process_gone(pid):
    return process_state(pid) in (None, "Z", "X")


def process_status(pid, tid=None):
    """/proc/PID[/task/TID]/status as a dictionary, or {} when it is gone."""
    path = f"/proc/{pid}/task/{tid}/status" if tid else f"/proc/{pid}/status"
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return dict((key, value.strip()) for key, _, value in (line.partition(":") for line in file))
    except (FileNotFoundError, ProcessLookupError):
        return {}


def process_command_line(pid):
    """/proc/PID/cmdline: bytes, words end with a zero; b"" when it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def children(pid):
    """Process ids of the children of all threads of a process; but for those that scry run has for itself."""
    found = []
    try:
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/children", encoding="ascii") as file:
                found += [int(word) for word in file.read().split()
                          if process_status(word).get("Name") not in ("job-signals", "job-writer", "job-observer", "job-publisher",
                                                                      "job-relay", "job-terminal")]
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def build_options():
    """Meson's options of the build under test."""
    with open(os.path.join(BUILD, "meson-info", "intro-buildoptions.json"), encoding="utf-8") as file:
        return {option["name"]: option["value"] for option in json.load(file)}


def sanitizers():
    """The compiler's options of a sanitized build, [] of an ordinary one."""
    chosen = build_options()["b_sanitize"]
    return [] if chosen == "none" else [f"-fsanitize={chosen}"]


def compiler():
    """The words of the compiler that made the build."""
    with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as file:
        words = shlex.split(json.load(file)[0]["command"])
    return list(itertools.takewhile(lambda word: not word.startswith("-"), words))


def built(*parts):
    """The path of something built, which must exist."""
    path = os.path.join(BUILD, *parts)
    if not os.path.exists(path):
        raise AssertionError(f"{path} is not built")
    return path


def example(name):
    return built("examples", name)


def _made_once(what, name, make):
    """The path of what make(PATH) makes below the build directory, once for all that have the same `what`."""
    place = os.path.join(BUILD, "test", "compiled", hashlib.sha256(what).hexdigest()[:16])
    if not os.path.exists(place):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        making = tempfile.mkdtemp(dir=os.path.dirname(place), prefix="making-")
        try:
            make(os.path.join(making, name))
            os.chmod(making, 0o755)
            with contextlib.suppress(OSError):  # another test was quicker
                os.rename(making, place)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return os.path.join(place, name)


def kept(source):
    """A copy of a source that a test has written, at a path that is always the same for the same text."""
    name = os.path.basename(source)
    with open(source, "rb") as file:
        what = name.encode() + b"\0" + file.read()
    return _made_once(what, name, lambda path: shutil.copyfile(source, path))


def compiled(name, command, source):
    """The path of a program that `command -o PATH` makes of a source. It is made once for a build, whichever test needs
    it first: what is the same is the command, the source and the headers beside it, and the compiler."""
    def make(path):
        done = subprocess.run([*command, "-o", path], check=False, capture_output=True, text=True,
                              cwd=os.path.dirname(path))
        if done.returncode:
            raise AssertionError(f"{' '.join(command)}: {done.stderr}")

    compiler, folder = os.path.realpath(shutil.which(command[0])), os.path.dirname(source)
    what = [repr((name, command, compiler, os.stat(compiler).st_mtime_ns)).encode()]
    for path in [source, *sorted(os.path.join(folder, each) for each in os.listdir(folder) if each.endswith(".h"))]:
        with open(path, "rb") as file:
            what.append(hashlib.sha256(file.read()).digest())
    return _made_once(b"".join(what), name, make)


def blind_library():
    """The path of a library through which nobody can unwind a stack."""
    source = os.path.join(SOURCE, "test", "system", "targets", "blind.c")
    return compiled("blind.so", ["cc", "-shared", "-fPIC", "-O1", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables",
                                 "-fno-unwind-tables", source], source)


def readable_by_all(path):
    """Whether an ordinary user gets to a path: every folder above it must let others through."""
    path = os.path.realpath(path)
    while path != "/":
        path = os.path.dirname(path)
        if not os.stat(path).st_mode & stat.S_IXOTH:
            return False
    return True


def share_indexes(source, target):
    """The symbol indexes of large libraries take longer to make than most tests: one for all sandboxes."""
    with contextlib.suppress(OSError):
        large = [entry for entry in os.scandir(source)
                 if re.fullmatch(r"[0-9a-f]+-.\.\d+", entry.name) and entry.stat().st_size > 30000]
        if large:
            os.makedirs(target, mode=0o700, exist_ok=True)
        for entry in large:
            path = os.path.join(target, entry.name)
            if not os.path.exists(path):
                try:
                    os.link(entry.path, path)
                except OSError:  # another file system, or somebody else's
                    shutil.copy(entry.path, path)


@functools.cache
def _placed_programs():
    """What was built, wherever its room keeps it, with the folder that it has in a sandbox: bin/scry, libexec/scry-*,
    libexec/libscry-credentials.so, lib/libscry-*.so, ext/scry_ext_*.so."""
    found = []
    for top in ("src", "ext"):
        for folder, folders, names in os.walk(os.path.join(BUILD, top)):
            folders[:] = [name for name in folders if name != "test" and not name.endswith(".p")]
            for name in names:
                path = os.path.join(folder, name)
                if name == "libscry-credentials.so":
                    found.append((path, "libexec"))
                elif name == "scry":
                    found.append((path, "bin"))
                elif name == "libscry-agent.so" or (name.startswith("libscry-mpi-") and name.endswith(".so")):
                    found.append((path, "lib"))
                elif name.startswith("scry_ext_") and name.endswith(".so"):
                    found.append((path, "ext"))
                elif name.startswith("scry-") and "." not in name and os.access(path, os.X_OK):
                    found.append((path, "libexec"))
    return found


open_boxes = []


def _process_entries():
    with os.scandir("/proc") as entries:
        return [(entry.name, entry.inode()) for entry in entries if entry.name.isdigit()]


_older = set(_process_entries())  # nothing of it comes from a sandbox of this program, which is one of them


def _newer_processes():
    """The numbers of the processes that came after this program; one that has the number of another has another inode, too."""
    return [name for name, inode in _process_entries() if (name, inode) not in _older]


def _abandon_all(sig=None, _frame=None):
    """If the test itself is ended (time-out, Ctrl-C): quickly and by force, but completely."""
    for box in list(open_boxes):
        box.abandon()
    if sig:
        signal.signal(sig, signal.SIG_DFL)
        os.kill(os.getpid(), sig)


atexit.register(_abandon_all)


class Program(subprocess.Popen):
    """Something started; who waits for its end has time."""

    def wait(self, timeout=None):
        return super().wait(timeout if timeout is None or timeout < 3 else max(timeout, tapcases.TIMEOUT * SCALE))


class Sandbox:
    """A private place for one monitor and everything it watches, a folder of `where`, or `root` itself. `user` is the name
    of an ordinary user to run as (only root can; Sandbox.ordinary_user says which)."""

    Popen = Program
    Session = OmisSession
    haste = None  # of the case that runs, see hasten()

    def __init__(self, user=None, where="/tmp", root=None):
        self.root = root or tempfile.mkdtemp(prefix="scry", dir=where)
        os.makedirs(self.root, exist_ok=True)
        open_boxes.append(self)
        self.started = []
        self.sessions = []
        self.identity = {}
        owner = None
        if user:
            entry = pwd.getpwnam(user)
            owner = (entry.pw_uid, entry.pw_gid)
            self.identity = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
            os.chown(self.root, *owner)
        for name in ("run", "jobs", "home", "tmp", "bin", "libexec", "lib", "ext", "work", "pauses"):
            os.mkdir(self.path(name), 0o700)
            if owner:
                os.chown(self.path(name), *owner)
        # What an ordinary user could not reach (a build below root's home) is copied instead of linked.
        place = shutil.copy2 if user and not readable_by_all(BUILD) else os.symlink
        self._place_programs(place)
        if place is not os.symlink and owner:
            for folder in ("bin", "libexec", "lib", "ext"):
                for name in os.listdir(self.path(folder)):
                    os.chown(self.path(folder, name), *owner)
        self.env = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        if "ASAN_OPTIONS" in self.env:
            self.env["ASAN_OPTIONS"] += ":detect_leaks=0"  # LeakSanitizer aborts in a process that is traced
        self.env.update(
            PATH=f"{self.path('bin')}:{SYSTEM_PATH}",
            HOME=self.path("home"),
            TMPDIR=self.path("tmp"),
            TERM="dumb",
            COLUMNS="10000",  # lines as long as they are; tests of that set another
            SCRY_RUNTIME_DIR=self.path("run"),
            SCRY_STATE_DIR=self.path("jobs"),
            SCRY_LIBEXEC=self.path("libexec"),
            SCRY_EXT_PATH=self.path("ext"),
            SCRY_AGENT_LIB=self.path("lib", "libscry-agent.so"),
            SCRY_TEST_PAUSES=self.path("pauses"),
        )
        if not user:
            share_indexes(INDEXES, self.path("home", INDEX_CACHE))
        if Sandbox.haste:
            self.env["SCRY_TEST_HASTE"] = str(int(Sandbox.haste / SCALE))
        if os.getuid() == 0 and not user:
            self.env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    def _place_programs(self, place):
        for path, folder in _placed_programs():
            place(path, self.path(folder, os.path.basename(path)))

    @staticmethod
    def ordinary_user():
        """The name of a user without privileges to run tests as, or None when we are one already."""
        return "nobody" if os.getuid() == 0 else None

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def scry(self, *arguments):
        """The command line of the built scry."""
        program = self.path("bin", "scry")
        if not os.path.exists(program):
            raise AssertionError(f"scry is not built in {BUILD}")
        return [program, *map(str, arguments)]

    def enter(self, command, options):
        """The words of a command that is to be executed here; a host of a lab (labtest.py) has more to do for that."""
        options.setdefault("cwd", self.path("work"))
        return [str(word) for word in command]

    def run(self, command, timeout=100, env=None, merged=False, **options):
        """Runs a command to its end; a CompletedProcess with text in stdout and stderr (`merged`: all in stdout)."""
        words = self.enter(command, options)
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(words, env={**self.env, **(env or {})}, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT if merged else subprocess.PIPE,
                              text=True, errors="replace", timeout=timeout * SCALE, **self.identity, **options)

    def start(self, command, env=None, **options):
        """Starts a command in a session of its own, its output in a pipe (text), and remembers it; a Popen."""
        words = self.enter(command, options)
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("start_new_session", True)
        options.setdefault("text", True)
        process = self.Popen(words, env={**self.env, **(env or {})}, **self.identity, **options)
        self.started.append(process)
        return process

    def start_example(self, name, *arguments, **options):
        return self.start([self.program(example(name)), *arguments], **options)

    def program(self, path):
        """A path from which the sandbox's user can run a built program: itself, or a copy."""
        if not self.identity or readable_by_all(path):
            return path
        copy = self.path("work", os.path.basename(path))
        if not os.path.exists(copy):
            shutil.copy2(path, copy)
            os.chmod(copy, 0o755)
        return copy

    def omis(self, *options, **keywords):
        """A new tool session; a context manager."""
        session = self.Session(self, *options, **keywords)
        self.sessions.append(session)
        return session

    def pause(self, name):
        """The first process of this sandbox that comes to pause_at(name) is held there; a Pause, a context manager.
        Skips the test in a build without such points."""
        if not build_options().get("pauses"):
            raise unittest.SkipTest(f"needs -Dpauses=true: it holds a process at {name}")
        return Pause(self.path("pauses", name))

    def monitor_pid(self):
        """The process id of this sandbox's monitor, or None when none runs."""
        try:
            with open(self.path("run", "monitor.pid"), encoding="ascii") as file:
                pid = int(file.read().split()[0])
        except (FileNotFoundError, ValueError, IndexError):
            return None
        return None if process_gone(pid) else pid

    def processes(self, prefix="", mark=None):
        """Processes that come from this sandbox, also those that nobody remembers (a monitor whose pid file is gone, a job
        that outlived its supervisor), by SCRY_RUNTIME_DIR or `mark` in their environment; of programs named prefix... only."""
        mark = (mark or f"SCRY_RUNTIME_DIR={self.path('run')}").encode()
        for entry in _newer_processes():
            try:
                if prefix and not os.readlink(f"/proc/{entry}/exe").rpartition("/")[2].startswith(prefix):
                    continue
                with open(f"/proc/{entry}/environ", "rb") as file:
                    environment = file.read().split(b"\0")
            except OSError:
                continue
            if mark in environment:
                yield int(entry)

    _processes = processes

    def stop_monitor(self, sig=signal.SIGTERM):
        """Ends the monitor and waits for its end."""
        pid = self.monitor_pid()
        if pid:
            os.kill(pid, sig)
            wait_until(lambda: process_gone(pid), 10, f"the monitor {pid} ends after signal {sig}")

    def abandon(self):
        for process in [*self.started, *(session.process for session in self.sessions)]:
            _kill_session(process)
        self._remove()

    def _end_broker(self):
        """The private broker, which outlives whoever needed it."""
        for path in glob.glob(self.path("home", ".local/state/scry/broker/*/broker.pid")) + [self.path("run", "broker.pid")]:
            with contextlib.suppress(OSError, ValueError):
                with open(path, encoding="ascii") as file:
                    pid = int(file.read())
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if self.root.encode() in file.read():
                        os.kill(pid, signal.SIGKILL)

    def _remove_areas(self):
        """Those in /dev/shm of a monitor that was killed; the next monitor of this user would do so, too."""
        rings = self.path("run", "rings")
        if os.path.islink(rings):
            folder = os.readlink(rings)
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.unlink(f"{folder}.of")
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(folder))

    def _remove(self):
        for pid in self.processes():
            _kill(pid, signal.SIGKILL)
        self._end_broker()
        self._remove_areas()
        if not self.identity:
            share_indexes(self.path("home", INDEX_CACHE), INDEXES)
        shutil.rmtree(self.root, ignore_errors=True)
        if self in open_boxes:
            open_boxes.remove(self)

    def close(self):
        for session in self.sessions:
            session.close()
        for process in self.started:
            _end(process)
        for pid in self.processes(("scry-link", "scry-tasks")):  # they wait for somebody to come
            _kill(pid, signal.SIGTERM)
        try:
            wait_until(self._is_left, 10, lambda: "they end after the monitor: " + "; ".join(
                f"{pid} {process_command_line(pid)}" for pid in self.processes("scry")))
            self._check_log()
        finally:
            self._remove()

    def _is_left(self):
        """Also by the monitor of a task's run that began while this was closed: it would wait a minute for somebody to come."""
        self.stop_monitor()
        return not list(self.processes("scry"))

    def _check_log(self):
        """Builds for tests write down when a service answers what doc/reference/services.md does not tell of."""
        try:
            with open(self.path("run", "monitor.log"), encoding="utf-8", errors="replace") as file:
                untold = [line for line in file if "of which its row and the reference do not tell" in line]
        except OSError:
            return
        if untold:
            raise AssertionError("".join(untold))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


class Pause:
    """A point at which one process waits (src/base/system/pause.h), the first to come there after the beginning of the with
    statement, until release():

        with self.box.pause("info.between-looks") as pause:
            ps = self.box.start(self.box.scry("ps"))
            pid = pause.reached()
            ...                     # what is to happen just then
            pause.release()         # or the end of the statement
    """

    def __init__(self, path):
        self.path = path
        self.here = f"{path}.here"

    def __enter__(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.here)  # of one that came while the last one was released
        with open(self.path, "w", encoding="ascii"):
            return self

    def reached(self, timeout=20):
        """Waits until a process is there; its process id."""
        wait_until(lambda: os.path.exists(self.here), timeout, f"a process comes to {os.path.basename(self.path)}")
        with open(self.here, encoding="ascii") as file:
            return int(file.read())

    def release(self):
        for path in (self.path, self.here):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def __exit__(self, *unused):
        self.release()


def _kill(pid, sig):
    try:
        os.kill(pid, sig)
    except ProcessLookupError:
        pass


def _kill_session(process):
    """Kills what start() started and all that is in its process group."""
    if process.poll() is None:
        try:
            # Only if it leads its own group; never somebody else's.
            if os.getpgid(process.pid) == process.pid:
                os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.kill()


def _end(process):
    """Ends what start() started, and collects it."""
    _kill_session(process)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            try:
                stream.close()
            except BrokenPipeError:
                pass


def hasten(times):
    """Of a case, or all of a class, that waits for limits of the product: those in time_hasten() (src/base/system/pause.h) are so many
    times shorter in all sandboxes of it. So each is to be far above what a busy machine takes for what must not come to it."""
    def mark(case):
        case.haste = times
        return case
    return mark


def thorough(case):
    """Of a case, or all of a class, that is a variant of others, or takes long for what seldom breaks: it runs in thorough runs, and
    where it is named on the command line."""
    case.thorough = True
    return case


class TestCase(unittest.TestCase):
    """A test case with a sandbox of its own, self.box. `user` may be set to Sandbox.ordinary_user(), `where` to another
    folder, of another file system."""

    maxDiff = None
    user = None
    where = "/tmp"
    haste = None

    def make_box(self):
        return Sandbox(self.user, self.where)

    def setUp(self):
        Sandbox.haste = getattr(getattr(self, self._testMethodName), "haste", self.haste)
        self.box = self.make_box()
        self.addCleanup(self.box.close)


def main():
    """Runs the calling module's tests (or those named as arguments) and prints TAP."""
    tapcases.run(sys.modules["__main__"], SCALE * (4 if THOROUGH else 1), _abandon_all, THOROUGH)
