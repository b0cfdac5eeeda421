# SPDX-License-Identifier: Apache-2.0
"""Bad input to the C-Tracer: programs whose debug information is missing, damaged or of another build, sockets with
nobody or somebody else behind them, processes killed while they write, traces cut off anywhere, a full disk. The program
always does what it does alone; what can be read is shown, and the rest is named."""

import glob
import os
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import threading
import unittest

import scrytest
from ctracertest import TracerCase
from scrytest import wait_until

SAID = "calls work 3\ncalls leaf 6\n"
HELLO_MAGIC, HELLO_HEAD = 0x59524353, 216  # of struct agent_hello (shm/area.h): two texts follow
HAS_HOOKS = 1
with open(os.path.join(scrytest.SOURCE, "src", "shm", "area.h"), encoding="utf-8") as header:
    VERSION = int(re.search(r"AREA_VERSION = (\d+)", header.read())[1])


class Programs(TracerCase):
    """traced.c, built in ways that leave something to be wished for. Every build has a build-id of its own."""

    builds = 0

    def build(self, name, *options, hooks=True, compiler="gcc"):
        Programs.builds += 1
        return self.compile("traced.c", *options, f"-DBUILD={Programs.builds}", "-Wl,--build-id", f"-frandom-seed={name}",
                            name=name, hooks=hooks, compiler=compiler)

    def tool(self, *command):
        if not shutil.which(command[0]):
            self.skipTest(f"{command[0]} is not installed")
        done = self.box.run(command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def run_calls(self, program, *options):
        """The summary; and the calls that replay shows. The program is as it is."""
        done = self.scry_run(*options, "--", program, "calls", 3)
        self.assertEqual((done.returncode, done.stdout), (0, SAID), done.stderr)
        replay = self.box.run(self.box.scry("replay", "@last"))
        self.assertIn(replay.returncode, (0, 1), replay.stderr)
        report = self.box.run(self.box.scry("report", "@last"))
        self.assertEqual(report.returncode, 0, report.stderr)
        return done.stderr, replay

    def test_hooks_of_its_own(self):
        """A program that defines the hooks gets its calls itself; it is not reported as compiled without."""
        source = self.box.path("work", "own.c")
        with open(source, "w", encoding="ascii") as file:
            file.write("#define HOOK __attribute__((no_instrument_function)) void\n"
                       "static int calls;\n"
                       "HOOK __cyg_profile_func_enter(void *function, void *site) { calls++; }\n"
                       "HOOK __cyg_profile_func_exit(void *function, void *site) {}\n"
                       "static int leaf(int n) { return n + 1; }\n"
                       "int main(void) { return leaf(1) + calls; }\n")
        done = self.scry_run("--trace", "all", "--", self.compile(source))
        self.assertEqual(done.returncode, 4, done.stderr)  # its own hooks were called
        self.assertEqual(len(self.lines_said(done.stderr, "warning", "hooks of their own", "own;")), 1, done.stderr)
        self.assertNotIn("compiled without", done.stderr)

    def test_script(self):
        """A shell is not what somebody would compile anew; what the script starts may be."""
        shutil.copy("/bin/true", self.box.path("work", "solver"))
        for script, words in (("true; uname >/dev/null", "only programs of the system ran, .*: "),
                              ("./solver; uname >/dev/null", "compiled without -finstrument-functions: solver;")):
            done = self.box.run(self.box.scry("run", "--trace", "fn:*", "sh", "-c", script))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, f"warning +.*{words}")
            self.assertEqual("-finstrument" in done.stderr, "solver" in script)
        for options, said in (["--trace", "fn:*"], "scry: compiled without -finstrument-functions: solver; none of their symbols [^\n]*\n"), ([], ""):
            done = self.box.run(self.box.scry("run", "-q", *options, "--", self.box.path("work", "solver")))
            self.assertRegex(done.stderr, rf"\A{said}\Z")

    def test_stripped(self):
        """Calls without names are shown by their addresses, and why."""
        program = self.build("stripped")
        self.tool("strip", program)
        summary, replay = self.run_calls(program, "--trace", "all", "--args")
        self.assertTrue(self.lines_said(summary, "stripped"), summary)
        self.assertEqual(len(re.findall(r"^ *[\d.]+ +0x[0-9a-f]+\(\)", replay.stdout, re.M)), 9, replay.stdout)
        summary, replay = self.run_calls(program, "--trace", "fn:leaf")
        self.assertTrue(self.lines_said(summary, "fn:leaf", "it is stripped"), summary)
        self.assertEqual(replay.returncode, 1)

    def test_without_debug_information(self):
        """Names, but no values: the remedy is printed once."""
        program = self.build("plain", "-g0")
        summary, replay = self.run_calls(program, "--trace", "fn:leaf", "--args", "--locals")
        self.assertEqual(len(self.lines_said(summary, "compile it with -g")), 1, summary)
        self.assertEqual(replay.stdout.count("leaf("), 6)
        self.assertNotIn("n = ", replay.stdout)

    def test_split(self):
        """-gsplit-dwarf: without the .dwo file its name is reported once, and nothing is guessed; with it all is normal."""
        program = self.build("split", "-gsplit-dwarf", "-dumpdir", self.box.path("work", ""))
        found = glob.glob(self.box.path("work", "*.dwo"))
        self.assertEqual(len(found), 1)
        os.rename(found[0], found[0] + ".away")
        options = ("--trace", "fn:leaf", "--args", "--locals")
        summary, replay = self.run_calls(program, *options)
        self.assertEqual(len(self.lines_said(summary, "split", found[0] + ", which is missing")), 1, summary)
        self.assertEqual(replay.stdout.count("leaf("), 6)
        self.assertNotIn("n = ", replay.stdout)
        os.rename(found[0] + ".away", found[0])
        summary, replay = self.run_calls(program, *options)
        self.assertNotIn(".dwo", summary)
        self.assertEqual(replay.stdout.count("leaf(n = "), 6, replay.stdout)

    def test_lines_only(self):
        """-g1: names and places, but no values: the remedy is printed once, if values were requested."""
        for compiler in ("gcc", "clang"):
            with self.subTest(compiler=compiler):
                if not shutil.which(compiler):
                    continue
                program = self.build(f"lines-{compiler}", "-g1", compiler=compiler)
                for options in (["--args"], ["--locals"]):
                    summary, replay = self.run_calls(program, "--trace", "fn:leaf", *options)
                    said = self.lines_said(summary, f"lines-{compiler}", "values of functions such as leaf",
                                           "compile with -g (not -g1)")
                    self.assertEqual(len(said), 1, summary)
                    self.assertEqual(replay.stdout.count("leaf("), 6)
                    self.assertNotIn("n = ", replay.stdout)
                summary, _ = self.run_calls(program, "--trace", "fn:leaf")
                self.assertNotIn("-g1", summary)

    def test_later_g(self):
        """A -g after -g1: everything is there."""
        summary, replay = self.run_calls(self.build("later", "-g1", "-g"), "--trace", "fn:leaf", "--args")
        self.assertNotIn("-g1", summary)
        self.assertEqual(replay.stdout.count("n = "), 6, replay.stdout)

    def section(self, program, name):
        """Offset and size of a section in the file."""
        found = re.search(rf" {re.escape(name)} +PROGBITS +\w+ (\w+) (\w+)", self.tool("readelf", "-SW", program))
        return int(found[1], 16), int(found[2], 16)

    def damage(self, program, name, change):
        """A copy of the program in which change(bytes of a section) was made, its build-id with it."""
        offset, size = self.section(program, name)
        with open(program, "rb") as file:
            data = bytearray(file.read())
        content = data[offset:offset + size]
        change(content)
        data[offset:offset + size] = content
        at, length = data.find(b"GNU\0", data.find(b"\x14\0\0\0\x03\0\0\0GNU\0")) + 4, 20
        data[at:at + length] = random.Random(name + str(bytes(content[:64]))).randbytes(length)
        copy = self.box.path("work", f"damaged{len(os.listdir(self.box.path('work')))}")
        with open(copy, "wb") as file:
            file.write(data)
        os.chmod(copy, 0o755)
        return copy

    def test_destroyed_debug_information(self):
        """The debug information makes no sense: functions have the symbol table's names, and a warning says so."""
        program = self.build("whole")

        def destroy(content):
            content[:] = b"\xff" * len(content)
        for name in (".debug_info", ".debug_abbrev"):
            with self.subTest(section=name):
                summary, replay = self.run_calls(self.damage(program, name, destroy), "--trace", "fn:leaf", "--args")
                self.assertEqual(replay.stdout.count("leaf("), 6)
                self.assertTrue(self.lines_said(summary, "debug information"), summary)

    def test_damaged_debug_information(self):
        """Some bytes of it are changed: whatever follows, all calls are there."""
        program = self.build("whole")
        for seed, name in enumerate((".debug_info", ".debug_info", ".debug_info", ".debug_abbrev", ".debug_line", ".debug_str")):
            dice = random.Random(seed)

            def change(content):
                for _ in range(1 + len(content) // 50):
                    content[dice.randrange(len(content))] = dice.randrange(256)
            with self.subTest(section=name, seed=seed):
                _, replay = self.run_calls(self.damage(program, name, change), "--trace", "all", "--args", "--locals",
                                           "--depth", "3")
                self.assertEqual(len(re.findall(r"^ *[\d.]+ +(?!end of)\S+\(", replay.stdout, re.M)), 9, replay.stdout)

    def separate(self, program, debug):
        self.tool("objcopy", "--only-keep-debug", program, debug)
        self.tool("strip", program)
        self.tool("objcopy", f"--add-gnu-debuglink={debug}", program)

    def test_debug_file(self):
        program = self.build("split")
        self.separate(program, program + ".debug")
        summary, replay = self.run_calls(program, "--trace", "fn:leaf", "--args")
        self.assertIn('leaf(n = -2, text = "more")', replay.stdout, summary)

    def test_debug_file_of_another_build(self):
        """Its places and values would be wrong: it is not used, and named."""
        program, other = self.build("split"), self.build("other", "-O2")
        self.separate(program, program + ".debug")
        self.tool("objcopy", "--only-keep-debug", other, program + ".debug")
        summary, replay = self.run_calls(program, "--trace", "all", "--args")
        self.assertTrue(self.lines_said(summary, "split.debug", "another build"), summary)
        self.assertNotIn("leaf", replay.stdout)

    @scrytest.thorough
    def test_replaced_while_it_runs(self):
        """The new file's names and places are not those of what runs."""
        program, other = self.build("first"), self.build("second", "-DTHE_OTHER", "-O2")
        run = self.box.start(self.box.scry("run", "--trace", "lib:nothing", "--", program, "step", "0"),
                             stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertRegex(run.stdout.readline(), "^ready ")
        os.replace(other, program)
        self.scry("set", "@last", "trace=all", "args=yes")
        wait_until(lambda: self.calls(), 20)
        out, err = run.communicate(timeout=30 * scrytest.SCALE)
        self.assertEqual(run.returncode, 0, err)
        self.assertRegex(out, r"calls step \d+")
        names = set(self.calls())
        if names != {"step"}:
            self.assertTrue(all(name.startswith("0x") for name in names), names)
            self.assertIn("replaced", err)

    def test_static_pie(self):
        self.tool("gcc", "-g", "-finstrument-functions", "-static-pie", "-fPIE", "-w", "-o", self.box.path("work", "spie"),
                  os.path.join(scrytest.SOURCE, "test", "system", "targets", "traced.c"), "-pthread")
        summary, _ = self.run_calls(self.box.path("work", "spie"), "--trace", "all")
        self.assertTrue(self.lines_said(summary, "statically linked", "untraced", "Remedy"), summary)


class Listener:
    """A false monitor behind the agent's socket. `answer` is called with each connection."""

    def __init__(self, path, answer, kind=socket.SOCK_SEQPACKET):
        self.socket = socket.socket(socket.AF_UNIX, kind)
        self.socket.bind(path)
        self.socket.listen(8)
        self.hellos = []
        self.answer = answer
        self.kept = []
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def asked(self):
        """The hellos, once there is one: it may still lie in the socket when its sender has gone."""
        return wait_until(lambda: self.hellos)

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.kept.append(connection)
            try:
                self.hellos.append(connection.recv(65536))
                self.answer(connection)
            except OSError:
                pass

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()
        for connection in self.kept:
            connection.close()


class SocketCase(TracerCase):
    def setUp(self):
        super().setUp()
        self.path = self.box.path("run", "other.sock")

    def run_traced(self, path):
        """Runs a traced program whose agent gets this socket; whatever is there, the program is not disturbed."""
        done = self.box.run([self.box.program(scrytest.built("test", "system", "targets", "traced")), "calls", 3],
                            env={"LD_PRELOAD": self.box.path("lib", "libscry-agent.so"), "SCRY_AGENT_SOCKET": path,
                                 "SCRY_JOB": self.box.path("jobs", "none"), "SCRY_TRACE_WANTED": "1"}, timeout=20)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, SAID, ""))

    def listen(self, answer, **options):
        listener = Listener(self.path, answer, **options)
        self.addCleanup(listener.close)
        return listener


