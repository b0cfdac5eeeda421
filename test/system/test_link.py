# SPDX-License-Identifier: Apache-2.0
"""Monitors of other machines (scry-link): by TLS and by ssh, over networks that break, and against everybody else."""

import contextlib
import glob
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import time

import linktest
import scrytest


class Reach(linktest.LinkCase):
    def test_tls(self):
        for host in ("127.0.0.1", "::1"):
            with self.subTest(host):
                port = self.serve(host, keys=host != "::1")
                self.assertIn('"scry ', self.omis(f"tls://[{host}]:{port}"))
                self.server.terminate()
                self.assertEqual(self.server.wait(10), 0)

    def test_monitor_listens(self):
        port = linktest.free_port()
        monitor = self.box.scry("monitor", "--listen", f"127.0.0.1:{port}")
        done = self.box.run(monitor, env=self.far)
        self.assertEqual(done.returncode, 1)
        self.assertIn("`scry keys init` makes one", done.stderr)  # without keys, nobody listens
        self.keys("init")
        monitor = self.box.start(monitor, env=self.far)
        url = f"tls://localhost:{port}"
        scrytest.wait_until(lambda: '"scry ' in self.omis(url, status=None), 20)
        with self.box.omis("--connect", url) as omis:
            self.assertTrue(omis.request(": version()").ok())
            monitor.terminate()
            self.assertEqual(monitor.wait(10), 0)
        scrytest.wait_until(lambda: "nobody listens at port" in self.omis(url, status=2), 10)

    def test_ssh(self):
        env = self.fake_ssh()
        self.assertIn('"scry ', self.omis("ssh://user@some.host:2222", env=env))
        with open(self.box.path("home", "ssh.log"), encoding="utf-8") as file:
            words = file.read()
        self.assertIn("-o BatchMode=yes", words)
        self.assertIn("-p 2222 -l user -- some.host exec /bin/sh -c", words)
        # a session there outlives the bridge
        self.box.env.update(env)
        with self.box.omis("--connect", "ssh://some.host") as omis:
            self.assertTrue(omis.request(": version()").ok())
            for pid in self.bridges():
                os.kill(pid, signal.SIGKILL)
            self.assertTrue(omis.request(": version()").ok())
        scrytest.wait_until(lambda: not self.bridges(), 10, "ssh ends with the tool")

    def bridges(self):
        return [int(pid) for pid in filter(str.isdigit, os.listdir("/proc"))
                if scrytest.process_command_line(pid).endswith(b"\0bridge\0") and self.box.root.encode() in scrytest.process_command_line(pid)]

    def test_why_ssh_fails(self):
        cases = {
            "ssh: Could not resolve hostname h: Name or service not known": (255, "h: there is no host of this name"),
            "Host key verification failed.": (255, "h: its host key is not known: `ssh h` once"),
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\\nHost key verification failed.":
                (255, "h: its host key is another one than the known one"),
            "u@h: Permission denied (publickey).": (255, "h: ssh was refused"),
            "ssh: connect to host h port 22: Connection refused": (255, "h: nobody listens for ssh there"),
            "kex_exchange_identification: something new": (255, "h: kex_exchange_identification: something new"),
            "sh: scry: not found": (127, "h: there is no scry"),
            'scry: there is no command "link"': (2, "h: its scry knows nothing of links"),
        }
        for said, (status, expected) in cases.items():
            with self.subTest(said):
                env = self.fake_ssh(f"#!/bin/sh\nprintf '{said}\\n' >&2\nexit {status}\n")
                answer = self.omis("ssh://h", status=2, env=env)
                self.assertIn(expected, answer)
                self.assertEqual(answer.count("\n"), 1)
        answer = self.omis("ssh://h", status=2, env=self.fake_ssh("#!/bin/sh\nyes hello\n"))
        self.assertIn("what answers there is no link of scry", answer)

    def test_names(self):
        for url, expected in {
            "tls://h": "a port is missing", "tls://h:0": "a port is a number from 1 to 65535", "tls://h:99999": "a port is",
            "ssh://": '"" is no name or address', "ssh://-oProxyCommand=x": "is no name or address of a host",
            "ssh://a;b": "is no name", "ssh://$(x)@h": '"$(x)" is no name of a user', "ssh://h:x": 'not "x"', "tls://h:1/../x": "is no id",
            "tls://" + "h" * 300 + ":1": "is too long",
        }.items():
            with self.subTest(url):
                self.assertIn(expected, self.omis(url, status=2, env={"SCRY_SSH": "/bin/false"}))


