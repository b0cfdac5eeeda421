# SPDX-License-Identifier: Apache-2.0
"""`meson install` gives everything that users and other people's programs need, and they can be built against it."""

import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import scrytest  # noqa: E402

TOOL = r"""
#include <omis.h>
#include <stdio.h>

static int errors;

static void on_error(Omis_reply reply)
{
    errors++;
    omis_reply_free(reply);
}

/* No monitor runs here and none may be started: an error status, and no crash. */
int main(int argc, char **argv)
{
    Omis_status status = omis_init(&argc, &argv, on_error, NULL);
    printf("%d %d\n", status >= OMIS_FIRST_ERROR, argc);
    return 0;
}
"""

EXTENSION = r"""
#include <scry/ext.h>

static void run(struct scry_call *call)
{
    scry_result_integer(call, NULL, 42);
}

static const struct scry_service service = {
    .name = "hi_answer", .kind = SCRY_INFORMATION, .signature = "-> integer", .run = run, .doc = "The answer."};

SCRY_EXT_API int hi_register(void);
int hi_register(void)
{
    return scry_register_service(&service);
}
"""


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="scry", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root)
        cls.options = scrytest.build_options()
        done = subprocess.run(["meson", "install", "-C", scrytest.BUILD, "--no-rebuild", "--quiet", "--destdir", cls.root],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        cls.prefix = cls.root + cls.options["prefix"]
        cls.libdir = os.path.join(cls.prefix, cls.options["libdir"])

    def installed(self, *parts):
        path = os.path.join(self.prefix, *parts)
        self.assertTrue(os.path.exists(path), f"{os.path.join(*parts)} is not installed")
        return path

    def compile(self, source, output, *options):
        """As a sanitized build is, where libomis is one."""
        path = os.path.join(self.root, output)
        with open(path + ".c", "w", encoding="utf-8") as file:
            file.write(source)
        flags = ["-std=c17", "-Wall", "-Wextra", "-Werror", *scrytest.sanitizers()]
        done = subprocess.run([*scrytest.compiler(), *flags, "-o", path, path + ".c", *options],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def pkg_config(self, *arguments):
        env = {**os.environ, "PKG_CONFIG_PATH": os.path.join(self.libdir, "pkgconfig"),
               "PKG_CONFIG_SYSROOT_DIR": self.root}
        return subprocess.run(["pkg-config", *arguments], env=env, capture_output=True, text=True,
                              check=True).stdout.split()

    def test_files(self):
        libdir = self.options["libdir"]
        self.installed("bin", "scry")
        self.installed("include", "omis.h")
        self.installed("include", "scry", "ext.h")
        self.installed("include", "scry", "agent.h")
        self.installed("include", "scry", "omis.h")
        self.installed(libdir, "scry", "libscry-agent.so")
        self.installed(libdir, "libomis.so")
        self.installed(libdir, "pkgconfig", "omis.pc")
        self.installed(libdir, "pkgconfig", "scry.pc")
        for name in ("scry-monitor", "scry-tracer", "scry-symbols"):
            path = self.installed(self.options["libexecdir"], "scry", name)
            self.assertTrue(os.access(path, os.X_OK), path)
        for name in ("scry-task", "scry-condor-wrapper"):
            path = self.installed(self.options["libexecdir"], "scry", name)
            self.assertTrue(os.access(path, os.X_OK), path)
        if os.path.exists(os.path.join(scrytest.BUILD, "src", "batch", "scry_spank.so")):
            self.installed(libdir, "scry", "scry_spank.so")
        for name in ("filter", "null", "pa", "temp"):
            self.installed(libdir, "scry", "ext", f"scry_ext_{name}.so")
        self.installed("share", "bash-completion", "completions", "scry")
        self.installed("share", "zsh", "site-functions", "_scry")
        self.installed("share", "fish", "vendor_completions.d", "scry.fish")

    def test_man_pages(self):
        for source in glob.glob(os.path.join(scrytest.SOURCE, "doc", "man", "*.scd")):
            page = os.path.basename(source)[: -len(".scd")]
            self.installed("share", "man", "man" + page.rsplit(".", 1)[1], page)

    def test_documentation(self):
        """How-tos, references and schemas, in folders as here: links between pages lead somewhere."""
        for folder in ("tutorial", "howto", "reference", "explain"):
            for source in glob.glob(os.path.join(scrytest.SOURCE, "doc", folder, "*")):
                self.installed("share", "doc", "scry", folder, os.path.basename(source))
        self.installed("share", "doc", "scry", "README.md")
        self.installed("share", "doc", "scry", "reference", "report.schema.json")

    def test_example_tools(self):
        """Compiled, and as sources that can be compiled as the how-to says."""
        for name in ("breakpoints", "sampler", "messages", "distributed"):
            self.installed(self.options["libexecdir"], "scry", "examples", name)
            for source in (name + ".c", "tool.c", "tool.h", "symbols.c"):
                self.installed("share", "doc", "scry", "examples", source)

    def test_program_runs_where_it_was_installed(self):
        done = subprocess.run([self.installed("bin", "scry"), "--version"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, f"scry {self.version()}\n"), done.stderr)

    def version(self):
        with open(os.path.join(scrytest.BUILD, "meson-info", "intro-projectinfo.json"), encoding="utf-8") as file:
            return json.load(file)["version"]

    def test_tool_against_the_library(self):
        flags = self.pkg_config("--cflags", "--libs", "omis")
        tool = self.compile(TOOL, "tool", *flags)
        env = {**os.environ, "LD_LIBRARY_PATH": self.libdir, "SCRY_RUNTIME_DIR": os.path.join(self.root, "run")}
        done = subprocess.run([tool, "--omis-no-start", "own"], env=env, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "1 2\n"), done.stderr)

    def stop_monitor(self):
        try:
            with open(os.path.join(self.root, "run", "monitor.pid"), encoding="ascii") as file:
                pid = int(file.read().split()[0])
            os.kill(pid, signal.SIGTERM)
        except (FileNotFoundError, ProcessLookupError):
            return
        scrytest.wait_until(lambda: scrytest.process_gone(pid))

    def test_traces_where_it_was_installed(self):
        """The installed program finds its library, its monitor and what reads symbols."""
        source = "static int f(int a) { return a + 1; } int main(void) { return f(1) - 2; }"
        program = self.compile(source, "traced", "-g", "-finstrument-functions")
        env = {"PATH": os.environ["PATH"], "HOME": self.root, "SCRY_RUNTIME_DIR": os.path.join(self.root, "run")}
        self.addCleanup(self.stop_monitor)
        scry = self.installed("bin", "scry")
        done = subprocess.run([scry, "run", "-q", "-o", os.path.join(self.root, "job"), "--trace", "fn:f", "--", program],
                              env=env, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        done = subprocess.run([scry, "report", "--json", os.path.join(self.root, "job")], env=env, capture_output=True,
                              text=True, check=False)
        self.assertEqual([(each["name"], each["calls"]) for each in json.loads(done.stdout)["functions"]], [("f", 1)])

    def test_agent_header(self):
        """For programs that annotate themselves: C and C++, and nothing to link."""
        source = "#include <scry/agent.h>\nint main(void) { scry_mark(\"x\"); scry_trace_off(); scry_trace_on(); return 0; }\n"
        program = self.compile(source, "annotated", "-I", os.path.join(self.prefix, "include"))
        self.assertEqual(subprocess.run([program], check=False).returncode, 0)

    def test_extension_against_the_header(self):
        flags = self.pkg_config("--cflags", "scry")
        self.compile(EXTENSION, "scry_ext_hi.so", "-shared", "-fPIC", *flags)
        self.assertEqual(self.pkg_config("--variable=extdir", "scry"),
                         [self.root + os.path.join(self.options["prefix"], self.options["libdir"], "scry", "ext")])

    def test_header_is_plain_c(self):
        """A program with the printed text of the specification may be C90 or C++; scry's own additions want C99."""
        path = os.path.join(self.root, "plain.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write('#include <omis.h>\nint main(void) { return OMIS_OK; }\n')
        for language in (["-x", "c", "-std=c90", "-pedantic-errors"], ["-x", "c", "-std=c17"]):
            done = subprocess.run(["cc", *language, "-I", os.path.join(self.prefix, "include"), "-fsyntax-only", path],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
        for language in ("c99", "c++"):
            done = subprocess.run(["cc", "-x", language.rstrip("9"), *(["-std=c99"] if language == "c99" else []), "-Wall",
                                   "-Werror", "-pedantic-errors", "-I", os.path.join(self.prefix, "include"), "-include",
                                   "scry/omis.h", "-fsyntax-only", path], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)


scrytest.main()
