# SPDX-License-Identifier: Apache-2.0
"""Brokers for tests: real ones (mosquitto, a cluster of NATS servers), a stock client, and a proxy that lies.

    with brokertest.Mosquitto(self.box) as broker:       # on a unix socket and a free port of the loopback
        client = broker.client("scry/v1/#")              # collects what comes
        self.box.run(self.box.scry("run", "--broker", broker.url, "--", "true"))
        client.wait(lambda: client.of("/state"))

Everything lies in the sandbox's directory, and is stopped by process id when the test ends. After broker.stop(), broker.start()
starts it again at the same address and with what it had stored.
"""

import collections
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

import scrytest

try:
    import paho.mqtt.client
except ImportError:  # stated by whoever needs it: client()
    paho = None

MOSQUITTO = shutil.which("mosquitto", path=scrytest.SYSTEM_PATH)
NATS = shutil.which("nats-server", path=scrytest.SYSTEM_PATH)

Message = collections.namedtuple("Message", "topic payload qos retain")


def free_port():
    """Of the loopback. Somebody else may take it before it is used: whoever listens there tries again with another."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def answers(address):
    """Does somebody accept connections at a path, or at a (host, port)?"""
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as probe:
        try:
            probe.connect(address)
            return True
        except OSError:
            return False


class Certificates:
    """An authority, a certificate of 127.0.0.1 and localhost, and one of a client: ca.pem, server.pem/.key, client.pem/.key."""

    def __init__(self, box, name="tls"):
        self.box, self.place = box, box.path("tmp", name)
        os.mkdir(self.place)
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                      "-subj", "/CN=test authority", "-keyout", self.path("ca.key"), "-out", self.path("ca.pem"))
        self.issue("server", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        self.issue("client", "extendedKeyUsage=clientAuth")

    def path(self, name):
        return os.path.join(self.place, name)

    def issue(self, name, extension):
        with open(self.path(name + ".ext"), "w", encoding="ascii") as file:
            file.write(extension + "\n")
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                      "-keyout", self.path(name + ".key"), "-out", self.path(name + ".csr"))
        self._openssl("x509", "-req", "-in", self.path(name + ".csr"), "-CA", self.path("ca.pem"), "-CAkey",
                      self.path("ca.key"), "-CAcreateserial", "-days", "2", "-extfile", self.path(name + ".ext"), "-out",
                      self.path(name + ".pem"))

    def _openssl(self, *arguments):
        done = self.box.run(["openssl", *arguments])
        if done.returncode:
            raise AssertionError(f"openssl {arguments[0]}: {done.stderr}")


class Client:
    """The stock client: collects the messages of its subscriptions, in the order in which they come, and publishes."""

    def __init__(self, port, *patterns, name="", user=None, password=None, ca=None, cert=None, key=None, qos=1, clean=True):
        if not paho:
            raise AssertionError("python3-paho-mqtt is missing")
        self.messages, self.granted, self.connected, self.refused = [], [], threading.Event(), None
        self.patterns, self.qos = patterns, qos
        self.mqtt = paho.mqtt.client.Client(name, clean_session=clean)
        self.mqtt.on_connect, self.mqtt.on_message, self.mqtt.on_subscribe = self._connected, self._message, self._subscribed
        self.mqtt.reconnect_delay_set(0.1, 0.5)
        if user:
            self.mqtt.username_pw_set(user, password)
        if ca:
            self.mqtt.tls_set(ca, cert, key)
        self.mqtt.connect("127.0.0.1", port, keepalive=20)
        self.mqtt.loop_start()
        scrytest.wait_until(lambda: self.refused is not None or self.connected.is_set() and len(self.granted) >= len(patterns),
                            20, "connection of the stock client")

    def _connected(self, mqtt, _ctx, _flags, code):
        if code:
            self.refused = code
            return
        self.connected.set()
        for pattern in self.patterns:
            mqtt.subscribe(pattern, self.qos)

    def _subscribed(self, _mqtt, _ctx, _number, granted):
        self.granted += granted

    def _message(self, _mqtt, _ctx, message):
        self.messages.append(Message(message.topic, message.payload, message.qos, message.retain))

    def of(self, ending):
        """The messages so far whose topic ends so."""
        return [message for message in list(self.messages) if message.topic.endswith(ending)]

    def wait(self, condition, timeout=20, message=None):
        return scrytest.wait_until(condition, timeout, message or (lambda: f"messages: {self.messages[-5:]}"))

    def publish(self, topic, payload, qos=1, retain=False):
        sent = self.mqtt.publish(topic, payload, qos, retain)
        if qos:
            scrytest.wait_until(sent.is_published, 20, "acknowledgement of the stock client's message")

    def close(self):
        self.mqtt.disconnect()
        self.mqtt.loop_stop()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


class _Broker:
    """What all have: a process that is stopped by its id, and clients that are closed."""

    def __init__(self, box):
        self.box, self.process, self.clients = box, None, []

    def client(self, *patterns, port=None, **options):
        self.clients.append(Client(port or self.port, *patterns, **options))
        return self.clients[-1]

    def stop(self, sig=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            while self.process.poll() is None:  # one that comes while it starts is lost: mosquitto says "run" after it listens
                self.process.send_signal(sig)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(1)
        self.process = None

    def pause(self):
        """It is there, and does nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def close(self):
        for client in self.clients:
            client.close()
        self.stop()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


