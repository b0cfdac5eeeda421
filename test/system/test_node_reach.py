# SPDX-License-Identifier: Apache-2.0
"""How a monitor reaches a node: scry-link node NAME, with the real ssh and sshd. Whoever started it hears a monitor, or one
line that says what is wrong and what to do."""

import json
import os
import pwd
import shutil
import signal
import socket
import struct
import time

import scrytest
import sshtest

HELLO, WELCOME, GOODBYE = 1, 2, 7


class Wire:
    """What a monitor does with scry-link node: frames over a socket that is its standard input."""

    def __init__(self, box, *command, env=None):
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(40 * scrytest.SCALE)
        with theirs:
            self.first = box.start(command, env=env, stdin=theirs)

    def hello(self):
        payload = struct.pack("<II", 1, 0) + b"test"
        self.socket.sendall(struct.pack("<IBBHI", len(payload), HELLO, 0, 0, 0) + payload)

    def _read(self, size):
        got = b""
        while len(got) < size:
            more = self.socket.recv(size - len(got))
            if not more:
                raise EOFError(f"after {got!r}")
            got += more
        return got

    def frame(self):
        size, kind = struct.unpack("<IBBHI", self._read(12))[:2]
        return kind, self._read(size)

    def refused(self):
        """The one line."""
        kind, payload = self.frame()
        if kind != GOODBYE:
            raise AssertionError(f"frame {kind}: {payload!r}")
        text = payload.decode()
        if "\n" in text or not text:
            raise AssertionError(f"this is not one line: {text!r}")
        return text

    def close(self):
        self.socket.close()


class NodeCase(scrytest.TestCase):
    def node(self, name="n2", **options):
        far = sshtest.Node(self, name, **options)
        self.box.env.update(far.near_env())
        return far

    def wire(self, name, env=None):
        wire = Wire(self.box, self.box.path("libexec", "scry-link"), "node", name, env=env)
        self.addCleanup(wire.close)
        return wire

    def hidden(self):
        """scry-link at a path at which it is not looked for on the other machine, which is this one: with a space."""
        folder = self.box.path("work", "not there")
        if not os.path.exists(folder):
            os.mkdir(folder)
            shutil.copy2(scrytest.built("src", "link", "scry-link"), folder)
        return os.path.join(folder, "scry-link")

    def answers(self, name, env=None):
        wire = self.wire(name, env)
        wire.hello()
        self.assertEqual(wire.frame()[0], WELCOME)
        return wire

    def refused(self, name, *words, env=None):
        text = self.wire(name, env).refused()
        for word in words:
            self.assertIn(word, text)
        return text


