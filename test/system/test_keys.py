# SPDX-License-Identifier: Apache-2.0
"""`scry keys`: an authority is made once, keys are issued, revoked and shown, OpenSSL reads them, nothing is ever written
over, and a job does not see its own key."""

import json
import os
import shutil
import stat
import subprocess
import unittest

import brokertest
import schematest
import scrytest
from jobtest import JobCase


class Keys(JobCase):
    def keys(self, *arguments, **options):
        return self.scry("keys", *arguments, **options)

    def at(self, *parts):
        return self.box.path("home", ".config", "scry", "keys", *parts)

    def listed(self):
        listed = json.loads(self.keys("list", "--json").stdout)
        self.assertEqual(list(schematest.violations(listed, schematest.schema("keys"))), [])
        return {key["name"]: key for key in listed["keys"]}

    def openssl(self, *arguments):
        """Debian's, without the box's environment."""
        return subprocess.run(["openssl", *arguments], check=False, capture_output=True, text=True)

    def file(self, name):
        return self.box.path("work", name)

    def test_all(self):
        self.assertIn("scry keys init makes one", self.keys("list", status=1).stderr)
        self.assertIn("scry keys init makes one", self.keys("issue", "-o", "a.pem", status=1).stderr)
        self.assertRegex(self.keys("show", status=1).stderr, r"own\.pem.*scry keys init makes one")
        self.keys("init")
        for folder, folders, names in os.walk(self.at()):
            self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
            for name in names:
                self.assertEqual(stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode), 0o600, name)
        self.assertIn("there is an authority already", self.keys("init", status=1).stderr)
        done = self.keys("issue", "--name", "ada", "--job", "climate-*", "--rights", "control", "--for", "2w", "-o", "a.pem")
        self.assertRegex(done.stdout, r"^a.pem: ada may observe,control jobs climate-\*, until \S+ \S+ UTC, serial [0-9a-f]{12}\n$")
        self.keys("issue", "--kind", "job", "-o", "job.pem")
        shown = json.loads(self.keys("show", "--json", "a.pem").stdout)
        self.assertEqual((shown["name"], shown["kind"], shown["rights"], shown["job"], shown["state"], shown["private"]),
                         ("ada", "person", ["observe", "control"], "climate-*", "valid", True))
        self.assertAlmostEqual(shown["until"] - shown["from"], 15 * 86400, delta=60)  # a day before, for clocks differ
        self.assertEqual(self.listed()["ada"]["serial"], shown["serial"])
        self.assertIn("rights   observe,control,memory", self.keys("show").stdout)
        self.assertIn("rights   -", self.keys("show", "job.pem").stdout)
        # OpenSSL agrees about all of it, before and after
        text = self.openssl("x509", "-noout", "-text", "-in", self.file("a.pem")).stdout
        self.assertIn("URI:scry:person?rights=observe,control&job=climate-*", text)
        self.assertIn("ED25519", text)
        verify = ["verify", "-x509_strict", "-CAfile", self.at("authority.pem")]
        for name in self.file("a.pem"), self.file("job.pem"), self.at("own.pem"):
            self.assertEqual(self.openssl(*verify, name).returncode, 0, name)
        self.assertRegex(self.keys("revoke", "ada").stdout, rf"^revoked {shown['serial']}, ada\n")
        verify += ["-crl_check", "-CRLfile", self.at("revoked.pem")]
        self.assertIn("certificate revoked", self.openssl(*verify, self.file("a.pem")).stderr)
        self.assertEqual(self.openssl(*verify, self.file("job.pem")).returncode, 0)
        self.assertIn("was revoked before", self.keys("revoke", "ada").stdout)
        self.assertEqual(self.listed()["ada"]["state"], "revoked")
        self.assertEqual(json.loads(self.keys("show", "--json", "a.pem").stdout)["state"], "revoked")
        self.assertRegex(self.keys("list").stdout, r"(?m)^ada +person  observe,control .* revoked  [0-9a-f]{12}  climate-\*$")

    def test_never_over(self):
        self.keys("init")
        with open(self.file("a.pem"), "w", encoding="ascii") as file:
            file.write("mine")
        self.assertIn("never overwritten", self.keys("issue", "-o", "a.pem", status=1).stderr)
        with open(self.file("a.pem"), encoding="ascii") as file:
            self.assertEqual(file.read(), "mine")
        self.assertEqual(set(self.listed()), {"own"})
        os.symlink("nowhere", self.file("link"))
        self.assertIn("never overwritten", self.keys("issue", "-o", "link", status=1).stderr)
        self.assertEqual(sorted(os.listdir(self.box.path("work"))), ["a.pem", "link"])
        self.assertEqual(self.keys("issue", "--name", "x", "-o", "-").stdout.count("-----BEGIN"), 3)

    def test_two_at_once(self):
        runs = [self.box.start(self.box.scry("keys", "init"), stderr=subprocess.DEVNULL) for _ in range(8)]
        said = [(run.communicate(timeout=60)[0], run.returncode) for run in runs]
        self.assertEqual(sorted(status for _, status in said), [0] + 7 * [1], said)
        self.assertEqual(os.listdir(os.path.dirname(self.at())), ["keys"])
        self.assertEqual(set(self.listed()), {"own"})
        self.assertEqual(self.openssl("verify", "-CAfile", self.at("authority.pem"), self.at("own.pem")).returncode, 0)

    def test_no_room(self):
        """A file system that is full, or may not be written: one line, and nothing is left."""
        limited = ["bash", "-c", 'ulimit -f 0; trap "" XFSZ; exec "$@"', "bash", *self.box.scry("keys", "init")]
        done = self.box.run(limited)
        self.assertEqual(done.returncode, 1)
        self.assertIn("File too large", done.stderr)
        self.assertEqual(os.listdir(os.path.dirname(self.at())), [])
        self.keys("init")
        limited[-1:] = ["issue", "-o", "a.pem"]
        done = self.box.run(limited)
        self.assertEqual((done.returncode, os.listdir(self.box.path("work"))), (1, []))
        self.assertEqual(os.listdir(self.at("issued")), [name["serial"] + ".pem" for name in self.listed().values()])
        self.assertEqual(set(self.listed()), {"own"})
        limited[-3:] = ["revoke", "own"]
        self.assertEqual(self.box.run(limited).returncode, 1)
        self.assertFalse(os.path.exists(self.at("revoked.pem")))

    @unittest.skipUnless(os.getuid() == 0 and shutil.which("setpriv"), "root may write everywhere: needs another user")
    def test_read_only(self):
        os.chmod(self.box.path("home"), 0o500)
        drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
        done = self.box.run([*drop, *self.box.scry("keys", "init")])
        os.chmod(self.box.path("home"), 0o700)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"^scry keys: \S+: Permission denied\n$")

    def test_clock(self):
        """The certificates of a clock that was wrong are said to be so."""
        self.keys("init")
        self.keys("issue", "--for", "1s", "-o", "short.pem")
        scrytest.wait_until(lambda: json.loads(self.keys("show", "--json", "short.pem").stdout)["state"] == "expired")
        self.assertEqual(self.listed()["short"]["state"], "expired")

    def test_bad_files(self):
        self.keys("init")
        self.keys("issue", "-o", "a.pem")
        os.chmod(self.file("a.pem"), 0o604)
        self.assertIn("chmod 600", self.keys("show", "a.pem", status=1).stderr)
        self.assertIn("No such file", self.keys("show", "b.pem", status=1).stderr)
        with open(self.at("issued", "junk.pem"), "w", encoding="ascii") as file:
            file.write("junk")
        done = self.keys("list")
        self.assertIn("1 files in issued/ cannot be read", done.stderr)
        with open(self.at("revoked.pem"), "w", encoding="ascii") as file:
            file.write("junk")
        self.assertIn("revoked.pem is damaged", self.keys("revoke", "a", status=1).stderr)
        os.unlink(self.at("revoked.pem"))
        self.keys("issue", "--name", "a", "-o", "c.pem")
        self.assertIn('2 keys are named "a"; give the serial', self.keys("revoke", "a", status=1).stderr)

    def test_revoked_at_broker(self):
        """The list is retained at the broker; one that drops it, or is not there, is not believed."""
        with brokertest.Mosquitto(self.box) as broker:
            self.keys("init")
            self.keys("issue", "-o", "a.pem")
            url = broker.url + "//ada"
            self.assertIn("the broker has the list", self.keys("revoke", "a", "--broker", url).stdout)
            client = broker.client("scry/v1/+/keys/revoked")
            client.wait(lambda: client.messages)
            self.assertEqual((client.messages[0].topic, client.messages[0].retain), ("scry/v1/ada/keys/revoked", True))
            with open(self.at("revoked.pem"), "rb") as file:
                self.assertEqual(client.messages[0].payload, file.read())
            self.keys("revoke", "a", "--broker", url)  # again
            broker.stop()
            self.keys("issue", "-o", "b.pem")
            done = self.keys("revoke", "b", "--broker", url, status=1)
            self.assertIn("revoked", done.stdout)
            self.assertIn("does not answer", done.stderr)
            self.assertIn("no URL of a broker", self.keys("revoke", "b", "--broker", "nonsense", status=1).stderr)

    def test_broker_drops_it(self):
        """A broker that does not take the list, since one may not write there."""
        with brokertest.Mosquitto(self.box, acl=["topic read #"]) as broker:
            self.keys("init")
            self.keys("issue", "-o", "a.pem")
            done = self.keys("revoke", "a", "--broker", broker.url, status=1)
            self.assertRegex(done.stderr, r"the broker \S+ does not let you publish scry/v1/\w+/keys/revoked, or read it")

    def test_arguments(self):
        for said, *arguments in (
            ("init, issue, revoke, list or show",),
            ('there is no scry keys "make"', "make"),
            ("scry keys init has no --job", "init", "--job", "x"),
            ("takes no", "init", "x"),
            ("where to?", "issue"),
            ("who gets the key?", "issue", "-o", "-"),
            ("--rights is for keys of people", "issue", "--kind", "job", "--rights", "observe", "-o", "x"),
            ("observe, control or memory", "issue", "--rights", "root", "-o", "x"),
            ("which key?", "revoke"),
            ("scry keys list has no --broker", "list", "--broker", "x"),
        ):
            with self.subTest(arguments=arguments):
                self.assertIn(said, self.keys(*arguments, status=2).stderr)
        self.keys("init")
        self.assertIn("control character", self.keys("issue", "--name", "a\x1b[2J", "-o", "x", status=1).stderr)
        self.assertIn("no key is valid longer", self.keys("issue", "--for", "1500w", "-o", "x", status=1).stderr)

    def test_out_of_sight(self):
        """A job sees its key neither in its environment nor in that of scry run."""
        look = 'env | grep -c PRIVATE; tr "\\0" "\\n" </proc/$PPID/environ | grep -c PRIVATE; tr "\\0" "\\n" </proc/$PPID/environ | grep -c ^HOME'
        self.keys("init")
        text = self.keys("issue", "--kind", "job", "-o", "-").stdout
        done = self.scry_run("-q", "sh", "-c", look, env={"SCRY_KEY": text})
        self.assertEqual(done.stdout, "0\n0\n1\n", done.stderr)


scrytest.main()