class Mosquitto(_Broker):
    """unix: mqtt over a socket (box.path("tmp", NAME + ".sock")). port: on the loopback; with tls (Certificates), only TLS
    there. users: {name: password}; acl: lines of an ACL file; lines: of the configuration. persistent: it keeps retained
    messages and sessions when it is stopped."""

    def __init__(self, box, name="broker", tls=None, client_certificates=False, users=None, acl=None, lines=(), persistent=False):
        super().__init__(box)
        if not MOSQUITTO:
            raise AssertionError("mosquitto is missing")
        self.place = box.path("tmp", name)
        os.mkdir(self.place)
        self.path = self.place + ".sock"
        self.tls, self.users = tls, users
        # with 0, mosquitto 2.0.11 hangs up on who may not write somewhere; without, it drops what is written there
        self._lines = [*lines] if acl else [*lines, "max_queued_messages 0"]
        if client_certificates:
            self._lines += ["require_certificate true", f"cafile {tls.path('ca.pem')}"]
        if users:
            self._passwords = os.path.join(self.place, "passwords")
            for user, password in users.items():
                done = box.run(["mosquitto_passwd", "-b", *([] if os.path.exists(self._passwords) else ["-c"]),
                                self._passwords, user, password])
                if done.returncode:
                    raise AssertionError(done.stderr)
            self._lines.append(f"password_file {self._passwords}")
        else:
            self._lines.append("allow_anonymous true")
        if acl:
            with open(os.path.join(self.place, "acl"), "w", encoding="utf-8") as file:
                file.write("\n".join(acl) + "\n")
            self._lines.append(f"acl_file {self.place}/acl")
        if persistent:
            self._lines += ["persistence true", f"persistence_location {self.place}/"]
        if os.getuid() == 0 and not box.identity:
            self._lines.append("user root")
        self.log = os.path.join(self.place, "log")
        self.port = None
        self.start()

    @property
    def url(self):
        """Of the socket."""
        return f"unix:{self.path}"

    @property
    def tcp_url(self):
        if self.tls:
            return f"mqtts://localhost:{self.port}?ca={self.tls.path('ca.pem')}"
        return f"mqtt://127.0.0.1:{self.port}"

    def start(self):
        for _ in range(20):
            port = self.port or free_port()
            lines = [f"listener 0 {self.path}", f"listener {port} 127.0.0.1"]
            if self.tls:
                lines += [f"certfile {self.tls.path('server.pem')}", f"keyfile {self.tls.path('server.key')}"]
            config = os.path.join(self.place, "conf")
            with open(config, "w", encoding="utf-8") as file:
                file.write("\n".join(lines + self._lines) + "\n")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
            with open(self.log, "a", encoding="utf-8") as log:
                self.process = self.box.start([MOSQUITTO, "-c", config], stdout=log, stderr=log)
            scrytest.wait_until(lambda: self.process.poll() is not None or answers(self.path) and answers(("127.0.0.1", port)),
                                20, "mosquitto listens")
            if self.process.poll() is None:
                self.port = port
                return
            if self.port:
                break
        with open(self.log, encoding="utf-8") as file:
            raise AssertionError(f"mosquitto does not start: {file.read()[-500:]}")

    def client(self, *patterns, **options):
        if self.tls:
            options.setdefault("ca", self.tls.path("ca.pem"))
        return super().client(*patterns, **options)


