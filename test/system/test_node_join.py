# SPDX-License-Identifier: Apache-2.0
"""Monitors that come by themselves: scry link await and scry link join."""

import os
import signal
import socket
import ssl

import scrytest

GET = ": node_get_info([], 1)"


class Join(scrytest.TestCase):
    def setUp(self):
        super().setUp()
        self.far = scrytest.Sandbox()
        self.addCleanup(self.far.close)

    def await_nodes(self, *options):
        """The process, and the value of SCRY_JOIN."""
        process = self.box.start(self.box.scry("link", "await", *options))
        name, _, value = process.stdout.readline().strip().partition("=")
        self.assertEqual(name, "SCRY_JOIN")
        return process, value

    def join(self, value, box=None, status=0):
        box = box or self.far
        done = box.run(box.scry("link", "join"), env={"SCRY_JOIN": value})
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    def joins(self, box=None):
        """Those that are at it."""
        return [pid for pid in (box or self.far).processes("scry-link") if b"join" in scrytest.process_command_line(pid)]

    def log(self):
        with open(self.far.path("run", "link.log"), encoding="utf-8") as file:
            return file.read()

    def test_becomes_a_node(self):
        process, value = self.await_nodes()
        self.assertEqual(self.join(value), "")
        self.assertEqual(process.stdout.readline(), "node n_2\n")
        program = self.far.start_example("threads", "2", "60")
        with self.box.omis() as omis:
            for request in (": node_attach([n_2])", f': proc_attach3([n_2], {program.pid}, "")', ": thread_stop([])"):
                reply = omis.request(request)
                self.assertTrue(reply.ok(), reply)
            self.assertIn(scrytest.process_state(program.pid), "tT")
        scrytest.wait_until(lambda: scrytest.process_state(program.pid) not in "tT")

    def test_second_rank_on_a_node(self):
        process, value = self.await_nodes()
        for _ in range(4):
            self.join(value)
        process.stdout.readline()
        self.assertEqual(len(self.joins()), 1)
        other = scrytest.Sandbox()
        self.addCleanup(other.close)
        self.join(value, other)
        self.assertEqual(process.stdout.readline(), "node n_3\n")

    def test_secret_stays_secret(self):
        process, value = self.await_nodes()
        self.join(value)
        process.stdout.readline()
        secret = value.partition("#")[2].encode()
        for pid in (self.far.monitor_pid(), self.box.monitor_pid()):
            with open(f"/proc/{pid}/environ", "rb") as file:
                self.assertNotIn(secret, file.read())
        for pid in [process.pid, *self.joins()]:
            self.assertNotIn(secret, scrytest.process_command_line(pid))

    def test_end_of_either(self):
        process, value = self.await_nodes()
        self.join(value)
        process.stdout.readline()
        with self.box.omis() as omis:
            self.assertTrue(omis.request(": node_attach([n_2])").ok())
            self.far.stop_monitor(signal.SIGKILL)
            scrytest.wait_until(lambda: not self.joins(), 20)
            scrytest.wait_until(lambda: "n_2" not in str(omis.request(GET)), 20)
            self.join(value)
            self.assertRegex(process.stdout.readline(), r"node n_\d+\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), 0)
        scrytest.wait_until(lambda: not self.joins(), 20)
        self.assertEqual([name for name in os.listdir(self.box.path("run")) if name.startswith("join")], [])

    def test_wrong_secret(self):
        _, value = self.await_nodes()
        url, _, secret = value.partition("#")
        self.join(f"{url}#{secret[1:]}{secret[0] if secret[0] != secret[1] else '0'}")
        scrytest.wait_until(lambda: "another secret" in self.log(), 20)
        scrytest.wait_until(lambda: not self.joins(), 20)
        with self.box.omis() as omis:
            self.assertNotIn("n_2", str(omis.request(': node_attach2("") node_get_info([], 1)')))

    def test_without_secret(self):
        """Whoever connects with certificates only, or none, gets nothing."""
        _, value = self.await_nodes()
        port = int(value.partition("#")[0].rpartition(":")[2])
        for highest in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode, context.maximum_version = False, ssl.CERT_NONE, highest
            with socket.create_connection(("localhost", port)) as plain, self.assertRaises((ssl.SSLError, ConnectionError)):
                with context.wrap_socket(plain) as wrapped:
                    wrapped.sendall(b"SCRYLINK")
                    self.assertEqual(wrapped.recv(1), b"")
                    raise ConnectionError

    def test_nobody_awaits(self):
        process, value = self.await_nodes()
        process.kill()
        process.wait()
        self.join(value)
        scrytest.wait_until(lambda: "nobody listens" in self.log(), 20)

    def test_bad_values(self):
        for value in ("tls://n1:7#12", "n1:7", f"ssh://n1#{'0' * 64}", f"tls://n1#{'0' * 64}", f"tls://n1:7#{'0' * 63}x"):
            said = self.join(value, status=1)
            self.assertEqual(len(said.splitlines()), 1, said)
            self.assertNotIn("0" * 63, said)

    def test_listen(self):
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{found.getsockname()[1]}"
        process, value = self.await_nodes("--listen", address)
        self.assertTrue(value.startswith(f"tls://{address}#"), value)
        self.join(value)
        self.assertEqual(process.stdout.readline(), "node n_2\n")


if __name__ == "__main__":
    scrytest.main()
