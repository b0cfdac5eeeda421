# SPDX-License-Identifier: Apache-2.0
"""A terminal, and what a command shows on it."""

import fcntl
import os
import pty
import re
import select
import struct
import termios

import scrytest


class Screen:
    """A command of scry's on a terminal of 40 lines."""

    def __init__(self, box, *command):
        self.fd, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.process = box.start(box.scry(*command), env={"TERM": "xterm", "NO_COLOR": "1"}, stdin=inside, stdout=inside)
        os.close(inside)
        self.bytes = b""

    def pictures(self):
        """Those that are whole, as bytes: each starts at the top left corner, and ends with the line of keys."""
        return [each for each in self.bytes.split(b"\033[H") if b"q quit" in each]

    def picture(self):
        """The last of them, as text."""
        pictures = self.pictures()
        return re.sub(r"\033\[\??[0-9]*[a-zA-Z]|\r", "", pictures[-1].decode()) if pictures else ""

    def read(self):
        while select.select([self.fd], [], [], 0.05)[0]:
            self.bytes += os.read(self.fd, 65536)

    def until(self, pattern, without=None):
        def is_there():
            self.read()
            return re.search(pattern, self.picture()) and not (without and without in self.picture())
        scrytest.wait_until(is_there, 20, lambda: f"{pattern} on the screen: {self.picture()}")

    def type(self, keys):
        os.write(self.fd, keys)

    def close(self):
        self.process.kill()
        self.process.wait(20 * scrytest.SCALE)
        os.close(self.fd)