class Reach(NodeCase):
    def test_monitor_there(self):
        far = self.node()
        wire = self.answers("n2")
        self.assertEqual(wire.first.wait(20), 0)  # whoever started it has no child
        self.assertTrue(far.box.monitor_pid())
        self.assertIsNone(self.box.monitor_pid())
        self.answers(f"ssh://n2:{far.port}")

    def test_login_that_talks(self):
        """Text before the protocol, on both streams, and without an end of line."""
        self.node(force='echo welcome; echo oops >&2; printf "\\033[1mSCRY"; eval "$SSH_ORIGINAL_COMMAND"')
        self.answers("n2")

    def test_other_shells(self):
        for shell in ("fish", "zsh", "tcsh", "dash"):
            path = shutil.which(shell)
            if path:
                with self.subTest(shell):
                    self.node(f"n-{shell}", force=f'{path} -c "$SSH_ORIGINAL_COMMAND"')
                    self.answers(f"n-{shell}")

    def test_bad_names(self):
        self.refused("-oProxyCommand=touch /tmp/x", "no name or address")
        self.refused("n2;touch x", "no name or address")
        self.refused("n2:22", "ssh://HOST:PORT")
        self.refused("n2\nn3", "letters, digits")
        self.refused("http://n2", "tls://")

    def test_unknown_host(self):
        self.node()
        self.refused("nowhere.invalid", "nowhere.invalid", "no host of this name")

    def test_nobody_listens(self):
        far = self.node()
        far.stop()
        self.refused("n2", "n2", "nobody listens for ssh")

    def test_changed_host_key(self):
        far = self.node()
        far.stop()
        far.make_key("host")
        far.start()
        self.refused("n2", "n2", "host key is another one", "ssh-keygen -R n2")

    def test_unknown_host_key(self):
        far = self.node()
        os.unlink(far.path("known"))
        self.refused("n2", "host key is not known", "`ssh n2`")

    def test_no_login(self):
        self.node(accepts=False)
        self.refused("n2", "ssh was refused", "without a password")

    def silent(self, far):
        """Somebody accepts connections in the place of a node, and says nothing."""
        far.stop()
        silent = socket.socket()
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        far.lead_to(silent.getsockname()[1])
        return silent

    @scrytest.hasten(5)
    def test_no_answer(self):
        with self.silent(self.node()):
            self.refused("n2", "n2", "does not answer")

    def test_nobody_waits_any_more(self):
        """The monitor ends meanwhile: so does what it started, ssh too."""
        far = self.node()
        with self.silent(far) as silent:
            wire = self.wire("n2")
            silent.accept()[0].detach()
            wire.close()
            scrytest.wait_until(lambda: not list(self.box.processes("scry-link")), 5)
            with open(far.path("begun"), encoding="ascii") as file:
                scrytest.wait_until(lambda: scrytest.process_gone(int(file.read().split()[-1])), 5)

    def test_no_ssh(self):
        self.refused("n2", "no program", "SCRY_SSH", env={"SCRY_SSH": "no-such-ssh"})

    def test_command_that_fails(self):
        self.node(force="echo This account is closed >&2; exit 1")
        self.refused("n2", "This account is closed")


