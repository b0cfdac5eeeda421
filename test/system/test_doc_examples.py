# SPDX-License-Identifier: Apache-2.0
"""Every shell example in README.md, doc/**/*.md and the man pages is run, and does what it says.

In Markdown an example is a block marked ```sh, in a man page's scdoc source any ``` block with lines that start with
"$ ". A block with such lines is a transcript: they are the commands (a line after one that ends with a backslash goes
on), the lines below each one what it prints, standard error included, where `...` stands for anything. A block without
them is a script. Every command has to succeed. The commands of a block are those of one shell, which may wait for what it
started or end it; blocks of one page run in order in one sandbox, so a page reads as one session; examples/ is there, scry
and a compiler are in the PATH, and pkg-config finds what `meson install` gives. Several pages run at a time: they wait most
of the time, and none has a port that another has.

An example that cannot be run here says why, for the reader of the source, in the line before the block:

    <!-- skip: installs packages -->           in Markdown
    ; skip: needs a terminal                   in scdoc

It is then counted as skipped with that reason. `; whole` there, in place of a reason, says that the block shows all that was
printed, once, on the host node7 to the user ann: ids, times, figures, directories and blanks are not compared (shape_of). A page whose first line is `<!-- needs: Slurm -->` has a private one.
"""

import concurrent.futures
import contextlib
import getpass
import glob
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

import mpitest
import scrytest
import slurmtest

FENCE = re.compile(r"^\s*```(\w*)\s*$")
SLURM = "<!-- needs: Slurm -->\n"
SKIP = re.compile(r"^(?:<!--|;) skip: (.*?)(?: -->)?$")
WHOLE = re.compile(r"^(?:<!--|;) whole(?: -->)?$")
HOST, USER = "node7", "ann"  # in what is shown whole
NUMBER = r"\d+(?:\.\d+)?(?: ?(?:ns|us|ms|s|min|h|B|KB|MB|GB|TB|%))?(?!\w)"
SHAPES = [(re.compile(pattern, re.M), word) for pattern, word in [
    (r"\d{8}T\d{6}-[\w.-]*", "ID"),
    (r"\w{3} \d+ \w{3} \d{4}, \d\d:\d\d:\d\d \w+", "TIME"),
    (r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?(?: UTC)?", "TIME"),
    (rf"\b(?:{re.escape(socket.gethostname())}|{HOST})\b", "HOST"),
    (rf"\b(?:{re.escape(getpass.getuser())}|{USER})\b", "USER"),
    (r'"/[^"]*"', '"/"'),
    (r"(?<![\w.)/])/[^\s:,;\"']*/", "/"),  # directories
    (r"[▁-█][▁-█ ]*", ""),
    (r"0x[0-9a-f]+|\b[0-9a-f]{12,}\b|(?<=token=)\S+", "HEX"),
    (r"(?<=[\w\]]):\d{4,5}\b", ":PORT"),
    (r"(?<=[ \t])[+-](?=\d)", ""),
    (rf"(?<!status )(?<!exit )(?<!rank )(?<!line )(?<![\w:.]){NUMBER}", "N"),
    (r"[ \t]+", " "),
    (r"N(?: N)+", "N"),
    # what was looked at just then
    (r"^ last | \(N processors busy\)|, N in all together|(?<=of CPU time), N", ""),
    (r"^ ?(?:N|end) node .*\n|(?<=^node HOST) .*", ""),
    (r"^ ?(?:N|end) (?=process|log|script|warning)", ""),
    (r"^ commands .*", " commands"),
    (r"^ ?warning .*\n", ""),
    (r"^ | $", ""),
]]
MARK = "=== next command ==="
AT_A_TIME = 3  # pages
CHECK = unittest.TestCase()
TIMEOUT = 150  # ranks that spin take turns where processors are wanted


class Block:
    """One example: where it is, its text, why it is not run, if so, and whether it shows all that was printed."""

    def __init__(self, line, text, skip, whole):
        self.line, self.text, self.skip, self.whole = line, text, skip, whole


def blocks_of(path):
    """The examples of a page."""
    found, opened, lines, skip, whole = [], None, [], None, False
    manual = path.endswith(".scd")
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file.read().split("\n"), 1):
            fence = FENCE.match(line)
            if opened and fence:
                text = "\n".join(re.sub(r"\\(.)", r"\1", each) if manual else each for each in lines)
                if opened[1] == "sh" or (manual and re.search(r"^\$ ", text, re.M)):
                    found.append(Block(opened[0], text, skip, whole))
                elif skip or whole:
                    raise AssertionError(f"{path}:{opened[0]}: what stands before it is of examples")
                opened, lines, skip, whole = None, [], None, False
            elif opened:
                lines.append(line)
            elif fence:
                opened = (number, fence.group(1))
            elif SKIP.match(line):
                skip = SKIP.match(line).group(1)
            elif WHOLE.match(line):
                whole = True
            elif line.strip():
                skip, whole = None, False
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


