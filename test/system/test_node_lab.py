# SPDX-License-Identifier: Apache-2.0
"""Nodes over a network: their names and addresses, and networks that lead nowhere."""

import time

import labtest
import scrytest


class Names(labtest.LabCase):
    hosts = ("n1", "n2")
    one_lab = True

    def attach(self, name):
        with self.box.omis() as omis:
            return omis.request(f': node_attach2("{name}")')

    def address(self, host):
        """Of its link, with the zone by which the first host gets there."""
        words = host.run(["/sbin/ip", "-6", "-o", "address", "show", "dev", "eth0", "scope", "link"]).stdout.split()
        return words[words.index("inet6") + 1].partition("/")[0] + "%eth0" if "inet6" in words else None

    def test_names(self):
        other = self.lab.host("n2")
        names = ["n2", "10.77.0.2", "fd77::2", "[fd77::2]", "ssh://[fd77::2]:22"]
        linked = self.address(other)
        for name in names + ([linked] if linked else []):
            with self.subTest(name):
                reply = self.attach(name)
                self.assertTrue(reply.ok(), reply)

    def test_one_node_by_two_names(self):
        with self.box.omis() as omis:
            for name in ("n2", "10.77.0.2", "n2"):
                reply = omis.request(f': node_attach2("{name}")')
                self.assertIn('"n_2"', str(reply).replace("'", '"'), name)

    def test_no_route(self):
        """The network is cut, or the address is nobody's: an answer in time that says so."""
        self.hasten_home(5)
        self.lab.cut("n2")
        for name in ("n2", "10.77.0.99"):
            with self.subTest(name):
                begun = time.monotonic()
                reply = self.attach(name)
                self.assertFalse(reply.ok(), reply)
                self.assertRegex(str(reply), "no route|does not answer")
                self.assertLess(time.monotonic() - begun, scrytest.room(20))

    def test_join(self):
        """Without ssh, by the name that the machine has for itself."""
        other = self.lab.host("n2")
        process = self.box.start(self.box.scry("link", "await"))
        value = process.stdout.readline().strip().partition("=")[2]
        done = other.run(other.scry("link", "join"), env={"SCRY_JOIN": value})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(process.stdout.readline(), "node n_2\n")
        with self.box.omis() as omis:
            reply = omis.request(': node_attach2("n2")')
            self.assertIn("n_2", str(reply))
            self.assertIn("n2", str(omis.request(": node_get_info([n_2], 1)")))


if __name__ == "__main__":
    scrytest.main()