class Broken(linktest.LinkCase):
    """The network loses connections. Nothing else may be lost, or come twice."""

    def big(self, omis, number, size):
        text = f"{number}-" + "x" * size
        reply = omis.request(f': print(["{text}"])')
        self.assertTrue(reply.ok())
        self.assertTrue(reply.result(1) == f'1,["{text}"]', reply.result(1)[:100])

    def test_connections_that_break(self):
        port, cuts = self.serve(), scrytest.rounds(30, 100)
        network = self.network(port, 400 << 10)
        with self.box.omis("--connect", f"tls://127.0.0.1:{network.port}") as omis:
            number = 0
            while network.cuts < cuts:
                self.big(omis, number, 700 << 10)
                number += 1
        self.assertEqual(self.said().count("state=begun"), 1)

    def test_breaks_while_quiet(self):
        port = self.serve()
        network = self.network(port)
        with self.box.omis("--connect", f"tls://127.0.0.1:{network.port}") as omis:
            for number in range(scrytest.rounds(20, 200)):
                network.cut()
                self.big(omis, number, 10)
        self.assertEqual(self.said().count("state=begun"), 1)

    @scrytest.hasten(5)
    def test_network_that_goes_silent(self):
        port = self.serve()
        network = self.network(port)
        with self.box.omis("--connect", f"tls://127.0.0.1:{network.port}") as omis:
            self.big(omis, 1, 10)
            network.silent = True
            number = omis.send(': print(["late"])')
            scrytest.wait_until(lambda: "state=lost" in self.said(), 15, "one of both ends gives the connection up")
            network.silent = False
            network.cut()
            self.assertTrue(omis.reply(number, timeout=20).ok())
        self.assertEqual(self.said().count("state=begun"), 1)

    @scrytest.hasten(12)
    def test_who_came_back_stays(self):
        """The lease of a connection that was lost means nothing to the next one."""
        network = self.network(self.serve())
        with self.box.omis("--connect", f"tls://127.0.0.1:{network.port}") as omis:
            self.big(omis, 1, 10)
            network.cut()
            self.big(omis, 2, 10)
            until = time.monotonic() + 60 / 12 + 2  # the lease, and a look at it
            scrytest.wait_until(lambda: "nobody came back" in self.said() or time.monotonic() > until, 20)
            self.big(omis, 3, 10)
        self.assertEqual(self.said().count("state=begun"), 1)

    @scrytest.thorough  # it waits for a lease
    @scrytest.hasten(8)
    def test_nobody_comes_back(self):
        port = self.serve()
        network = self.network(port)
        with self.box.omis("--connect", f"tls://127.0.0.1:{network.port}") as omis:
            self.big(omis, 1, 10)
            network.close()
            self.assertEqual(omis.process.wait(75), 1)
            self.assertIn("was lost 60 s ago: ", omis.stderr())
            self.assertNotIn("Success", omis.stderr())
        scrytest.wait_until(lambda: "nobody came back" in self.said(), 20)

    @scrytest.hasten(8)
    def test_connections_that_are_of_no_use(self):
        """Each breaks soon, and nothing passes: that does not go on for ever."""
        network = self.network(self.serve())
        with self.box.omis("--connect", f"tls://127.0.0.1:{network.port}") as omis:
            self.big(omis, 1, 10)
            def ended():
                network.cut()
                return omis.process.poll() is not None
            scrytest.wait_until(ended, 40, "the session ends")
            self.assertIn("was lost 60 s ago: ", omis.stderr())
            self.assertNotIn("Success", omis.stderr())

    def test_server_that_was_started_again(self):
        port = self.serve()
        network = self.network(port)
        with self.box.omis("--connect", f"tls://127.0.0.1:{network.port}") as omis:
            self.big(omis, 1, 10)
            self.server.kill()
            self.server.wait()
            network.target = self.serve(keys=False)
            number = omis.send(': print(["late"])')
            reply = omis.reply(number, timeout=20)
            self.assertFalse(reply.ok())
            self.assertIn("the session is over", repr(reply))