class Unreadable(SocketCase):
    user = scrytest.Sandbox.ordinary_user()

    def test_unreadable(self):
        """A socket that the program's user may not use: nobody hears of it."""
        listener = self.listen(lambda connection: None)
        os.chmod(self.path, 0)
        self.run_traced(self.path)
        self.assertEqual(listener.hellos, [])
        os.chmod(self.path, 0o777)
        self.run_traced(self.path)
        self.assertEqual(len(listener.asked()), 1)


class Sockets(SocketCase):
    def test_nobody_there(self):
        self.run_traced(self.path)
        self.run_traced("/dev/null")
        self.run_traced("relative")
        self.run_traced("/" + "x" * 300)
        self.run_traced("")
        with open(self.path, "w", encoding="ascii"):
            pass
        os.chmod(self.path, 0)
        self.run_traced(self.path)

    def test_nobody_listens_any_more(self):
        Listener(self.path, lambda connection: None).close()
        self.run_traced(self.path)

    def test_another_kind_of_socket(self):
        self.listen(lambda connection: None, kind=socket.SOCK_STREAM)
        self.run_traced(self.path)

    def test_somebody_who_says_nothing(self):
        listener = self.listen(lambda connection: None)
        self.run_traced(self.path)
        self.assertEqual(struct.unpack_from("<II", listener.asked()[0]), (HELLO_MAGIC, VERSION))
        self.assertEqual([self.flags(hello) for hello in listener.hellos], [HAS_HOOKS])

    def test_wrong_answers(self):
        """Nonsense, another version, a refusal, a welcome without descriptors, with others than were asked for."""
        def welcome(status=0, version=VERSION, magic=HELLO_MAGIC):
            return struct.pack("<IIiI200s", magic, version, status, 100, b"for a test")
        pipe = os.pipe()
        self.addCleanup(lambda: [os.close(fd) for fd in pipe])
        for name, message, descriptors in (("nonsense", b"x" * 5000, []), ("nothing", b"", []), ("short", b"SCRY", []),
                                           ("refusal", welcome(-71), []), ("newer", welcome(version=VERSION + 1), pipe),
                                           ("none", welcome(), []), ("few", welcome(), pipe[:1]),
                                           ("pipes", welcome(), [pipe[0]] * 3), ("many", welcome(), [pipe[0]] * 9)):
            with self.subTest(answer=name):
                def answer(connection, message=message, descriptors=descriptors):
                    socket.send_fds(connection, [message], list(descriptors))
                    connection.close()
                self.check_answer(answer)

    def check_answer(self, answer):
        """A process that answers like this is no monitor: it is asked once, and gets no explanation."""
        listener = Listener(self.path, answer)
        try:
            self.run_traced(self.path)
            listener.asked()
        finally:
            listener.close()
        os.remove(self.path)
        self.assertEqual([self.flags(hello) for hello in listener.hellos], [HAS_HOOKS])

    def flags(self, hello):
        """Of a hello, which has just the bytes that it needs."""
        size, flags = struct.unpack_from("<8xI8xI", hello)
        self.assertEqual(size, len(hello))
        job, exe, rest = hello[HELLO_HEAD:].split(b"\0")
        self.assertEqual((job, rest), (os.fsencode(self.box.path("jobs", "none")), b""))
        self.assertTrue(exe.startswith(b"/"))
        return flags

    def test_empty_areas(self):
        """A welcome with files that are no area."""
        files = []
        for size in (0, 4096, 1 << 20):
            fd = os.memfd_create("area")
            os.ftruncate(fd, size)
            files.append(fd)
        self.addCleanup(lambda: [os.close(fd) for fd in files])
        welcome = struct.pack("<IIiI200s", HELLO_MAGIC, VERSION, 0, 100, b"")
        for fd in files:
            self.check_answer(lambda connection, fd=fd: socket.send_fds(connection, [welcome], [fd] * 3))

    def hello(self, magic=HELLO_MAGIC, version=VERSION, texts=b"\0/bin/true\0", size=0):
        rest = struct.pack("<iiIi4xQQQ", os.getpid(), os.getppid(), HAS_HOOKS, 0, 0, 0, 1 << 40) + texts
        return struct.pack("<III", magic, version, size or 12 + len(rest)) + rest

    def test_agents_of_other_versions(self):
        """The monitor refuses them with a reason and works on."""
        with self.box.omis() as omis:
            self.assertTrue(omis.request(": version()").ok())
            for message, word in ((self.hello(version=VERSION + 1), b"version"), (self.hello(version=0), b"version"),
                                  (self.hello(magic=7), b""), (b"", b""), (b"x" * 9000, b""), (self.hello()[:-1], b"malformed"),
                                  (self.hello(size=8248), b"malformed"), (self.hello(texts=b""), b"malformed"),
                                  (self.hello(texts=b"\0"), b"malformed"), (self.hello(texts=b"\0\0\0"), b"malformed"),
                                  (self.hello(texts=b"/x" * 4096), b"malformed")):
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as agent:
                    agent.settimeout(10 * scrytest.SCALE)
                    agent.connect(self.box.path("run", "agent.sock"))
                    agent.send(message)
                    answer, descriptors, _, _ = socket.recv_fds(agent, 4096, 8)
                    self.assertEqual(descriptors, [], message[:64])
                    if word:
                        _, _, status, _, reason = struct.unpack("<IIiI200s", answer)
                        self.assertLess(status, 0)
                        self.assertIn(word, reason)
            self.assertTrue(omis.request(": version()").ok())
        done = self.scry_run("-q", "--", scrytest.built("test", "system", "targets", "traced"), "calls", 3)
        self.assertEqual((done.returncode, done.stdout), (0, SAID))
        self.assertEqual(self.calls(), {"work": 3, "leaf": 6})


    def listens(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as agent:
            return agent.connect_ex(self.box.path("run", "agent.sock")) == 0

    def test_thousands_that_say_nothing(self):
        """They keep neither agents nor tools out."""
        monitor = self.box.start(self.box.scry("monitor"),
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))
        wait_until(self.listens)  # its name is there before
        silent = []
        for _ in range(400):
            agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.addCleanup(agent.close)
            agent.settimeout(10 * scrytest.SCALE)
            agent.connect(self.box.path("run", "agent.sock"))
            silent.append(agent)
        done = self.scry_run("-q", "--", scrytest.built("test", "system", "targets", "traced"), "calls", 3)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, SAID, ""))
        self.assertEqual(self.calls(), {"work": 3, "leaf": 6})
        self.assertEqual(silent[0].recv(1), b"")
        monitor.terminate()