class Copy(NodeCase):
    """A node without scry."""

    def bare(self, name="n2", **env):
        hidden = {each: None for each in ("SCRY_LIBEXEC", "SCRY_AGENT_LIB", "SCRY_EXT_PATH")}
        return self.node(name, env={**hidden, "PATH": f"{scrytest.tempfile.mkdtemp(dir=self.box.root)}:/usr/bin:/bin", **env})

    def wire(self, name, env=None):
        wire = Wire(self.box, self.hidden(), "node", name, env=env)
        self.addCleanup(wire.close)
        return wire

    def cached(self, far):
        try:
            return os.listdir(far.box.path("home", ".cache", "scry", "node"))
        except FileNotFoundError:
            return []

    def replace(self, name, path):
        os.unlink(self.box.path("libexec", name))
        shutil.copy2(path, self.box.path("libexec", name))

    def fake(self, far, name, text):
        """A program that is found first there."""
        path = os.path.join(far.env["PATH"].split(":")[0], name)
        with open(path, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)

    def test_says_what_to_do(self):
        far = self.bare()
        self.refused("n2", "n2", "there is no scry", "scry link copy n2")
        user = pwd.getpwuid(os.getuid()).pw_name
        self.refused(f"{user}@n2", f"scry link copy {user}@n2")
        self.assertEqual(self.cached(far), [])

    def test_copied(self):
        far = self.bare()
        self.answers("n2", {"SCRY_COPY": "yes"})
        (folder,) = self.cached(far)
        there = far.box.path("home", ".cache", "scry", "node", folder)
        self.assertEqual(os.readlink(f"/proc/{far.box.monitor_pid()}/exe"), f"{there}/libexec/scry/scry-monitor")
        made = os.stat(there)
        self.answers("n2")
        self.answers("n2", {"SCRY_COPY": "yes"})
        self.assertEqual([folder], self.cached(far))
        self.assertEqual(os.stat(there).st_ino, made.st_ino)
        with far.box.omis() as omis:  # the copied monitor finds what it needs beside it
            program = far.box.start_example("threads", "2", "60")
            reply = omis.request(f': node_attach2("localhost") proc_attach3([n_1], {program.pid}, "") thread_stop([])')
            self.assertTrue(reply.ok(), reply)

    @scrytest.thorough
    def test_by_hand(self):
        far = self.bare()
        done = self.box.run(self.box.scry("link", "copy", "n2"))
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual(len(self.cached(far)), 1)
        self.answers("n2")

    def test_old_copies(self):
        """Those that nobody has come to for a month go with the next copy, but for what a process there has in use or hands on."""
        far = self.bare()
        place = far.box.path("home", ".cache", "scry", "node")
        month_ago = time.time() - 32 * 24 * 3600
        for name in ("old", "used", "new"):
            os.makedirs(os.path.join(place, name, "lib"))
            if name != "new":
                os.utime(os.path.join(place, name), (month_ago, month_ago))
        user = far.box.start(["sleep", "600"], env={"LD_LIBRARY_PATH": os.path.join(place, "used", "lib")})
        done = self.box.run(self.box.scry("link", "copy", "n2"))
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual([name for name in ("old", "used", "new") if name in self.cached(far)], ["used", "new"])
        user.terminate()
        user.wait()

    @scrytest.thorough
    def test_many_at_once(self):
        far = self.bare()
        wires = [self.wire("n2", {"SCRY_COPY": "yes"}) for _ in range(scrytest.rounds(3, 6))]
        for wire in wires:
            wire.hello()
        for wire in wires:
            self.assertEqual(wire.frame()[0], WELCOME)
        self.assertEqual(len(self.cached(far)), 1)

    def test_other_machine(self):
        far = self.bare()
        self.fake(far, "uname", 'case $1 in -s) echo Linux;; *) echo aarch64;; esac')
        self.refused("n2", "not built for such a machine (Linux aarch64)", env={"SCRY_COPY": "yes"})
        self.assertEqual(self.cached(far), [])

    def test_library_that_is_missing(self):
        far = self.bare()
        work = self.box.path("work")
        for command in ("echo 'int f(void) { return 0; }' > f.c; echo 'int f(void); int main(void) { return f(); }' > main.c",
                        "cc -shared -fPIC f.c -o libseldom.so.7 && cc main.c ./libseldom.so.7 -o program"):
            self.assertEqual(self.box.run(["sh", "-c", command], cwd=work).returncode, 0)
        os.unlink(os.path.join(work, "libseldom.so.7"))
        self.replace("scry-tracer", os.path.join(work, "program"))
        self.refused("n2", "scry-tracer", "libseldom.so.7", env={"SCRY_COPY": "yes"})
        self.assertEqual(self.cached(far), [])

    def test_no_place(self):
        self.bare(SCRY_CACHE_DIR="/proc/nowhere")
        self.refused("n2", "could not be copied", "/proc/nowhere", env={"SCRY_COPY": "yes"})

    @scrytest.thorough
    def test_login_that_talks(self):
        self.node("n3", force='printf "hi\\nscry-copy"; eval "$SSH_ORIGINAL_COMMAND"',
                  env={each: None for each in ("SCRY_LIBEXEC", "PATH")})
        self.answers("n3", {"SCRY_COPY": "yes"})

    def test_old_scry(self):
        """One that knows no links, which is not replaced: its owner decides."""
        far = self.bare()
        self.fake(far, "scry", 'echo "scry: unknown command link" >&2; exit 2')
        self.refused("n2", "its scry knows nothing of links", "install this version")

    def test_other_link(self):
        """One that speaks another version of the link."""
        far = self.bare()
        zeros = r"\000" * 16
        self.fake(far, "scry", rf"head -c 28 >/dev/null; printf 'SCRYLINK\002\000\000\005{zeros}9.9.9'; cat >/dev/null")
        version = self.box.run(self.box.scry("--version")).stdout.split()[-1]
        self.refused("n2", "9.9.9", "version 2", version)


