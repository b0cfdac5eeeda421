# SPDX-License-Identifier: Apache-2.0
"""The connection to a broker with real brokers and bad ones, and the private broker of `scry broker`."""

import glob
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest

import brokertest
import jobtest
import scrytest

LINKED = ("test", "system", "targets", "linked")


class Linked:
    """A running `linked` (targets/linked.c)."""

    def __init__(self, box, *arguments, **options):
        self.output = box.path("work", f"linked{len(box.started)}")
        with open(self.output, "w", encoding="ascii") as file:
            self.process = box.start([scrytest.built(*LINKED), *arguments], stdout=file, stdin=-1, **options)

    def lines(self, kind):
        with open(self.output, encoding="utf-8") as file:
            return re.findall(rf"^{kind}\b ?(.*)$", file.read(), re.M)

    def wait(self, kind, count=1, timeout=30):
        def said():
            with open(self.output, encoding="utf-8") as file:
                return f"{kind} x {count}: {file.read()[-300:]}"
        scrytest.wait_until(lambda: len(self.lines(kind)) >= count, timeout, said)
        return self.lines(kind)

    def numbers(self, topic="test/n"):
        return [int(number) for of, number in map(str.split, self.lines("got")) if of == topic]

    def wait_for(self, count, topic="test/n", timeout=60):
        """Until each of the numbers was there."""
        scrytest.wait_until(lambda: set(self.numbers(topic)) == set(range(count)), timeout,
                            lambda: f"{len(set(self.numbers(topic)))} of {count} messages; lost: {self.lines('lost')[-3:]}")

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


class LinkedCase(scrytest.TestCase):
    def linked(self, *arguments):
        return Linked(self.box, *arguments)

    def reader(self, url, qos=1, session=()):
        reader = self.linked("read", url, "test/#", qos, *session)
        reader.wait("ready")
        return reader

    def send(self, url, count, qos=1, size=0, rate=0, timeout=60):
        sender = self.linked("send", url, "test/n", count, qos, size, rate)
        sender.wait("sent", timeout=timeout)
        return sender