class Recorded(linktest.LinkCase):
    """What changes a job is recorded with the key, also of one that may do everything."""

    def requests(self, dir):
        with open(os.path.join(dir, "spool", "records.jsonl"), encoding="utf-8") as file:
            return [record for record in map(json.loads, file) if record["type"] == "request"]

    def test_full_key(self):
        url = f"tls://127.0.0.1:{self.serve()}"
        self.box.start(self.box.scry("run", "--name", "mine", "--", "sleep", "600"), env={**self.far, "SCRY_LOG": "warning"},
                       stderr=subprocess.DEVNULL)
        dir, = scrytest.wait_until(lambda: glob.glob(self.box.path("jobs", "2*")), 20)
        scrytest.wait_until(lambda: os.path.exists(os.path.join(dir, "job.json")), 20)
        key = self.issue("office", "--rights", "observe,control,memory", "--job", "*")
        listed = json.loads(self.box.run(self.box.scry("keys", "list", "--json")).stdout)["keys"]
        serials = {each["name"]: each["serial"] for each in listed}
        self.box.env["SCRY_KEY"] = key
        with self.box.omis("--connect", url) as omis:
            self.assertTrue(omis.request(f': job_set("{dir}", "sample", "0.5")').ok())
        record, = scrytest.wait_until(lambda: self.requests(dir), 20)
        self.assertEqual((record["who"], record["serial"], record.get("pid", 0)), ("office", serials["office"], 0))
        # a tool of another monitor, which is attached by the same key
        with self.box.omis() as omis:
            reply = omis.request(f': node_attach2("{url}")', timeout=20)
            self.assertTrue(reply.ok(), reply)
            with open(os.path.join(dir, "job.json"), encoding="utf-8") as file:
                pid = json.load(file)["command"]["pid"]
            reply = omis.request(f': proc_attach3([n_2], {pid}, "")', timeout=20)
            self.assertTrue(reply.ok(), reply)
            self.assertTrue(omis.request(f": proc_send_signal([{reply.result(1)}], 0)", timeout=20).ok())
        del self.box.env["SCRY_KEY"]
        scrytest.wait_until(lambda: len(self.requests(dir)) > 1, 20, "the other one is recorded, too")
        self.assertEqual({(record["who"], record["serial"]) for record in self.requests(dir)}, {("office", serials["office"])})


class Edges(linktest.LinkCase):
    @scrytest.hasten(5)
    def test_monitors(self):
        """An edge of two monitors goes on over connections that break; while nothing comes, the node is said not to answer."""
        network = self.network(self.serve())
        def name(omis):
            reply = omis.request(": node_get_info([], 1)", timeout=20)
            return reply.result(1)
        with self.box.omis() as omis:
            reply = omis.request(f': node_attach2("tls://127.0.0.1:{network.port}")', timeout=20)
            self.assertTrue(reply.ok(), reply)
            known = name(omis)
            for _ in range(scrytest.rounds(10, 100)):
                network.cut()
                self.assertEqual(name(omis), known)
            network.silent = True
            self.assertIn("does not answer", name(omis))
            network.silent = False
            network.cut()
            scrytest.wait_until(lambda: name(omis) == known, 30)
        self.assertEqual(self.said().count("state=begun"), 1)


