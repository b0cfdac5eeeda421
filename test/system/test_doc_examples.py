# SPDX-License-Identifier: Apache-2.0
"""Every shell example in README.md, doc/**/*.md and the man pages is run, and does what it says.

In Markdown an example is a block marked ```sh, in a man page's scdoc source any ``` block with lines that start with
"$ ". A block with such lines is a transcript: they are the commands (a line after one that ends with a backslash goes
on), the lines below each one what it prints, standard error included, where `...` stands for anything. A block without
them is a script. Every command has to succeed. The commands of a block are those of one shell, which may wait for what it
started or end it; blocks of one page run in order in one sandbox, so a page reads as one session; examples/ is there, scry and a compiler are in the PATH, and pkg-config finds
what `meson install` gives.

An example that cannot be run here says why, for the reader of the source, in the line before the block:

    <!-- skip: installs packages -->           in Markdown
    ; skip: needs a terminal                   in scdoc

It is then counted as skipped with that reason.
"""

import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import scrytest

FENCE = re.compile(r"^\s*```(\w*)\s*$")
SKIP = re.compile(r"^(?:<!--|;) skip: (.*?)(?: -->)?$")
MARK = "=== next command ==="
TIMEOUT = 150  # ranks that spin take turns where processors are wanted


class Block:
    """One example: where it is, its text, and why it is not run, if so."""

    def __init__(self, line, text, skip):
        self.line, self.text, self.skip = line, text, skip


def blocks_of(path):
    """The examples of a page."""
    found, opened, lines, skip = [], None, [], None
    manual = path.endswith(".scd")
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file.read().split("\n"), 1):
            fence = FENCE.match(line)
            if opened and fence:
                text = "\n".join(re.sub(r"\\(.)", r"\1", each) if manual else each for each in lines)
                if opened[1] == "sh" or (manual and re.search(r"^\$ ", text, re.M)):
                    found.append(Block(opened[0], text, skip))
                elif skip:
                    raise AssertionError(f"{path}:{opened[0]}: a skip before what is no example")
                opened, lines, skip = None, [], None
            elif opened:
                lines.append(line)
            elif fence:
                opened = (number, fence.group(1))
            elif SKIP.match(line):
                skip = SKIP.match(line).group(1)
            elif line.strip():
                skip = None
    return found


def steps_of(text):
    """[(command, what it prints or None when the page does not say)] of a block."""
    if not re.search(r"^\$ ", text, re.M):
        return [(text, None)]
    steps, more = [], False
    for line in text.split("\n"):
        if line.startswith("$ "):
            steps.append([line[2:], []])
        elif more:
            steps[-1][0] += "\n" + line
        elif steps:
            steps[-1][1].append(line)
        more = line.endswith("\\") and (line.startswith("$ ") or more)
    return [(command, "\n".join(lines).strip("\n") or None) for command, lines in steps]


def matches(shown, printed):
    """Whether output is as shown, `...` being anything."""
    pattern = ".*".join(re.escape(part.strip("\n")) for part in shown.split("..."))
    return re.fullmatch(pattern, printed.strip("\n"), re.S) is not None


class Examples(scrytest.TestCase):
    case_seconds = TIMEOUT

    """The methods are made below, one for each block."""

    boxes = {}
    installed = None

    def setUp(self):
        """The sandbox belongs to the page, not to the block."""

    @classmethod
    def tearDownClass(cls):
        for box in cls.boxes.values():
            box.close()
        shutil.rmtree(cls.installed or "", ignore_errors=True)

    @classmethod
    def pkg_config(cls):
        """Where pkg-config finds an installed scry."""
        if not cls.installed:
            cls.installed = tempfile.mkdtemp(prefix="scry", dir="/tmp")
            subprocess.run(["meson", "install", "-C", scrytest.BUILD, "--no-rebuild", "--quiet", "--destdir", cls.installed],
                           capture_output=True, check=True)
        options = scrytest.build_options()
        return {"PKG_CONFIG_SYSROOT_DIR": cls.installed,
                "PKG_CONFIG_PATH": f"{cls.installed}{options['prefix']}/{options['libdir']}/pkgconfig"}

    def sandbox(self, page):
        if page not in self.boxes:
            box = self.boxes[page] = scrytest.Sandbox()
            os.symlink(os.path.join(scrytest.BUILD, "examples"), box.path("work", "examples"))
            box.env.update(self.pkg_config())
            if scrytest.sanitizers():
                # What links a sanitized library has to be built like it.
                with open(box.path("bin", "cc"), "w", encoding="ascii") as file:
                    file.write(f'#!/bin/sh\nexec /usr/bin/cc {" ".join(scrytest.sanitizers())} "$@"\n')
                os.chmod(box.path("bin", "cc"), 0o755)
        return self.boxes[page]

    def run_block(self, page, block):
        if block.skip:
            self.skipTest(block.skip)
        box = self.sandbox(page)
        box.scry()
        steps = steps_of(block.text)
        script = "".join(f"{command}\nprintf '{MARK}'\n" for command, _ in steps)
        done = box.run(["sh", "-ec", script], timeout=TIMEOUT, merged=True)
        printed = done.stdout.split(MARK)
        last = steps[min(len(printed), len(steps)) - 1][0]
        self.assertEqual((done.returncode, len(printed)), (0, len(steps) + 1), f"{last}\n{printed[-1]}")
        for (command, shown), output in zip(steps, printed):
            if shown is not None:
                self.assertTrue(matches(shown, output), f"{command}\nprinted:\n{output}\nnot:\n{shown}")


class Reader(unittest.TestCase):
    """What decides whether the tests above test anything."""

    def test_transcript(self):
        text = "$ echo a \\\n    b\na b\n$ true\n\n$ x\n1\n...\n3"
        self.assertEqual(steps_of(text), [("echo a \\\n    b", "a b"), ("true", None), ("x", "1\n...\n3")])
        self.assertEqual(steps_of("echo a\necho b"), [("echo a\necho b", None)])

    def test_matches(self):
        self.assertTrue(matches("1\n...\n3", "1\n2\n2\n3\n"))
        self.assertTrue(matches("...exit status 3...", "job x ended: exit status 3\nmore"))
        self.assertTrue(matches("a", "a\n"))
        self.assertFalse(matches("a", "a\nb\n"))
        self.assertFalse(matches("a.c", "abc"))

    def test_there_are_examples(self):
        """At least one page of each kind has one that is run."""
        for pattern in ("README.md", "doc/tutorial/*.md", "doc/howto/*.md", "doc/man/*.scd"):
            pages = glob.glob(os.path.join(scrytest.SOURCE, pattern))
            self.assertTrue(any(not block.skip for page in pages for block in blocks_of(page)), pattern)


def add_pages():
    pages = glob.glob(os.path.join(scrytest.SOURCE, "doc", "**", "*.md"), recursive=True)
    pages += glob.glob(os.path.join(scrytest.SOURCE, "doc", "man", "*.scd"))
    for page in [os.path.join(scrytest.SOURCE, "README.md"), *sorted(pages)]:
        name = os.path.relpath(page, scrytest.SOURCE)
        for block in blocks_of(page):
            def test(self, page=page, block=block):
                self.run_block(page, block)

            setattr(Examples, f"test {name} {block.line:04}", test)


add_pages()
scrytest.main()