def shape_of(text):
    """Without what differs from run to run."""
    for pattern, word in SHAPES:
        text = pattern.sub(word, text)
    return text.strip("\n")


class Page:
    """A page, whose examples run in order in its sandbox; {line: future} of them, from when it is begun."""

    def __init__(self, path):
        self.path, self.blocks = path, blocks_of(path)
        self.name = os.path.relpath(path, scrytest.SOURCE)
        with open(path, encoding="utf-8") as file:
            self.needs_slurm = file.readline() == SLURM
        self.done = {}

    def begin(self, pool, environment):
        self.done = {block.line: concurrent.futures.Future() for block in self.blocks if not block.skip}
        if self.done:
            pool.submit(self.run, environment)

    def run(self, environment):
        with contextlib.ExitStack() as stack:
            try:
                box = self.make_sandbox(environment)
                stack.callback(box.close)
                if self.needs_slurm:
                    stack.callback(slurmtest.Slurm(box).close)
                for block in self.blocks:
                    if not block.skip:
                        self.run_block(box, block)
            except Exception as error:  # of the sandbox: no example can be run; also that there is no Slurm
                self.give_up(error)

    def give_up(self, error):
        for future in self.done.values():
            if not future.done():
                future.set_exception(error)

    @staticmethod
    def make_sandbox(environment):
        box = scrytest.Sandbox()
        Page.place_examples(box.path("work", "examples"))
        box.env.update({**environment, **mpitest.QUIET, "PROGRAMS": box.path("work", "examples")})
        if scrytest.sanitizers():
            # What links a sanitized library has to be built like it, and by the same compiler.
            with open(box.path("bin", "cc"), "w", encoding="ascii") as file:
                file.write(f'#!/bin/sh\nexec {shlex.join(scrytest.compiler())} {" ".join(scrytest.sanitizers())} "$@"\n')
            os.chmod(box.path("bin", "cc"), 0o755)
        return box

    @staticmethod
    def place_examples(folder):
        """What was built of examples/; where ranks wait for each other without end, so that others have the processor meanwhile."""
        quiet = {"mpi_deadlock": mpitest.example("mpi_deadlock", "openmpi")} if mpitest.available("openmpi") else {}
        os.mkdir(folder)
        for entry in os.scandir(scrytest.example("")):
            os.symlink(quiet.get(entry.name, entry.path), os.path.join(folder, entry.name))

    def run_block(self, box, block):
        future = self.done[block.line]
        try:
            box.scry()
            check_block(box, block)
            future.set_result(None)
        except Exception as error:
            future.set_exception(error)


