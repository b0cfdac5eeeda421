# SPDX-License-Identifier: Apache-2.0
"""tools/install-deps, with stand-ins for apt-get, dpkg-query, sudo and id: what it would install, as whom, and when."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import scrytest  # noqa: E402

TOOL = os.path.join(scrytest.SOURCE, "tools", "install-deps")

# Installed is what the file `installed` lists; apt-get adds to it unless a file `broken` counts down its failures.
DPKG_QUERY = """#!/bin/sh
while read -r package; do echo "$package ii "; done <"$BOX/installed"
"""
APT_GET = """#!/bin/sh
echo "apt-get $*" >>"$BOX/log"
case " $* " in *" update "*) exit 0 ;; esac
if [ -s "$BOX/broken" ]; then rm "$BOX/broken"; exit 100; fi
for word; do case $word in -* | install | DPkg*) ;; *) echo "$word" >>"$BOX/installed" ;; esac; done
"""
SUDO = """#!/bin/sh
echo "sudo $*" >>"$BOX/log"
while case $1 in -*) true ;; *) false ;; esac; do shift; done
exec "$@"
"""
ID = """#!/bin/sh
echo "$BOX_UID"
"""
# Everything the script calls but the stand-ins.
REAL = ("sh", "sed", "grep", "env", "ls", "cat", "rm")


class InstallDeps(unittest.TestCase):
    def setUp(self):
        box = tempfile.TemporaryDirectory()
        self.addCleanup(box.cleanup)
        self.box = box.name
        os.mkdir(os.path.join(self.box, "bin"))
        for name, text in (("dpkg-query", DPKG_QUERY), ("apt-get", APT_GET), ("id", ID)):
            self.program(name, text)
        for name in REAL:
            target = next(os.path.join(folder, name) for folder in ("/usr/bin", "/bin")
                          if os.path.exists(os.path.join(folder, name)))
            os.symlink(target, os.path.join(self.box, "bin", name))
        self.write("installed", "")
        self.write("log", "")

    def program(self, name, text):
        self.write(os.path.join("bin", name), text)
        os.chmod(os.path.join(self.box, "bin", name), 0o755)

    def write(self, name, text):
        with open(os.path.join(self.box, name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(os.path.join(self.box, name), encoding="utf-8") as file:
            return file.read()

    def run_tool(self, *arguments, uid=0):
        env = {"PATH": os.path.join(self.box, "bin"), "BOX": self.box, "BOX_UID": str(uid)}
        return subprocess.run(["/bin/sh", TOOL, *arguments], env=env, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False)

    def wanted(self, *arguments):
        return self.run_tool("--list", *arguments).stdout.split()

    def test_installs_what_is_missing_and_only_once(self):
        wanted = self.wanted()
        self.assertIn("libdw-dev", wanted)
        self.write("installed", "".join(f"{name}\n" for name in wanted if name not in ("libdw-dev", "meson")))
        done = self.run_tool()
        self.assertEqual(done.returncode, 0, done.stderr)
        install = [line for line in self.read("log").splitlines() if " install " in line]
        self.assertEqual(len(install), 1)
        self.assertTrue(install[0].endswith("--no-install-recommends meson libdw-dev"), install)
        self.write("log", "")
        self.assertEqual(self.run_tool().returncode, 0)
        self.assertEqual(self.read("log"), "", "a second run does nothing")

    def test_tests_need_more(self):
        self.assertLess(set(self.wanted()), set(self.wanted("--test")))
        self.assertIn("libcmocka-dev", self.wanted("--test"))
        self.assertNotIn("libcmocka-dev", self.wanted())

    def test_thorough_runs_need_still_more(self):
        self.assertLess(set(self.wanted("--test")), set(self.wanted("--thorough")))
        self.assertIn("tcl-dev", self.wanted("--thorough"))

    def test_old_lists_are_renewed(self):
        self.write("broken", "1")
        self.assertEqual(self.run_tool().returncode, 0)
        calls = [line.split(" install ")[0] if " install " in line else line for line in self.read("log").splitlines()]
        self.assertTrue(calls[-2].endswith("update"), calls)

    def test_ordinary_user_goes_through_sudo(self):
        self.program("sudo", SUDO)
        done = self.run_tool(uid=1000)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("sudo -n env DEBIAN_FRONTEND=noninteractive apt-get", self.read("log"))

    def test_without_sudo_one_line_to_run(self):
        done = self.run_tool(uid=1000)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.read("log"), "")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 2, lines)
        self.assertRegex(lines[1], r"^    apt-get update && apt-get install -y --no-install-recommends gcc .*libopenmpi-dev .*libmpich-dev\b")

    def test_without_sudo_but_nothing_missing(self):
        self.write("installed", "\n".join(self.wanted()) + "\n")
        self.assertEqual(self.run_tool(uid=1000).returncode, 0)

    def test_not_debian(self):
        os.remove(os.path.join(self.box, "bin", "apt-get"))
        done = self.run_tool()
        self.assertEqual(done.returncode, 0)
        self.assertIn("going on with what is installed", done.stderr)

    def test_unknown_option(self):
        self.assertEqual(self.run_tool("--tests").returncode, 2)


scrytest.main()