class Connection(LinkedCase):
    def test_tls_passwords_and_certificates(self):
        tls = brokertest.Certificates(self.box)
        with brokertest.Mosquitto(self.box, tls=tls, users={"ann": "a/%@:b"}) as broker:
            good = f"mqtts://ann:a%2F%25%40%3Ab@localhost:{broker.port}?ca={tls.path('ca.pem')}"
            reader = self.reader(good)
            self.send(good, 100)
            reader.wait_for(100)
            for url, why in ((good.replace("%3Ab", "x"), "not auth"), (good.split("?")[0], "certificate verify failed"),
                             (good.replace("localhost", "localhost.localdomain"), "looked up|verif"),
                             (f"mqtts://localhost:{broker.port}?ca=/nothing.pem", "/nothing.pem: No such file"),
                             (broker.url.replace("unix:", "unix:/nothing"), "No such file")):
                self.assertRegex(self.linked("read", url, "test/#", 1).wait("lost")[0], why)
        with brokertest.Mosquitto(self.box, "second", tls=tls, client_certificates=True) as broker:
            url = broker.tcp_url + f"&cert={tls.path('client.pem')}&key={tls.path('client.key')}"
            reader = self.reader(url)
            self.send(url, 100, size=100000)  # many records of TLS in each
            reader.wait_for(100)
            self.linked("read", broker.tcp_url, "test/#", 1).wait("lost")

    def test_ends_while_it_connects(self):
        """A program that is ended while a thread of it is in the middle of TLS ends in order."""
        tls = brokertest.Certificates(self.box)
        with brokertest.Mosquitto(self.box, tls=tls) as broker:
            for moment in range(40):
                reader = self.box.start([self.box.path("libexec", "scry-mirror"), "reach"], stdin=subprocess.PIPE)
                reader.stdin.write(f"mqtts://localhost:{broker.port}\n")
                reader.stdin.flush()
                time.sleep(moment / 2000)  # each time a little later
                reader.stdin.close()
                self.assertIn(reader.wait(20), (0, 1))

    def test_what_is_not_allowed(self):
        """A broker that hangs up on it, as mosquitto does with this line, is named, and not asked again and again."""
        with brokertest.Mosquitto(self.box, users={"ann": "x"}, acl=["user ann", "topic readwrite test/ann/#"],
                                  lines=["max_queued_messages 0"]) as broker:
            url = f"mqtt://ann:x@127.0.0.1:{broker.port}"
            reader = self.linked("read", url, "test/ann/#", 1)
            reader.wait("ready")
            sender = self.linked("send", url, "test/ann/n", 10, 1, 0, 0)
            sender.wait("sent")
            reader.wait_for(10, topic="test/ann/n")
            stranger = self.linked("send", url, "test/bob/n", 10, 1, 0, 0)
            self.assertEqual(stranger.wait("lost", 3)[2], "the broker ends the connection when it is sent test/bob/n: perhaps it "
                             "does not allow that to ann")

    def test_broker_that_hangs_up(self):
        """Nothing with QoS 1 is missing, for a reader whose session the broker keeps."""
        with brokertest.Mosquitto(self.box) as broker, brokertest.LyingBroker(broker) as liar:
            reader = self.reader(liar.url, session=["keeper"])
            liar.hang_up = 0.3
            sender = self.send(liar.url, 300, rate=150)
            self.assertGreaterEqual(len(sender.lines("lost")), 2)
            liar.hang_up = None
            reader.wait_for(300)

    def test_slow_broker(self):
        with brokertest.Mosquitto(self.box) as broker, brokertest.LyingBroker(broker) as liar:
            reader = self.reader(broker.url)
            liar.delay = 0.01
            sender = self.send(liar.url, 100, size=50000)
            reader.wait_for(100)
            self.assertEqual(sender.lines("lost"), [])

    def test_broker_that_stops_reading(self):
        """Then nothing is acknowledged; the connection is given up after the time of keeping alive, and all is sent again."""
        with brokertest.Mosquitto(self.box) as broker, brokertest.LyingBroker(broker) as liar:
            reader = self.reader(broker.url)
            sender = self.linked("send", liar.url, "test/n", 200, 1, 20000, 100)
            reader.wait("got")
            liar.stalled = True
            self.assertRegex(sender.wait("lost")[0], "does not answer")
            liar.stalled = False
            liar.cut()
            sender.wait("sent")
            reader.wait_for(200)

    @scrytest.hasten(4)
    def test_broker_that_is_stopped_in_connecting(self):
        with brokertest.Mosquitto(self.box) as broker:
            broker.pause()
            reader = self.linked("read", broker.url, "test/#", 1)
            self.assertRegex(reader.wait("lost")[0], "no.* answer")
            broker.resume()
            reader.wait("ready")

    def test_what_a_lying_broker_does(self):
        """Of the helper itself: duplicates, order, messages that are dropped."""
        with brokertest.Mosquitto(self.box) as broker, brokertest.LyingBroker(broker) as liar:
            liar.duplicate = liar.reorder = True
            reader = self.reader(liar.url)
            self.send(broker.url, 50)
            scrytest.wait_until(lambda: len(reader.numbers()) == 100, 20)
            self.assertEqual(sorted(reader.numbers()), sorted([*range(50)] * 2))
            self.assertNotEqual(reader.numbers(), sorted(reader.numbers()))
            liar.duplicate = liar.reorder = False
            liar.drop_qos0 = True
            self.send(broker.url, 50, qos=0)
            self.send(broker.url, 51, qos=1)
            scrytest.wait_until(lambda: reader.numbers()[-1] == 50, 20)
            self.assertEqual(len(reader.numbers()), 151)


@unittest.skipUnless(brokertest.NATS, "nats-server is missing")
class Cluster(LinkedCase):
    """Three NATS servers with JetStream, each of which has everything."""

    case_seconds = 120

    @scrytest.thorough  # JobThroughCluster has a node die, too
    def test_a_node_dies(self):
        """Published at one node, read at another; first the publisher's node is killed, and comes back, then the reader's."""
        with brokertest.NatsCluster(self.box) as nats:
            reader = self.reader(nats.url(1, 2), session=["keeper"])
            sender = self.linked("send", nats.url(0, 1, 2), "test/n", 1000, 1, 0, 300)
            reader.wait("got", 300)
            nats.stop(0)
            self.assertEqual(sender.wait("up", 2)[1:], [""])
            sender.wait("sent")
            reader.wait_for(1000)
            nats.start(0)
            nats.wait(0)
            sender = self.linked("send", nats.url(0, 2), "test/m", 1000, 1, 0, 300)
            reader.wait("got", len(reader.lines("got")) + 300)
            nats.stop(1)
            sender.wait("sent")
            reader.wait_for(1000, topic="test/m")
            self.assertGreaterEqual(len(reader.lines("up")), 2)


