# SPDX-License-Identifier: Apache-2.0
"""tools/check-layers: the tree keeps the rules, and each kind of violation is found, with file and line. And the page of
promises names tests that are there."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import scrytest  # noqa: E402

TOOL = os.path.join(scrytest.SOURCE, "tools", "check-layers")
SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"


LOADER = importlib.machinery.SourceFileLoader("check_layers", TOOL)
LAYERS = importlib.util.module_from_spec(importlib.util.spec_from_loader(LOADER.name, LOADER))
LOADER.exec_module(LAYERS)


def check(root):
    """What the tool returns and prints; in this process, for it is asked a hundred times."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = LAYERS.main(root, False)
    return subprocess.CompletedProcess([TOOL, root], status, printed.getvalue())


class Layers(unittest.TestCase):
    def refused(self, path, text, expected):
        """A tree with only this file is refused with `expected` in the message."""
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.dirname(os.path.join(root, path)))
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
            done = check(root)
            if expected is None:
                self.assertEqual((done.returncode, done.stdout), (0, ""))
            else:
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(expected, done.stdout)

    def test_files_that_are_named(self):
        named = SPDX + "/* As in lang/nothing.c. */\n"
        self.refused("src/lang/x.c", named, "src/lang/x.c:2: there is no lang/nothing.c")
        self.refused("doc/x.md", "See `lang/nothing.c`.\n", "doc/x.md:1: there is no lang/nothing.c")
        self.refused("src/lang/x.c", SPDX + "/* As in lang/x.h, lang/x.c. */\n", None)

    def test_tree(self):
        done = check(scrytest.SOURCE)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_upward_include(self):
        self.refused("src/monitor/engine/x.c", SPDX + '#include "service/omis/y.h"\n',
                     'src/monitor/engine/x.c:2: includes "service/omis/y.h": monitor/engine/ may include lang')
        self.refused("src/monitor/engine/x.c", SPDX + '#include "monitor/mpi/y.h"\n', "not monitor/mpi/")
        self.refused("src/monitor/x.c", SPDX, "no such room")

    def test_downward_include(self):
        self.refused("src/service/omis/x.c", SPDX + '#include "monitor/engine/y.h"\n#include <stdio.h>\n', None)

    def test_one_place_for_one_concept(self):
        """Small files, and headers for one user, do not become more; tests do not count."""
        tool = open(TOOL, encoding="utf-8").read()
        lone, small = (int(number) for number in re.search(r"SMALL_FILES_MOST = (\d+), \d+, (\d+)", tool).groups())
        with tempfile.TemporaryDirectory() as root:
            folder = os.path.join(root, "src", "lang")
            os.makedirs(folder)

            def write(name, lines):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(SPDX + "\n" * lines)

            for number in range(max(lone, small)):
                write(f"x{number}.c", 9 if number < small else 90)
                write(f"test_y{number}.c", 9)
            for number in range(lone):
                write(f"x{number}.h", 90)
            self.assertEqual(check(root).stdout, "")
            write("z.h", 9)
            self.assertEqual([line.split(":")[2].split()[0] for line in check(root).stdout.splitlines()], [str(lone + 1), str(small + 1)])

    def test_drawn(self):
        done = subprocess.run([sys.executable, TOOL, "--draw", scrytest.SOURCE], capture_output=True, text=True, check=True)
        rooms = [line.split()[0] for line in done.stdout.splitlines()]
        self.assertLess(rooms.index("base/data"), rooms.index("cli/main"))
        self.assertRegex(done.stdout, r"(?m)^cli/main .*\bjob/run \d")
        self.assertRegex(done.stdout.splitlines()[-1], r"^\d+ files, \d+ lines; \d+ headers ")

    def test_unit_tests_are_exempt(self):
        self.refused("src/lang/test_x.c", SPDX + '#include "daemon/y.h"\n', None)

    def test_reserved_header(self):
        self.refused("src/monitor/engine/x.c", SPDX + "#  include <jansson.h>\n", "includes <jansson.h>: only")
        self.refused("src/service/omis/x.c", SPDX + "#include <sys/ptrace.h>\n", "the tracer owns")
        self.refused("src/monitor/engine/x.c", SPDX + "#include <elfutils/libdw.h>\n", "only symbols, probe, tracer")

    def test_inside_the_users_process(self):
        self.refused("src/shm/x.c", SPDX + "#include <stdlib.h>\n", "freestanding")
        self.refused("src/agent/hooks/x.c", SPDX + "#include <stdio.h>\n", "inside the user's process")

    def test_roomless_and_unknown(self):
        self.refused("src/base/data/x.c", SPDX + '#include "buf.h"\n', 'write it with its room: "base/data/buf.h"')
        self.refused("src/base/data/x.c", SPDX + '#include "../shm/code.h"\n', "without ..")
        self.refused("src/base/data/x.c", SPDX + "#include <shm/code.h>\n", "angle brackets")
        self.refused("src/base/data/x.c", SPDX + '#include "attic/old.h"\n', "there is no room attic/")
        self.refused("src/attic/x.c", SPDX, "no such room")

    def test_extensions_and_installed_headers(self):
        self.refused("ext/pa/x.c", SPDX + '#include "monitor/engine/y.h"\n', "only the installed headers")
        self.refused("ext/pa/x.c", SPDX + "#include <scry/ext.h>\n", None)
        self.refused("include/scry/x.h", SPDX + '#include "base/data/buf.h"\n', "installed headers include each other")

    def test_files_are_written_in_one_place(self):
        for call in ('open(path, O_WRONLY | O_CREAT, 0600)', "openat(dir, name,\n O_RDWR)", "open(path, flags)", "creat(path, 0600)",
                     'fopen(path, "w")', 'fopen(path, "re+")', 'fopen(path, mode)', 'freopen(path, "a", file)', "mkstemp(path)",
                     "mkostemps(path, 2, 0)", "rename(from, to)", "renameat2(a, b, c, d, 0)", "link(from, to)", "symlinkat(a, b, c)",
                     "truncate(path, 0)", "syscall(SYS_openat, at, path, O_WRONLY)", "syscall(SYS_rename, from, to)",
                     'sys_call4(SYS_openat, AT_FDCWD, (long)path, O_RDWR, 0)', 'json_dump_file(json, path, 0)'):
            for room in ("src/base/system", "ext/pa"):
                self.refused(f"{room}/x.c", SPDX + f"int x = {call};\n", f"{room}/x.c:2: calls ")
        for call in ('open(path, O_RDONLY | O_CLOEXEC)', 'fopen("/proc/x", "re")', 'open("/dev/null", O_RDWR)', "reopen(path, 1)", "x->open(path, how)",
                     "syscall(SYS_gettid)", "openat(at, name, O_PATH)", "unlink(path)", 'dlopen(path, 1)'):
            self.refused("src/base/system/x.c", SPDX + f"int x = {call}; /* open(path, O_RDWR) */\n", None)
        self.refused("src/base/system/test_x.c", SPDX + "int x = creat(path, 0600);\n", None)
        two = "int x = open(path, O_WRONLY);\n" * 2
        self.refused("src/tracer/requests.c", SPDX + two, "src/tracer/requests.c:3: calls open")
        self.refused("src/tracer/requests.c", SPDX, "src/tracer/requests.c:1: opens 0 files, and tools/check-layers allows 1")

    def test_files_of_jobs_are_read_in_one_place(self):
        for text in ("int x = open(path, O_RDONLY | O_CLOEXEC);", 'FILE *x = fopen(path, "re");', "int x = openat(dir, name, O_RDONLY);"):
            self.refused("src/jobdir/trace/trace.c", SPDX + text, "files of a job are read with base/system/file.h")
            self.refused("src/web/view/lane.c", SPDX + text, "files of a job are read with base/system/file.h")
            self.refused("src/probe/proc.c", SPDX + text, None)
        for text in ("int x = openat(at, name, O_RDONLY | O_DIRECTORY);", 'int x = open("/proc/self/maps", O_RDONLY);', "int x = file_open_own(at, name, O_RDONLY);"):
            self.refused("src/jobdir/trace/trace.c", SPDX + text, None)
        self.refused("src/cli/why/processes.c", SPDX, "opens 0 files to read, and tools/check-layers allows 1")

    def test_sentences(self):
        for call in ('strstr(note, "not traced")', 'strncmp(why,\n "no monitor runs", 15)', 'strcmp(f("a, (b"), " of it")'):
            self.refused("src/job/run/x.c", SPDX + f"bool x = {call};\n", "src/job/run/x.c:2: looks for")
        self.refused("src/job/run/x.c", SPDX + 'bool x = strcmp(kind, "gap") == 0; /* strstr(text, "a b") */ f("a b");\n', None)
        self.refused("src/job/run/test_x.c", SPDX + 'bool x = strstr(note, "not traced");\n', None)
        self.refused("src/job/run/x.c", SPDX + "bool x = *text == '\"' && strstr(note, \"not traced\") && f('(');\n", "looks for")

    def test_limits_of_time(self):
        told = "src/lang/x.c:2: LOOK_MS is a limit of time: it belongs in src/shm/waits.h"
        for text in ("enum { LOOK_MS = 20, TRIES = 3 };", "#define LOOK_MS 20 /* between two */",
                     "enum {\n    LOOK_MS =\n        20, /* between two */\n};"):
            self.refused("src/lang/x.c", SPDX + text + "\n", told.replace(":2:", ":3:" if "{\n" in text else ":2:"))
        self.refused("src/lang/x.c", SPDX + "static const uint64_t REST_NS = NS_PER_SECOND / 5;\n", "REST_NS is a limit")
        self.refused("src/lang/x.c", SPDX + "static const uint64_t rest_ns = 2ull * NS_PER_SECOND;\n", "rest_ns is a limit")
        for fine in ("const uint64_t now_ns = clock_now_ns();", "static const uint64_t REST_NS = REST_MS * UINT64_C(1000000);", "enum { NS_PER_MS = 1000000 };",
                     "#define REST_NS (REST_MS * NS_PER_MS)", "/* LOOK_MS = 20 */", "bool is = LOOK_MS == 20;"):
            self.refused("src/lang/x.c", SPDX + fine + "\n", None)
        self.refused("src/lang/test_x.c", SPDX + "enum { LOOK_MS = 20 };\n", None)
        self.refused("src/shm/waits.h", SPDX + "#define LOOK_MS 20\n", None)

    def test_licence_line(self):
        self.refused("src/base/data/x.c", "int x;\n", "src/base/data/x.c:1: no line 'SPDX-License-Identifier")
        self.refused("tools/x", "#!/bin/sh\n", "tools/x:1: no line")


