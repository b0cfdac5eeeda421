# SPDX-License-Identifier: Apache-2.0
"""--script: where shell scripts are. Each script tells what it is at by fifos, so that it is there when it is looked at."""

import json
import os

import schematest
import scrytest
from jobtest import JobCase
from scrytest import wait_until


ENDED = "ended"


def may_look():
    """Where the kernel lets one look into processes that are not one's children."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:
            return file.read().strip() == "0" or os.geteuid() == 0
    except FileNotFoundError:
        return True


MAY_LOOK = may_look()


def lines(inner, outer):
    """The line of the simple command where bash may be asked for it, else the lines of the whole command."""
    return (inner, None) if MAY_LOOK else outer


class Scripts(JobCase):
    job = None
    jobs = 0

    def records(self, *types):
        path = self.job or json.loads(self.scry("ps", "--json").stdout)["jobs"][0]["path"]
        with open(os.path.join(path, "spool", "records.jsonl"), encoding="utf-8") as file:
            records = [json.loads(line) for line in file if line.endswith("\n")]
        records = [record for record in records if record["type"] in ("script_line", "script_end")]
        return [record for record in records if not types or record["type"] in types]

    def script(self, text, name="script.sh", mode=0o755):
        path = self.box.path("work", name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def places(self, file=None):
        return [(record["line"], record["last_line"]) for record in self.records("script_line")
                if file is None or record["file"] == file]

    def follow(self, text, places, command=(), name="script.sh", status=0, **options):
        """Runs a script that reads a line of the fifo "go" at each of these places; returns its records."""
        go = self.box.path("work", "go")
        if not os.path.exists(go):
            os.mkfifo(go)
        path = self.script(text, name)
        self.jobs += 1
        self.job = self.box.path("work", f"job{self.jobs}")
        run = self.start_run("-q", "--sample", "0.05", "-o", self.job, "--", *(command or (path,)), **options)
        wait_until(lambda: os.path.exists(os.path.join(self.job, "spool", "records.jsonl")))
        for place in places:
            wait_until(lambda: self.records("script_end") if place == ENDED else place in self.places(path))
            with open(go, "w", encoding="ascii") as file:
                file.write("go\n")
        self.assertEqual(run.wait(), status)
        schema = schematest.schema("records")
        lines = self.scry("watch", "--json", "--stream", "script", self.job).stdout.splitlines()
        for record in map(json.loads, lines):
            self.assertEqual(list(schematest.violations(record, schema)), [], record)
        return self.records()

    def test_outside(self):
        """Commands of several lines, functions, a sourced file, built-in commands, the end."""
        self.script("cat go\n", "other.sh")
        text = """#!/bin/bash
f() {
  cat go
}
cat go
if true; then
  f
fi
cat <<END
$(cat go)
END
(cat go; :)
. ./other.sh
cat go
exit 3
"""
        path = self.box.path("work", "script.sh")
        records = self.follow(text, [(5, None), lines(3, (6, 8)), lines(9, (9, 11)), (12, None), (13, 15), (14, None)], status=3)
        first = records[0]
        self.assertEqual((first["file"], first["command"], first["language"], first["how"]), (path, "cat go", "bash", "outside"))
        commands = {record["line"]: record.get("command") for record in records if record["type"] == "script_line"}
        inner = {3: "cat go", 9: "cat <<END"} if MAY_LOOK else {6: "if true; then ...", 9: "cat <<END ..."}
        wanted = {5: "cat go", 12: "(cat go; :)", 13: None, 14: "cat go", **inner}
        if MAY_LOOK and commands.get(9) == "cat <<END ...":  # of a look that came before its memory could be read
            wanted[9] = commands[9]
        self.assertEqual({line: command for line, command in commands.items() if line in wanted}, wanted)
        self.assertLessEqual(set(commands), {2, 3, 5, 6, 7, 9, 12, 13, 14, 15})  # a look may come between two of the places
        end = records[-1]
        self.assertEqual((end["type"], end["file"], end["status"]), ("script_end", path, 3))
        self.assertEqual({line["line"] for line in end["lines"]}, set(commands))
        self.assertLessEqual(sum(line["seconds"] for line in end["lines"]), end["seconds"] + 0.1)

    def test_functions(self):
        """Lines within functions, of the innermost one, and in loops."""
        text = """inner() { cat go; }
outer() {
  for i in 1; do
    true
    cat   go \\
      2>&1
    inner
  done
}
outer "$@"
cat go
nested() { (cat go; :); }
nested
true
"""
        if not MAY_LOOK:
            self.skipTest("one may not look into processes that are not one's children (ptrace_scope)")
        records = self.follow(text, [(5, None), (1, None), (11, None), (13, None)], ("bash", "script.sh"))
        self.assertEqual([(record["line"], record.get("function"), record["command"]) for record in records
                          if record["type"] == "script_line"],
                         [(5, "outer", "cat   go \\"), (1, "inner", "inner() { cat go; }"), (11, None, "cat go"),
                          (13, None, "nested")])

    def test_ways_to_start(self):
        """By the shell's name, from standard input, removed meanwhile, without a first line, and inside of another script."""
        path = self.box.path("work", "script.sh")
        two = "true\ncat go\nrm -f script.sh\ncat go\ntrue\n"
        for command in (("bash", "script.sh"), ("bash", "-eo", "pipefail", "script.sh", "x"), ("bash", "-c", "./script.sh; true")):
            with self.subTest(command):
                self.follow(two, [(2, None), (4, None)], command)
        with self.subTest("standard input"), open(self.script("true\ncat go\ntrue\n", "input.sh"), encoding="ascii") as script:
            self.follow("true\ncat go\ntrue\n", [(2, None)], ("bash",), "input.sh", stdin=script)
        with self.subTest("inside"):
            outer = self.script("true\n\nbash ./script.sh\ntrue\n", "outer.sh")
            records = self.follow(two, [(2, None), (4, None)], ("bash", "outer.sh"))
            self.assertIn((3, None), self.places(outer))
            self.assertEqual([record["file"] for record in records if record["type"] == "script_end"], [path, outer])

    def test_dash(self):
        """Of dash the script is known, not the line."""
        records = self.follow("cat go\nexit 5\n", [(None, None)], ("dash", "script.sh"), status=5)
        self.assertEqual([(record["type"], record.get("language"), record.get("status")) for record in records],
                         [("script_line", "sh", None), ("script_end", None, 5)])

    def test_no_scripts(self):
        """Commands of -c, subshells and pipes are no scripts; off looks at none."""
        self.scry_run("-q", "--sample", "0.05", "--", "bash", "-c", "(sleep 0.2; true) | cat; true")
        self.assertEqual(self.records(), [])
        self.scry_run("-q", "--sample", "0.05", "--script", "off", "--", self.script("#!/bin/bash\nsleep 0.2\ntrue\n"))
        self.assertEqual(self.records(), [])

    def test_exec(self):
        """A script that becomes another program has ended; its status is not known."""
        records = self.follow("cat go\nexec cat go\n", [(1, None), ENDED], ("bash", "script.sh"))
        self.assertEqual([record["status"] for record in records if record["type"] == "script_end"], [None])


scrytest.main()