@unittest.skipUnless(brokertest.NATS, "nats-server is missing")
class JobThroughCluster(jobtest.JobCase):
    case_seconds = 240

    def test_a_node_dies(self):
        """The job's node of the cluster is killed: `scry watch` at another one prints what the directory has, all of it.
        What was retained there before survives the node."""
        user = pwd.getpwuid(os.geteuid()).pw_name
        with brokertest.NatsCluster(self.box) as nats:
            nats.client(0).publish("scry/v1/ann/j/kept", b"{}", retain=True)
            os.mkfifo(self.box.path("work", "go"))
            script = f"for i in $(seq 60); do echo ERROR $i >&2; (exit $i); sleep 0.05; done; read line <{self.box.path('work', 'go')}"
            with open(self.box.path("work", "err"), "w", encoding="ascii") as file:
                run = self.start_run("-q", "--sample", "0.1", "--broker", nats.url(0, 1, 2), "--", "sh", "-c", script, stderr=file)
            watcher = nats.client(1, "scry/v1/#")
            watcher.wait(lambda: watcher.of("/state") and watcher.of("/beat"))
            with open(self.box.path("work", "seen"), "w", encoding="utf-8") as file:
                reader = self.box.start(self.box.scry("watch", "--json", f"{nats.url(2, 1)}/{user}/@last"), stdout=file)
            def seen():
                return _text(self.box.path("work", "seen")).splitlines()
            scrytest.wait_until(lambda: len(seen()) > 20, 30)
            nats.stop(0)
            count = len(seen())
            scrytest.wait_until(lambda: len(seen()) > count + 20, 40, "records through another node")
            if scrytest.THOROUGH:  # until the cluster is one again takes it a minute, more on a busy machine
                nats.start(0)
                nats.wait(0)
                nats.stop(2)
                count = len(seen())  # a publisher does not stay long for readers: so this one is back before the job's end
                scrytest.wait_until(lambda: len(seen()) > count + 20, 300, "records through the reader's other node")
            with open(self.box.path("work", "go"), "w", encoding="ascii") as file:
                file.write("go\n")
            self.assertEqual(run.wait(), 0)
            self.assertEqual(reader.wait(100), 0)
            self.assertEqual(seen()[1:], self.scry("watch", "--json", "@last").stdout.splitlines()[1:])
            messages = scrytest.wait_until(lambda: self.retained(nats), 30)
            self.assertEqual([(message.payload, message.retain) for message in messages], [(b"{}", 1)])

    @staticmethod
    def retained(nats):
        """Until another node leads, a new subscription may be told of no retained messages."""
        with nats.client(2, "scry/v1/ann/+/kept") as client:
            end = time.monotonic() + 1
            while not client.messages and time.monotonic() < end:
                time.sleep(0.01)
            return client.messages