class NatsCluster:
    """Three NATS servers with JetStream and MQTT, each message on all three."""

    def __init__(self, box, count=3):
        if not NATS:
            raise AssertionError("nats-server is missing")
        self.box, self.count = box, count
        self.place = box.path("tmp", "nats")
        os.mkdir(self.place)
        self.ports = [free_port() for _ in range(count)]
        self._own, self._routes = [free_port() for _ in range(count)], [free_port() for _ in range(count)]
        self.nodes = [_Broker(box) for _ in range(count)]
        for number in range(count):
            self.start(number)
        for number in range(count):
            self.wait(number)

    def start(self, number):
        config = os.path.join(self.place, f"{number}.conf")
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._routes)
        with open(config, "w", encoding="utf-8") as file:
            file.write(f"""server_name: n{number}
listen: "127.0.0.1:{self._own[number]}"
jetstream {{ store_dir: "{self.place}/{number}", max_memory_store: 64MB, max_file_store: 512MB }}
cluster {{ name: scry, listen: "127.0.0.1:{self._routes[number]}", routes: [{routes}] }}
mqtt {{ listen: "127.0.0.1:{self.ports[number]}", ack_wait: "2s", max_ack_pending: 1000 }}
log_file: "{self.place}/{number}.log"
""")
        node = self.nodes[number]
        node.port = self.ports[number]
        node.process = self.box.start([NATS, "-c", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait(self, number):
        """Until the node takes MQTT clients, which needs a majority of nodes that have found each other."""
        def ready():
            if self.nodes[number].process.poll() is not None:
                with open(f"{self.place}/{number}.log", encoding="utf-8") as file:
                    raise AssertionError(f"nats-server ended: {file.read()[-500:]}")
            return mqtt_answers(self.ports[number])
        scrytest.wait_until(ready, 60, f"NATS node {number} takes MQTT clients")

    def url(self, *order):
        """Of all nodes, or of those given, in this order."""
        return "mqtt://" + ",".join(f"127.0.0.1:{self.ports[number]}" for number in order or range(self.count))

    def client(self, number, *patterns, **options):
        return self.nodes[number].client(*patterns, **options)

    def stop(self, number, sig=signal.SIGKILL):
        self.nodes[number].stop(sig)

    def close(self):
        for node in self.nodes:
            for client in node.clients:
                client.close()
            node.stop(signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


def mqtt_answers(port):
    """Does a broker accept a client there, and a subscription?"""
    with socket.socket() as probe:
        probe.settimeout(3)
        try:
            probe.connect(("127.0.0.1", port))
            probe.sendall(b"\x10\x11\x00\x04MQTT\x04\x02\x00\x0a\x00\x05probe" + b"\x82\x06\x00\x01\x00\x01x\x00" + b"\xe0\x00")
            answer = b""
            while len(answer) < 9:
                more = probe.recv(9 - len(answer))
                if not more:
                    return False
                answer += more
            return answer == b"\x20\x02\x00\x00\x90\x03\x00\x01\x00"
        except OSError:
            return False


PUBLISH = 3


class LyingBroker:
    """A proxy that speaks MQTT between clients and a broker, and does what a bad network or a bad broker does. The faults are
    attributes, which may be changed at any time:

    duplicate    each PUBLISH to a client comes twice
    reorder      of two PUBLISH to a client, the second comes first
    drop_qos0    no PUBLISH with QoS 0 comes through, in either direction
    hang_up      seconds after which each connection is ended
    delay        seconds that each packet takes, in either direction
    stalled      True: nothing is read any more from clients
    deaf         True: nothing is sent any more to clients, also no acknowledgement
    refuse       True: new connections are ended at once
    """

    def __init__(self, broker):
        self.broker_address = broker.path if getattr(broker, "path", None) else ("127.0.0.1", broker.port)
        self.duplicate = self.reorder = self.drop_qos0 = self.stalled = self.deaf = self.refuse = False
        self.hang_up, self.delay = None, 0
        self.connections = 0  # so far
        self.passed = collections.Counter()  # packets by type, to the broker
        self._open, self._closed = set(), False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"mqtt://127.0.0.1:{self.port}"

    def cut(self):
        """Ends all connections now."""
        for pair in list(self._open):
            self._end(*pair)

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            server = socket.socket(socket.AF_UNIX if isinstance(self.broker_address, str) else socket.AF_INET)
            try:
                if self.refuse:
                    raise OSError
                server.connect(self.broker_address)
            except OSError:
                client.close()
                server.close()
                continue
            pair = (client, server)
            self._open.add(pair)
            threading.Thread(target=self._pump, args=(pair, client, server, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(pair, server, client, False), daemon=True).start()
            threading.Thread(target=self._watch, args=(pair, time.monotonic()), daemon=True).start()

    def _watch(self, pair, since):
        while pair in self._open and not self._closed:
            if self.hang_up is not None and time.monotonic() - since >= self.hang_up:
                self._end(*pair)
            time.sleep(0.01)

    def _end(self, client, server):
        self._open.discard((client, server))
        for end in (client, server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _pump(self, pair, source, target, to_broker):
        held = None
        try:
            while True:
                while not self._closed and (self.stalled if to_broker else self.deaf):
                    time.sleep(0.01)
                packet = self._packet(source, held is not None)
                if packet == b"":  # nothing came after what was held
                    target.sendall(held)
                    held = None
                    continue
                if self.delay:
                    time.sleep(self.delay)
                kind = packet[0] >> 4
                if to_broker:
                    self.passed[kind] += 1
                if kind == PUBLISH and self.drop_qos0 and not packet[0] & 6:
                    continue
                if kind == PUBLISH and not to_broker:
                    if self.duplicate:
                        packet += packet
                    if self.reorder and held is None:
                        held = packet
                        continue
                target.sendall(packet)
                if held is not None:
                    target.sendall(held)
                    held = None
        except (OSError, EOFError):
            pass
        self._end(*pair)
        source.close()

    @staticmethod
    def _packet(source, holding):
        """The next packet, whole. While another is held back, b"" if none begins within 50 ms."""
        def exactly(count):
            got = b""
            while len(got) < count:
                more = source.recv(count - len(got))
                if not more:
                    raise EOFError
                got += more
            return got

        if holding:
            source.settimeout(0.05)
            try:
                head = exactly(1)
            except TimeoutError:
                return b""
            finally:
                source.settimeout(None)
        else:
            head = exactly(1)
        length = shift = 0
        while True:
            head += exactly(1)
            length |= (head[-1] & 127) << shift
            shift += 7
            if head[-1] < 128:
                return head + exactly(length)

    def close(self):
        self._closed = True
        self._listener.close()
        self.cut()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()