def check_block(box, block):
    """Runs an example and compares what it prints."""
    steps = steps_of(block.text)
    script = "".join(f"{command}\nprintf '{MARK}'\n" for command, _ in steps)
    done = box.run(["sh", "-ec", script], timeout=TIMEOUT, merged=True)
    printed = done.stdout.split(MARK)
    last = steps[min(len(printed), len(steps)) - 1][0]
    CHECK.assertEqual((done.returncode, len(printed)), (0, len(steps) + 1), f"{last}\n{printed[-1]}")
    for (command, shown), output in zip(steps, printed):
        if block.whole:
            CHECK.assertEqual(shape_of(shown or "").split("\n"), shape_of(output).split("\n"), f"{command}\nprinted:\n{output}")
        elif shown is not None:
            CHECK.assertTrue(matches(shown, output), f"{command}\nprinted:\n{output}\nnot:\n{shown}")


class Examples(unittest.TestCase):
    """The methods are made below, one for each block: it waits until the page's thread has run it."""

    case_seconds = 2 * TIMEOUT

    @classmethod
    def setUpClass(cls):
        installed = tempfile.mkdtemp(prefix="scry", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, installed, ignore_errors=True)
        subprocess.run(["meson", "install", "-C", scrytest.BUILD, "--no-rebuild", "--quiet", "--destdir", installed],
                       capture_output=True, check=True)
        options = scrytest.build_options()
        cls.environment = {"PKG_CONFIG_SYSROOT_DIR": installed,
                           "PKG_CONFIG_PATH": f"{installed}{options['prefix']}/{options['libdir']}/pkgconfig"}
        cls.pool = concurrent.futures.ThreadPoolExecutor(AT_A_TIME)
        cls.addClassCleanup(cls.pool.shutdown, cancel_futures=True)
        # Where only some are run, a page is begun with its first.
        if not os.environ.get("SCRY_TEST_ONLY") and not sys.argv[1:]:
            for page in PAGES:
                page.begin(cls.pool, cls.environment)

    def run_block(self, page, block):
        if block.skip:
            self.skipTest(block.skip)
        if not page.done:
            page.begin(self.pool, self.environment)
        page.done[block.line].result()


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

    def test_shape(self):
        shown = "scry: job 20261120T131603-node7-3651-4917 ended\n  time  wall 19.2 s, 1 KB  /home/ann/x/job.sh:25 exit 3\n cpu  ▂█ █ up"
        printed = shown.replace("19.2 s", "2 min 1 s").replace("3651", "1").replace("/home/ann/x", "/tmp").replace("▂█ █", "▁")
        self.assertEqual(shape_of(shown), shape_of(printed))
        for old, new in (("exit 3", "exit 4"), (":25", ":26"), ("ended", "runs"), ("job.sh", "x.sh")):
            self.assertNotEqual(shape_of(shown), shape_of(shown.replace(old, new)), new)

    def test_every_command_has_a_whole_output(self):
        pages = [page for page in PAGES if re.search(r"/scry-\w+\.1\.scd$", page.path)]
        self.assertGreater(len(pages), 20)
        self.assertEqual([page.name for page in pages if not any(block.whole for block in page.blocks)], [])

    def test_there_are_examples(self):
        """At least one page of each kind has one that is run."""
        for pattern in ("README.md", "doc/tutorial/*.md", "doc/howto/*.md", "doc/man/*.scd"):
            pages = glob.glob(os.path.join(scrytest.SOURCE, pattern))
            self.assertTrue(any(not block.skip for page in pages for block in blocks_of(page)), pattern)


def all_pages():
    found = glob.glob(os.path.join(scrytest.SOURCE, "doc", "**", "*.md"), recursive=True)
    found += glob.glob(os.path.join(scrytest.SOURCE, "doc", "man", "*.scd"))
    return [Page(path) for path in [os.path.join(scrytest.SOURCE, "README.md"), *sorted(found)]]


PAGES = all_pages()
for each in PAGES:
    for one in each.blocks:
        def test(self, page=each, block=one):
            self.run_block(page, block)

        setattr(Examples, f"test {each.name} {one.line:04}", test)
scrytest.main()