class Attacks(linktest.LinkCase):
    def setUp(self):
        super().setUp()
        self.port = self.serve()
        self.url = f"tls://127.0.0.1:{self.port}"
        self.own = self.box.path("home", ".config", "scry", "keys", "own.pem")

    def refuse(self, expected, **options):
        """What the server does is seen by who reads: with TLS 1.3 the handshake is over before the key is looked at."""
        with self.assertRaisesRegex(OSError, expected):
            with linktest.tls_connect(self.port, **options) as tls:
                tls.sendall(linktest.hello(os.urandom(16)))
                if tls.recv(100):
                    self.fail("it was answered")
                raise OSError("closed")

    def test_keys(self):
        self.refuse("CERTIFICATE_REQUIRED")
        self.refuse("PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL", key=self.own, maximum_version=ssl.TLSVersion.TLSv1_2)
        # another user's: neither side takes the other
        stranger = {"XDG_CONFIG_HOME": self.box.path("tmp", "stranger")}
        self.keys("init", env=stranger)
        self.refuse("UNKNOWN_CA", key=self.box.path("tmp", "stranger", "scry", "keys", "own.pem"))
        self.assertIn("a key of another user's authority", self.omis(self.url, status=2, env=stranger))
        # a job's key is for jobs, not for people
        job = self.box.path("tmp", "job.pem")
        self.keys("issue", "--kind", "job", "-o", job)
        self.refuse("HANDSHAKE_FAILURE", key=job)
        # who may only look cannot stand for the user
        self.assertIn("state=begun", self.omis(self.url) and self.said())

    @scrytest.hasten(5)
    def test_expired_and_revoked(self):
        short = self.issue("short", "--for", "1s")
        scrytest.wait_until(lambda: "expired" in self.omis(self.url, status=None, env={"SCRY_KEY": short}), 10)
        guest = self.issue("guest", "--rights", "observe,control,memory", "--job", "*")
        self.box.env["SCRY_KEY"] = guest
        with self.box.omis("--connect", self.url) as omis:
            del self.box.env["SCRY_KEY"]
            self.assertTrue(omis.request(": version()").ok())
            self.keys("revoke", "guest")
            self.assertEqual(omis.process.wait(20 * scrytest.SCALE), 1)
            self.assertIn("this key was revoked", omis.stderr())
        self.assertIn("was revoked there", self.omis(self.url, status=2, env={"SCRY_KEY": guest}))
        self.refuse("CERTIFICATE_REVOKED", key=guest)

    def test_rights(self):
        running = [self.box.start(self.box.scry("run", "--name", name, "--", "sleep", "600"), env={**self.far, "SCRY_LOG": "warning"},
                                  stderr=subprocess.DEVNULL) for name in ("mine", "other")]
        jobs = self.box.path("jobs")
        scrytest.wait_until(lambda: len([name for name in os.listdir(jobs) if os.path.exists(os.path.join(jobs, name, "job.json"))]) == 2, 20)
        guest = {"SCRY_KEY": self.issue("guest", "--rights", "observe", "--job", "mine*")}
        self.assertIn("name the job, tls://HOST:PORT/JOB", self.omis(self.url, status=2, env=guest))
        self.assertIn("none that the key guest is for", self.omis(f"{self.url}/other", status=2, env=guest))
        self.assertIn("none that the key guest is for", self.omis(f"{self.url}/nothing", status=2, env=guest))
        self.assertIn('"scry ', self.omis(f"{self.url}/mine", env=guest))
        answer = self.omis(f"{self.url}/mine", f': proc_attach3([], {os.getpid()}, "")', status=1, env=guest)
        self.assertNotIn("p_1_1", answer)
        answer = self.omis(f"{self.url}/mine", ': job_set("", "sample", "5")', status=1, env=guest)
        self.assertIn("control", answer)
        # nor may it be another monitor's edge
        number = os.urandom(16)
        peer = struct.pack("<IBBHI", 27, 9, 0, 0, 0) + struct.pack("<I", 1) + os.urandom(16) + b"0.1\0hst\0"[:7]
        with linktest.tls_connect(self.port, guest["SCRY_KEY"]) as tls:
            tls.sendall(linktest.hello(number, b"mine"))
            self.assertTrue(tls.recv(200).startswith(b"SCRYLINK"))
            tls.sendall(linktest.message(number, 1, peer))
            self.assertIn(b"only an unconfined connection", linktest.read_until(tls, b"edge"))
        for each in running:
            each.terminate()
            each.wait(20)

    def test_false_server(self):
        """Somebody was given a key, and listens with it in the user's place."""
        guest = self.issue("guest", "--rights", "observe", "--job", "*")
        done = self.box.run(self.box.scry("link", "serve", "--listen", "127.0.0.1:1"), env={**self.far, "SCRY_KEY": guest})
        self.assertEqual(done.returncode, 1)
        self.assertIn("nobody would believe who shows it", done.stderr)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(guest)
        with socket.create_server(("127.0.0.1", 0)) as server:
            asks = self.box.start(self.box.scry("omis", "--connect", f"tls://127.0.0.1:{server.getsockname()[1]}", "-c", ": version()"),
                                  stderr=subprocess.STDOUT)
            raw, _ = server.accept()
            with self.assertRaises(OSError), tls.wrap_socket(raw, server_side=True) as answer:
                if not answer.recv(100):
                    raise OSError("closed")
            self.assertIn("may not stand for its user", asks.stdout.read())
            self.assertEqual(asks.wait(10), 2)

    def test_nobody_takes_another_session(self):
        """Its number is a secret; somebody who knows it needs the same key, too."""
        number = os.urandom(16)
        with linktest.tls_connect(self.port, self.own) as tls:
            tls.sendall(linktest.hello(number))
            self.assertTrue(tls.recv(100).startswith(b"SCRYLINK"))
            guest = self.issue("guest")
            with linktest.tls_connect(self.port, guest) as other:
                other.sendall(linktest.hello(number, flags=1))
                self.assertIn(b"the session is over", linktest.read_all(other))
            tls.sendall(linktest.message(number, 1, struct.pack("<IBBHIII", 8, 1, 0, 0, 0, 1, 0)))  # HELLO
            data = b""
            while b"SCRYLINK" not in data and len(data) < 12:
                data += tls.recv(100)
            self.assertTrue(data)

    def test_replayed(self):
        network = self.network(self.port)
        self.omis(f"tls://127.0.0.1:{network.port}", ': print(["once"])')
        begun = self.said().count("state=begun")
        self.assertEqual(begun, 1)
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as sock:
            sock.sendall(bytes(network.kept[0]))
            linktest.read_all(sock)
        self.omis(self.url)
        self.assertEqual(self.said().count("state=begun"), begun + 1)

    @scrytest.hasten(5)
    def test_half_handshakes(self):
        """A thousand that begin, and one that works all the while; they are dropped, the oldest first, and in any case after 10 s."""
        with self.box.omis("--connect", self.url) as omis:
            waiting = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(500)]
            for sock in waiting[::2]:
                sock.sendall(b"\x16\x03\x01\x02\x00\x01")
            self.assertTrue(omis.request(": version()").ok())
            self.assertIn('"scry ', self.omis(self.url))
            waiting += [socket.create_connection(("127.0.0.1", self.port)) for _ in range(500)]
            self.assertTrue(omis.request(": version()").ok())
            self.assertIn('"scry ', self.omis(self.url))
            files = f"/proc/{self.server.pid}/fd"
            self.assertLess(len(os.listdir(files)), 300)
            scrytest.wait_until(lambda: len(os.listdir(files)) < 30, 20, "they are given up")
            for sock in waiting:
                sock.close()
            self.assertTrue(omis.request(": version()").ok())

    def test_nonsense(self):
        number = os.urandom(16)
        for what in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 5000, linktest.hello(number)[:20], linktest.hello(number, version=7),
                     linktest.hello(os.urandom(16)) + struct.pack("<I", 0xffffffff) + b"x" * 100,
                     linktest.hello(os.urandom(16)) + struct.pack("<I", 3) + b"xxx",
                     linktest.hello(number) + linktest.message(os.urandom(16), 1, b"x"),
                     linktest.hello(os.urandom(16), b"../../etc", flags=255), linktest.hello(os.urandom(16)) + b"\xff" * 300000):
            with self.subTest(what[:60]):
                with linktest.tls_connect(self.port, self.own) as tls, contextlib.suppress(OSError):  # it may close at once
                    tls.sendall(what)
                    tls.shutdown(socket.SHUT_WR)
                    linktest.read_all(tls)
        # a frame of 2 GB, and numbers of messages that nobody sent
        number = os.urandom(16)
        with linktest.tls_connect(self.port, self.own) as tls:
            tls.sendall(linktest.hello(number))
            with contextlib.suppress(OSError):
                tls.sendall(linktest.message(number, 1, struct.pack("<IBBHI", 0x7fffffff, 3, 0, 0, 1)))
                tls.sendall(linktest.message(number, 9, b"x") + linktest.message(number, 2 ** 31, b"x", acknowledged=77))
                linktest.read_all(tls)
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as sock:
            sock.sendall(os.urandom(4000))
            linktest.read_all(sock)
        self.assertIsNone(self.server.poll())
        self.assertIn('"scry ', self.omis(self.url))
        self.assertNotIn("out of memory", self.said())

    def test_far_too_many(self):
        """One key has 128 sessions, and no more."""
        held = []
        for _ in range(128):
            tls = linktest.tls_connect(self.port, self.own)
            tls.sendall(linktest.hello(os.urandom(16)))
            held.append(tls)
        self.assertTrue(all(tls.recv(100) for tls in held))
        self.assertIn("has 128 sessions there already", self.omis(self.url, status=2))
        for tls in held:
            tls.close()
        # those that were only left make room
        scrytest.wait_until(lambda: self.said().count("state=lost") >= 128, 10)
        self.assertIn('"scry ', self.omis(self.url))
        self.assertIn("another one needs its place", self.said())


scrytest.main()