class Registration(unittest.TestCase):
    def test_every_test_file_is_registered(self):
        """A test that meson does not know of is never run."""
        for folder in ("system", "project"):
            path = os.path.join(scrytest.SOURCE, "test", folder)
            with open(os.path.join(path, "meson.build"), encoding="utf-8") as file:
                listed = set(re.findall(r"'(test_\w+)'", file.read()))
            found = {name[:-3] for name in os.listdir(path) if name.startswith("test_") and name.endswith(".py")}
            self.assertEqual(found - listed, set(), f"not in test/{folder}/meson.build")
            self.assertEqual(listed - found, set(), f"listed in test/{folder}/meson.build but not there")


class Promises(unittest.TestCase):
    def test_have_tests(self):
        """What doc/explain/promises.md and security.md name is there."""
        named = []
        for page in ("promises.md", "security.md"):
            with open(os.path.join(scrytest.SOURCE, "doc", "explain", page), encoding="utf-8") as file:
                found = re.findall(r"`((?:\w+/)*test_[\w.]+)`", file.read())
            self.assertGreater(len(found), 20, page)
            named += found
        for name in named:
            with self.subTest(name=name):
                if name.endswith(".c"):
                    self.assertTrue(os.path.exists(os.path.join(scrytest.SOURCE, "src", name)))
                    continue
                program, case, *method = name.split(".")
                with open(os.path.join(scrytest.SOURCE, "test", "system", f"{program}.py"), encoding="utf-8") as file:
                    text = file.read()
                self.assertRegex(text, rf"(?m)^class {case}\b")
                for test in method:
                    self.assertRegex(text, rf"(?m)^    def {test}\(")


scrytest.main()