class Doctor(NodeCase):
    """scry doctor --node: whether a node can be reached, and what is there."""

    def look(self, name, status=0, env=None):
        done = self.box.run(self.box.scry("doctor", "--json", "--node", name), env=env)
        self.assertEqual((done.returncode, done.stderr), (status, ""), done.stdout)
        answer = json.loads(done.stdout)
        self.assertEqual(answer["node"], name)
        return {check["name"]: check for check in answer["checks"]}

    def test_there(self):
        far = self.node()
        found = self.look("n2")
        self.assertEqual({name for name, check in found.items() if check["state"] == "fail"}, set())
        self.assertLessEqual({"ssh", "machine", "clock", "scry", "monitor"}, set(found))
        self.assertIn("none runs", found["monitor"]["text"])
        self.assertIsNone(far.box.monitor_pid())
        with far.box.omis():
            self.assertIn(far.box.path("run"), self.look("n2")["monitor"]["text"])

    def test_not_there(self):
        self.node()
        self.assertEqual(list(self.look("elsewhere", 1)), ["ssh"])
        self.assertEqual(list(self.look("n 2", 1)), ["name"])

    def test_without_scry(self):
        self.node(env={each: None for each in ("SCRY_LIBEXEC", "PATH")})
        found = self.look("n2", 1, {"SCRY_LIBEXEC": os.path.dirname(self.hidden())})
        self.assertEqual(found["scry"]["state"], "fail")
        self.assertIn("scry link copy n2", found["scry"]["remedy"])


class Attach(NodeCase):
    """node_attach2, as a tool asks for it."""

    def test_node(self):
        far = self.node()
        program = far.box.start_example("threads", "2", "60")
        with self.box.omis() as omis:
            reply = omis.request(': node_attach2("n2")')
            self.assertTrue(reply.ok(), reply)
            reply = omis.request(f': proc_attach3([n_2], {program.pid}, "")')
            self.assertTrue(reply.ok(), reply)
            for _ in range(3):  # the connection breaks, and is made anew
                with open(far.path("begun"), encoding="ascii") as file:
                    os.kill(int(file.read().split()[-1]), signal.SIGKILL)
                reply = omis.request(": thread_stop([]) thread_continue([])")
                self.assertTrue(reply.ok(), reply)
            self.assertEqual(far.logins(), 4)

    def test_errors(self):
        self.node()
        with self.box.omis() as omis:
            for name, words in (("nowhere", "no host of this name"), ("-x", "no name or address"), ("http://n2", "tls://")):
                reply = omis.request(f': node_attach2("{name}")')
                self.assertFalse(reply.ok())
                self.assertIn(words, str(reply))


class Many(NodeCase):
    def test_not_all_at_the_same_moment(self):
        begun, gate = self.box.path("work", "begun"), self.box.path("work", "gate")
        program = self.box.path("work", "fake-ssh")
        os.mkfifo(gate)
        with open(program, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\necho x >> {begun}\nread x < {gate}\necho no >&2\nexit 1\n")
        os.chmod(program, 0o755)
        wires = [self.wire(f"n{i}", {"SCRY_SSH": program}) for i in range(36)]

        def count():
            with open(begun, encoding="ascii") as file:
                return len(file.readlines())

        scrytest.wait_until(lambda: os.path.exists(begun) and count() == 32, 20)
        wires.pop().close()  # nobody waits for one of those that wait
        self.assertEqual(count(), 32)
        with open(gate, "w", encoding="ascii"):  # held open for writing and closed: those who read see the end
            pass
        del wires

    def test_crowded(self):
        """A machine in between that refuses when too many come (MaxStartups): they come again."""
        tries, program = self.box.path("work", "tries"), self.box.path("work", "fake-ssh")
        far = self.node()
        with open(program, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\necho x >> {tries}\n"
                       f'if [ $(wc -l < {tries}) -le 2 ]; then echo "kex_exchange_identification: Connection closed by remote host" >&2; exit 255; fi\n'
                       f'exec {far.path("program")} "$@"\n')
        os.chmod(program, 0o755)
        self.answers("n2", {"SCRY_SSH": program})


if __name__ == "__main__":
    scrytest.main()