class PrivateBroker(jobtest.JobCase):
    def setUp(self):
        super().setUp()
        if not brokertest.MOSQUITTO:
            self.skipTest("mosquitto is missing")

    def place(self):
        return glob.glob(self.box.path("home", ".local/state/scry/broker/*"))[0]

    def pid(self):
        with open(os.path.join(self.place(), "broker.pid"), encoding="ascii") as file:
            return int(file.read())

    def linked(self, *arguments):
        return Linked(self.box, *arguments)

    def test_start_status_stop(self):
        self.assertEqual(self.scry("broker", "--status", status=1).stdout,
                         "no private broker runs: scry broker --start starts one\n")
        self.assertIn(f"unix:{self.box.path('run', 'broker.sock')}", self.scry("broker", "--start").stdout)
        pid = self.pid()
        self.assertIn(f"process {pid}", self.scry("broker", "--start").stdout)  # not a second one
        self.assertEqual(os.stat(self.box.path("run", "broker.sock")).st_mode & 0o777, 0o600)
        self.assertEqual(os.stat(self.place()).st_mode & 0o777, 0o700)
        with open("/proc/net/tcp", encoding="ascii") as file:
            inodes = {line.split()[9] for line in file.readlines()[1:] if line.split()[3] == "0A"}
        for fd in glob.glob(f"/proc/{pid}/fd/*"):
            self.assertNotIn(os.readlink(fd)[8:-1], inodes)  # it listens at no port
        self.assertEqual(self.scry("broker", "--stop").stdout, "ended\n")
        scrytest.wait_until(lambda: scrytest.process_gone(pid))
        self.scry("broker", "--stop", status=1)

    def test_started_when_it_is_needed(self):
        """Ten at once start one; it is killed, and started again; what was retained is there."""
        readers = [self.linked("read", "local", "test/#", 1) for _ in range(10)]
        for reader in readers:
            reader.wait("ready")
        pid = self.pid()
        running = [path for path in glob.glob("/proc/[0-9]*/cmdline") if self.box.root in _text(path) and "mosquitto" in _text(path)]
        self.assertEqual(running, [f"/proc/{pid}/cmdline"])
        os.kill(pid, signal.SIGKILL)
        for reader in readers:
            reader.wait("ready", 2)
        self.assertNotEqual(self.pid(), pid)
        self.scry("broker", "--stop")
        for reader in readers:
            reader.wait("ready", 3)  # it is needed

    def test_what_is_retained_outlives_it(self):
        """With a stock client at the port of --tls, which a start by others has again."""
        tls, port = brokertest.Certificates(self.box), brokertest.free_port()
        passwords = self.box.path("work", "passwords")
        self.box.run(["mosquitto_passwd", "-b", "-c", passwords, "ann", "pw"])
        self.scry("broker", "--start", "--tls", f"127.0.0.1:{port}", "--cert", tls.path("server.pem"), "--key",
                  tls.path("server.key"), "--passwords", "passwords")
        login = {"user": "ann", "password": "pw", "ca": tls.path("ca.pem")}
        with brokertest.Client(port, **login) as client:
            client.publish("scry/v1/ann/j/state", b"{}", retain=True)
        with self.assertRaises(AssertionError):
            brokertest.Client(port, **{**login, "password": "x"})
            self.fail("connected")
        os.kill(self.pid(), signal.SIGTERM)
        scrytest.wait_until(lambda: not brokertest.answers(self.box.path("run", "broker.sock")))
        reader = self.linked("read", "local", "scry/v1/#", 1)
        reader.wait("got")
        with brokertest.Client(port, "scry/v1/#", **login) as client:
            client.wait(lambda: client.messages)
        self.assertIn("runs already", self.scry("broker", "--start", "--tls", port, "--cert", tls.path("server.pem"), "--key",
                                                tls.path("server.key"), "--passwords", "passwords", status=2).stderr)

    def test_no_port_without_tls(self):
        for options, part in (((), "--cert FILE and --key FILE"), (("--cert", "/etc/hostname", "--key", "/etc/hostname"), "everybody"),
                              (("--cert", "/nothing"), "/nothing: No such file"),
                              (("--cert", "/etc/hostname", "--key", "/etc/hostname", "--ca", "/etc/hostname"), "ended at its start")):
            self.assertIn(part, self.scry("broker", "--start", "--tls", "8883", *options, status=2).stderr)
        self.assertIn("PORT", self.scry("broker", "--start", "--tls", "x", status=2).stderr)
        self.assertIn("for --tls", self.scry("broker", "--cert", "/etc/hostname", status=2).stderr)
        self.assertIn("unix:", self.scry("broker", "--start").stdout)  # the bad port is forgotten

    def test_runtime_directory_is_removed(self):
        """The old one, which nobody can reach any more, is ended, so that there is one."""
        self.scry("broker", "--start")
        pid = self.pid()
        shutil.rmtree(self.box.path("run"))
        self.assertIn("its socket is gone", self.scry("broker", "--status", status=1).stdout)
        reader = self.linked("read", "local", "test/#", 1)
        reader.wait("ready")
        scrytest.wait_until(lambda: scrytest.process_gone(pid))

    def test_stale_socket_and_bad_places(self):
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(self.box.path("run", "broker.sock"))
        self.scry("broker", "--start")
        self.scry("broker", "--stop")
        # a state directory that cannot be made: what is retained ends with it
        shown = self.scry("broker", "--start", env={"XDG_STATE_HOME": "/proc/nothing"}).stdout
        self.assertIn(f"ends with it; its files are in {self.box.path('run')}", shown)
        self.assertEqual(self.scry("broker", "--stop", env={"XDG_STATE_HOME": "/proc/nothing"}).stdout, "ended\n")
        odd = self.box.path("home", "a\nlistener 1883")
        os.mkdir(odd)
        self.assertIn("what is retained ends", self.scry("broker", "--start", env={"XDG_STATE_HOME": odd}).stdout)
        self.scry("broker", "--stop", env={"XDG_STATE_HOME": odd})
        odd = self.box.path("a b")
        self.assertIn("cannot have a socket", self.scry("broker", "--start", env={"SCRY_RUNTIME_DIR": odd}, status=2).stderr)

    @unittest.skipUnless(os.getuid() == 0, "only root can mount a small disk")
    def test_full_disk(self):
        """It goes on, and is started again: what is retained may be lost then, and nothing else."""
        state = self.box.path("home", "state")
        os.mkdir(state)
        done = self.box.run(["mount", "-t", "tmpfs", "-o", "size=64k", "scry-test", state])
        if done.returncode:
            self.skipTest(f"no file system can be mounted here: {done.stderr.strip()}")
        self.addCleanup(self.box.run, ["umount", "-l", state])
        env = {"XDG_STATE_HOME": state}
        def fill():
            with open(os.path.join(state, "fill"), "ab", buffering=0) as file:
                with self.assertRaises(OSError):
                    while True:
                        file.write(bytes(4096))
        self.scry("broker", "--start", env=env)
        fill()
        url = "unix:" + self.box.path("run", "broker.sock")
        self.linked("send", url, "test/n", 500, 1, 1000, 0).wait("sent")
        self.scry("broker", "--stop", env=env)
        fill()
        self.assertIn("ends with it", self.scry("broker", "--start", env=env).stdout)
        self.linked("send", url, "test/n", 500, 1, 1000, 0).wait("sent")
        self.scry("broker", "--stop", env=env)

    def test_mosquitto_is_missing(self):
        empty = self.box.path("tmp", "empty")
        os.mkdir(empty)
        # a place where no mosquitto is: all of PATH, and the directories of daemons hidden
        done = self.box.run(["unshare", "-rm", "sh", "-c", f'mount --bind {empty} /usr/sbin && mount --bind {empty} /sbin && '
                             f'exec {" ".join(self.box.scry("broker", "--start"))}'], env={"PATH": "/usr/bin:/bin"})
        if "unshare" in done.stderr or "mount" in done.stderr:
            self.skipTest(f"nothing can be mounted here: {done.stderr.strip()}")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no mosquitto in PATH", done.stderr)

    def test_doctor(self):
        def line(**env):
            found = self.box.run(self.box.scry("doctor", "--json"), env=env)
            return next(check for check in json.loads(found.stdout)["checks"] if check["name"] == "broker")
        self.assertRegex(line()["text"], "mosquitto; a private broker is started when")
        self.scry("broker", "--start")
        self.assertRegex(line()["text"], "private broker runs")
        socket_url = "unix:" + self.box.path("run", "broker.sock")
        self.assertEqual(line(SCRY_BROKER=socket_url), {"name": "broker", "state": "ok", "remedy": "",
                                                        "text": f"SCRY_BROKER: {socket_url} answers"})
        self.assertRegex(line(SCRY_BROKER="unix:/nothing")["text"], "No such file")
        with brokertest.Mosquitto(self.box, users={"ann": "x"}, acl=["pattern readwrite scry/v1/%u/#"]) as broker:
            url = f"mqtt://ann:x@127.0.0.1:{broker.port}"
            self.assertEqual(line(SCRY_BROKER=url + "/ann")["text"], f"SCRY_BROKER: mqtt://ann@127.0.0.1:{broker.port}/ann answers")
            self.assertRegex(line(SCRY_BROKER=url + "/bob", SCRY_TEST_HASTE="4")["text"], "perhaps it does not allow that to ann|may not write or read")
        os.makedirs(self.box.path("home", ".config", "scry"))
        with open(self.box.path("home", ".config", "scry", "brokers"), "w", encoding="ascii") as file:
            file.write("good mqtt://host\nbad mqtt://\n")
        self.assertRegex(line()["text"], "brokers, line 2: the URL names no host")

    def test_scry_itself_starts_without_libraries_for_brokers(self):
        """Those are for programs that it starts: loading OpenSSL would delay each job."""
        found = self.box.run(["readelf", "-d", scrytest.built("src", "cli", "scry")]).stdout
        self.assertIn("NEEDED", found)
        self.assertNotRegex(found, "mosquitto|libssl|libcrypto")

    def test_foreground(self):
        with open(self.box.path("work", "log"), "w", encoding="utf-8") as log:
            broker = self.box.start(self.box.scry("broker"), stderr=log)
        scrytest.wait_until(lambda: brokertest.answers(self.box.path("run", "broker.sock")))
        self.assertIn(f"process {broker.pid}", self.scry("broker", "--status").stdout)
        self.assertIn("runs already", self.scry("broker", status=2).stderr)
        broker.send_signal(signal.SIGINT)
        self.assertEqual(broker.wait(), 0)
        self.assertIn("unix listen socket on path", _text(self.box.path("work", "log")))


def _text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


scrytest.main()
