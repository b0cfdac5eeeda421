# SPDX-License-Identifier: Apache-2.0
"""A node that is reached by ssh: a real sshd on a port of loopback, with keys and settings of its own, and a sandbox for what
runs behind it.

    far = sshtest.Node(self, "n2")          # ends with the test
    self.box.env.update(far.near_env())     # now `n2` is a host for the ssh of the test's own sandbox
"""

import os
import pwd
import shutil
import socket
import subprocess
import unittest

import scrytest

# For sshd_config: by itself OpenSSH agrees on keys by sntrup761, for which the client computes 0.1 s at each connection.
KEX = "KexAlgorithms curve25519-sha256\n"
SSHD = shutil.which("sshd", path="/usr/sbin:/sbin:/usr/local/sbin") or ""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Node:
    def __init__(self, test, name, force=None, env=None, accepts=True):
        """`force`: what sshd executes instead of the command, which is then in SSH_ORIGINAL_COMMAND. `env`: over the
        sandbox's, there; None: not that variable. `accepts`: the key that is tried."""
        if not os.access(SSHD, os.X_OK):
            raise unittest.SkipTest("needs sshd: install the package openssh-server")
        self.name, self.force, self.port = name, force, free_port()
        self.box = scrytest.Sandbox()
        test.addCleanup(self.box.close)
        self.env = {**self.box.env, **(env or {})}
        for key in ("host", "user"):
            self.make_key(key)
        with open(self.path("accepted"), "w", encoding="ascii") as file:
            if accepts:
                with open(self.path("user.pub"), encoding="ascii") as key:
                    file.write(key.read())
        self.know()
        self.lead_to(self.port)
        if os.getuid() == 0:
            os.makedirs("/run/sshd", 0o755, exist_ok=True)
        self.sshd = None
        self.start()

    def path(self, name):
        return self.box.path("work", f"ssh-{name}")

    def make_key(self, name):
        for path in (self.path(name), self.path(name) + ".pub"):
            if os.path.exists(path):
                os.unlink(path)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", self.path(name)], check=True,
                       stdin=subprocess.DEVNULL)

    def know(self):
        """The client knows the key that the host has now."""
        with open(self.path("host.pub"), encoding="ascii") as key, open(self.path("known"), "w", encoding="ascii") as file:
            kind, text = key.read().split()[:2]
            file.write(f"scry-test-{self.name} {kind} {text}\n")

    def lead_to(self, port):
        """Where the client finds it."""
        user = pwd.getpwuid(os.getuid()).pw_name
        with open(self.path("client"), "w", encoding="ascii") as file:
            file.write(f"Host {self.name}\n HostName 127.0.0.1\n Port {port}\n User {user}\n"
                       f" HostKeyAlias scry-test-{self.name}\n"
                       f"Host *\n UserKnownHostsFile {self.path('known')}\n GlobalKnownHostsFile /dev/null\n"
                       f" StrictHostKeyChecking yes\n IdentityFile {self.path('user')}\n IdentitiesOnly yes\n"
                       f" IdentityAgent none\n ConnectTimeout 10\n")
        with open(self.path("program"), "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\necho "$$" >> {self.path("begun")}\nexec ssh -F {self.path("client")} "$@"\n')
        os.chmod(self.path("program"), 0o755)

    def near_env(self):
        return {"SCRY_SSH": self.path("program")}

    def start(self):
        with open(self.path("server"), "w", encoding="ascii") as file:
            file.write(f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.path('host')}\n"
                       f"AuthorizedKeysFile {self.path('accepted')}\nPidFile none\nStrictModes no\nUsePAM no\n"
                       "PermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUseDNS no\n"
                       "PrintMotd no\nPrintLastLog no\nMaxStartups 100\n" + KEX)
            words = " ".join(f'"{name}={value}"' for name, value in self.env.items() if value is not None and '"' not in value)
            file.write(f"SetEnv {words}\n")
            if self.force:
                file.write(f"ForceCommand {self.force}\n")
        self.sshd = self.box.start([SSHD, "-D", "-e", "-f", self.path("server")], stderr=subprocess.DEVNULL)
        scrytest.wait_until(self.listens, message="sshd listens")

    def listens(self):
        with socket.socket() as found:
            return found.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self):
        self.sshd.kill()
        self.sshd.wait()

    def logins(self):
        """How many times ssh was started."""
        try:
            with open(self.path("begun"), encoding="ascii") as file:
                return len(file.readlines())
        except FileNotFoundError:
            return 0
