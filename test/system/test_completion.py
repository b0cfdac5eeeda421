# SPDX-License-Identifier: Apache-2.0
"""Help, completion for bash, zsh and fish, and the man pages have what the table of options has; completion knows jobs and
services, too."""

import os
import re
import shutil
import sys

import scrytest

sys.path.insert(0, os.path.join(scrytest.SOURCE, "tools"))
import option_table

TABLE_FILE = scrytest.built("src/options", "options.txt")
TABLE = option_table.read(TABLE_FILE)[0]
SCRIPT, ZSH, FISH = (scrytest.built("doc", name) for name in ("scry", "_scry", "scry.fish"))
# Sources the script and completes the last word of the arguments, in a bash without the user's set-up.
COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_scry
((${#COMPREPLY[@]} == 0)) || printf '%s\\n' "${COMPREPLY[@]}"
"""


# What _scry hands to zsh's own functions, for a command line of these words.
ZSH_COMPLETE = """
_arguments() { print -rl -- "$@" }; _describe() { print -rl -- "${(@P)4}" }
script=$1; shift
source $script; words=("$@"); CURRENT=$#; _scry
"""

# Of scry run, described in its man page only.
EXPERTS = {"--anyway", "--buffer", "--mpi-distributions", "--mpi-metrics", "--mpi-resolution", "--overflow", "--part-of", "--read-by",
           "--tee-size"}


class Completion(scrytest.TestCase):
    def complete(self, *words):
        done = self.box.run(["bash", "--norc", "-c", COMPLETE, "bash", SCRIPT, "scry", *words])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_commands(self):
        self.assertEqual(self.complete("r"), ["run", "report", "replay", "rm", "record"])
        self.assertEqual(self.complete("doc"), ["doctor"])

    def commands(self):
        return set(TABLE)

    def options(self, command):
        return {option.name for option in TABLE[command].options}

    def test_commands_are_those_of_the_program(self):
        self.assertEqual({word for word in self.complete("") if not word.startswith("-")}, self.commands())

    def test_options_are_those_of_the_program(self):
        for command in self.commands():
            with self.subTest(command=command):
                offered = {word for word in self.complete(command, "--") if word != "--"}
                self.assertEqual(offered, self.options(command))

    def test_actions(self):
        self.assertEqual(self.complete("keys", ""), ["init", "issue", "revoke", "list", "show"])
        self.assertEqual(self.complete("keys", "re"), ["revoke"])
        with open(self.box.path("work", "ada.pem"), "w", encoding="ascii"):
            self.assertEqual(self.complete("keys", "show", "ad"), ["ada.pem"])

    def test_tasks(self):
        """By their ids and names, behind what is to be done with them."""
        self.assertEqual(self.complete("task", "sc"), ["scaling"])
        task, = self.box.run(self.box.scry("submit", "--by", "plain", "--wait", "--name", "ocean", "true")).stdout.split()
        self.assertEqual(self.complete("task", "show", ""), ["@last", task, "ocean"])
        self.assertEqual(self.complete("task", "compare", "ocean", task[:-1]), [task])

    def test_zsh(self):
        """The same commands and options; jobs by their ids and names."""
        if not shutil.which("zsh"):
            self.skipTest("there is no zsh")

        def complete(*words):
            done = self.box.run(["zsh", "-f", "-c", ZSH_COMPLETE, "zsh", ZSH, "scry", *words])
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return done.stdout.splitlines()

        self.assertEqual({line.partition(":")[0] for line in complete("")}, self.commands())
        for command in self.commands():
            offered = {found[1] for found in map(re.compile(r"^(?:\(.*?\))?(--[a-z-]+)\[").match, complete(command, "--")) if found}
            self.assertEqual(offered, self.options(command), command)
        self.assertIn("*:job:_scry_jobs", complete("report", ""))
        self.assertIn("*:task:_scry_tasks", complete("task", "show", ""))
        self.box.run(self.box.scry("submit", "--by", "plain", "--wait", "--name", "ocean", "true"))
        listed = self.box.run(["zsh", "-f", "-c", "compadd() { print -rl -- ${(P)2} }; source $1; _scry_tasks", "zsh", ZSH])
        self.assertEqual((listed.stdout.split()[::2], listed.stderr), (["@last", "ocean"], ""))

    def test_fish(self):
        if not shutil.which("fish"):
            self.skipTest("there is no fish")

        def complete(text):
            done = self.box.run(["fish", "--no-config", "-c", f"source {FISH}; complete -C '{text}'"])
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return {line.partition("\t")[0] for line in done.stdout.splitlines()}

        self.assertEqual(complete("scry "), self.commands())
        for command in self.commands():
            self.assertEqual(complete(f"scry {command} --"), self.options(command), command)
        self.assertEqual(complete("scry run --overflow f"), {"flight"})
        self.assertEqual(complete("scry set @last max-d"), {"max-depth="})
        self.box.run(self.box.scry("run", "-q", "--name", "ocean", "true"))
        self.assertEqual(complete("scry report oc"), {"ocean"})
        self.box.run(self.box.scry("submit", "--by", "plain", "--wait", "--name", "lake", "true"))
        self.assertEqual(complete("scry task show la"), {"lake"})

    def test_help(self):
        said = self.box.run(self.box.scry("--help")).stdout
        ours, plumbing = (re.findall(r"^  (\w+) ", part, re.M) for part in said.split("Commands:")[1].split("For launchers, sites and tools:"))
        self.assertEqual({*ours, *plumbing}, self.commands())
        self.assertEqual(set(plumbing), {"exec", "site", "record", "publish", "broker", "keys", "link", "monitor", "omis"})
        for command in self.commands():
            said = self.box.run(self.box.scry(command, "--help")).stdout
            experts = EXPERTS if command == "run" else set()
            self.assertEqual(set(re.findall(r"^ {2,6}(?:-\w, )?(--[a-z-]+)", said, re.M)), self.options(command) - experts, command)
            self.assertEqual(f"More options, which few need: scry-{command}(1)." in said, experts != set())
            if command == "run":  # it records functions unless it is told not to
                self.assertRegex(" ".join(said.split()), r"--trace SEL functions: [^()]*; off \(default: all, of the hottest the number\) --args ")

    def test_man_pages(self):
        """Each has every option of its command; what is not described, or not there, is an error of the build."""
        page = os.path.join(scrytest.SOURCE, "doc", "man", "scry-report.1.scd")
        with open(page, encoding="utf-8") as file:
            text = file.read()
        made = self.page(text)
        for option in self.options("report") - {"--help", "--json", "--record"}:  # of many commands: in scry(1)
            self.assertRegex(made.stdout, rf"(?m)^(?:\*-\w\*, )?\*{option}\*")
        self.assertTrue(made.stdout.startswith("scry-report(1)\n\n# NAME\n\nscry-report - show what a run was"))
        self.assertIn("\n*scry report* [*--json*] [*--process* _PID_] [*--rank* _N_] _JOB_\n", made.stdout)
        said = self.page("scry-report(1)\n\n# OPTIONS\n\n--json\n\n--process\n\t+ More.\n\n--record\n\tText.\n\n--rank\n").stdout
        self.assertIn("\n*--json*\n\tPrint JSON (doc/reference/report.schema.json).\n\n"
                      "*--process* _PID_\n\tOnly functions of this process. More.\n", said)
        self.assertIn("*--record* _URL_\n\tText.\n\n*--rank* _N_\n\tOnly this MPI rank", said)
        self.assertIn("nothing is said of --rank", self.page(text.replace("\n--rank\n", "\n")).stderr)
        self.assertIn("no option --ran", self.page(text.replace("\n--rank\n", "\n--ran\n")).stderr)

    def page(self, text):
        path = self.box.path("work", "scry-report.1.scd")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return self.box.run([os.path.join(scrytest.SOURCE, "tools", "man-page"), TABLE_FILE, path])

    def test_run_commands(self):
        self.assertIn("mpirun", self.complete("run", "mpiru"))
        self.assertIn("mpirun", self.complete("run", "--name", "x", "--", "mpiru"))
        self.assertEqual(self.complete("run", "--name", ""), [])
        self.assertIn("mpirun", self.complete("run", "--trace", "fn:x", "--args", "mpiru"))
        self.assertEqual(self.complete("run", "--overflow", "f"), ["flight"])

    def test_settings(self):
        self.assertEqual(self.complete("set", "@last", "max-d"), ["max-depth="])
        self.assertIn("mpirun", self.complete("exec", "mpiru"))

    def test_jobs(self):
        os.mkdir(self.box.path("jobs", "20260101-120000-host-1-abcd"))
        self.assertEqual(self.complete("report", "2026"), ["20260101-120000-host-1-abcd"])
        self.assertEqual(self.complete("top", "@"), ["@last"])
        self.box.run(self.box.scry("run", "-q", "--name", "ocean", "true"))
        self.assertEqual(self.complete("report", "oc"), ["ocean"])

    def test_services(self):
        self.assertIn("': proc_get_info(", self.complete("omis", "-c", "proc_get"))


scrytest.main()