class Ends(TracerCase):
    @scrytest.thorough
    def test_killed_while_it_writes(self):
        """SIGKILL in the middle of a storm of records with values: every record that is there is whole, and its ends
        are told."""
        program = scrytest.built("test", "system", "targets", "traced")
        for _ in range(scrytest.rounds(1, 5)):
            run = self.box.start(self.box.scry("run", "-q", "--trace", "fn:hot", "--args", "--locals", "--buffer", "1M", "--",
                                               program, "storm", 1000000000))
            stream = wait_until(lambda: glob.glob(self.box.path("jobs", "*", "trace", "*", "*", "stream-*")), 20)[-1]
            wait_until(lambda: os.path.getsize(stream) > 200000, 20)
            victims = [pid for pid in self.box.processes("traced")]
            self.assertEqual(len(victims), 1)
            os.kill(victims[0], signal.SIGKILL)
            self.assertEqual(run.wait(30 * scrytest.SCALE), 128 + signal.SIGKILL)
            calls = self.replayed()
            numbers = [call["args"]["i"] for call in calls if call["event"] == "call" and "args" in call]
            self.assertEqual(numbers, sorted(set(numbers)))
            self.assertGreater(len(numbers), 1000)
            self.assertEqual({call["how"] for call in calls[:-1] if call["event"] == "call"} - {"returned", "lost"}, set())
            lines = self.babeltrace()
            if lines is not None:
                self.assertEqual(sum(bool(re.search(r" entry(_values)?: ", line)) for line in lines),
                                 sum(call["event"] == "call" and call["beginning_recorded"] for call in calls))
            shutil.rmtree(glob.glob(self.box.path("jobs", "2*"))[0])

    def test_cut_off_anywhere(self):
        """Each file of the trace at many lengths: replay, report and exports come to an end of their own, show what is
        whole and name the file that is not."""
        program = scrytest.built("test", "system", "targets", "traced")
        self.scry_run("-q", "--trace", "fn:work fn:leaf", "--args", "--locals", "--", program, "calls", 40)
        trace = self.traces()[0]
        whole = self.scry("replay", "--json", "@last").stdout
        self.assertEqual(whole.count('"event":"call"'), 120)
        dice = random.Random(4)
        for name in sorted(os.listdir(trace)):
            path = os.path.join(trace, name)
            with open(path, "rb") as file:
                content = file.read()
            lengths = {0, 1, len(content) - 1} | {dice.randrange(len(content)) for _ in range(scrytest.rounds(4, 12))}
            for length in sorted(lengths):
                with self.subTest(file=name, length=length):
                    with open(path, "wb") as file:
                        file.write(content[:length])
                    self.check_readers(name, whole)
            with open(path, "wb") as file:
                file.write(content)
        self.assertEqual(self.scry("replay", "--json", "@last").stdout, whole)

    def check_readers(self, name, whole):
        replay = self.box.run(self.box.scry("replay", "--json", "@last"))
        self.assertIn(replay.returncode, (0, 1), replay.stderr)
        self.assertNotRegex(replay.stderr, "Sanitizer|Assert")
        self.assertLessEqual(replay.stdout.count('"event":"call"'), 120)
        if replay.stdout != whole:
            # a stream that ends between two packets is told by its length
            self.assertRegex(replay.stderr, f"{re.escape(name)}|bytes are left of the")
            self.assertNotIn("-finstrument-functions", replay.stderr)
        report = self.box.run(self.box.scry("report", "--json", "@last"))
        self.assertEqual(report.returncode, 0, report.stderr)
        export = self.box.run(self.box.scry("export", "--format", "csv", "-o", "-", "@last"))
        self.assertIn(export.returncode, (0, 1), export.stderr)

    def test_bytes_changed_anywhere(self):
        program = scrytest.built("test", "system", "targets", "traced")
        self.scry_run("-q", "--trace", "fn:work fn:leaf", "--args", "--locals", "--", program, "calls", 40)
        trace = self.traces()[0]
        dice = random.Random(5)
        for name in sorted(os.listdir(trace)):
            path = os.path.join(trace, name)
            with open(path, "rb") as file:
                content = file.read()
            for _ in range(scrytest.rounds(3, 8)):
                changed = bytearray(content)
                for _ in range(dice.choice((1, 3, 30))):
                    changed[dice.randrange(len(changed))] = dice.randrange(256)
                with open(path, "wb") as file:
                    file.write(changed)
                for command in (["replay"], ["report"], ["export", "--format", "chrome", "-o", "/dev/null"]):
                    done = self.box.run(self.box.scry(*command, "@last"))
                    self.assertIn(done.returncode, (0, 1), (name, command, done.stderr))
            with open(path, "wb") as file:
                file.write(content)


@unittest.skipUnless(os.getuid() == 0, "only root can make a file system")
class FullDisk(TracerCase):
    def test_full(self):
        """The disk with the jobs fills up while the program is traced: it runs on, and the gap is reported."""
        place = self.box.path("jobs")
        if self.box.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "none", place]).returncode:
            self.skipTest("mount(2) is not permitted here")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", place], check=True))
        program = scrytest.built("test", "system", "targets", "traced")
        done = self.scry_run("--trace", "fn:hot", "--args", "--", program, "storm", 1000000)
        self.assertEqual((done.returncode, done.stdout), (0, "calls hot 1000000\n"), done.stderr)
        self.assertTrue(self.lines_said(done.stderr, "No space left on device") or self.lines_said(done.stderr, "full"),
                        done.stderr)
        replay = self.box.run(self.box.scry("replay", "@last"))
        self.assertIn(replay.returncode, (0, 1), replay.stderr)
        if replay.returncode == 0:
            self.assertIn("hot(i = ", replay.stdout)


scrytest.main()
