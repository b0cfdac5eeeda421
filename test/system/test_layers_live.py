# SPDX-License-Identifier: Apache-2.0
"""`scry watch`, `top` and `ps` of a job that runs: where each of its layers is now. The records are written by the test."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios

import schematest
import scrytest
from jobtest import JobCase
from scrytest import wait_until


class Terminal:
    """What a program writes to a terminal of 80 columns."""

    def __init__(self, box, *arguments, rows=24):
        self.main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))
        self.text = ""
        self.process = box.start(box.scry(*arguments), env={"TERM": "xterm", "NO_COLOR": ""}, stdin=side, stdout=side, stderr=side)
        os.close(side)

    def read_more(self):
        """False: it has ended."""
        if select.select([self.main], [], [], 0.1)[0]:
            try:
                more = os.read(self.main, 65536)
            except OSError:
                return False
            self.text += more.decode(errors="replace")
            return bool(more)
        return True

    def expect(self, pattern):
        wait_until(lambda: (self.read_more() or True) and re.search(pattern, self.text), message=pattern)

    def finish(self):
        while self.read_more():
            continue
        os.close(self.main)
        return self.process.wait()


class Layers(JobCase):
    def setUp(self):
        super().setUp()
        os.mkfifo(self.box.path("work", "go"))
        self.run_process = self.start_run("-q", "--sample", "1000", "--", "sh", "-c", f"read x <{self.box.path('work', 'go')}",
                                          stderr=subprocess.DEVNULL)
        wait_until(lambda: self.process() is not None)

    def job(self):
        return json.loads(self.scry("ps", "--json").stdout)["jobs"][0]

    def process(self):
        jobs = json.loads(self.scry("ps", "--json").stdout)["jobs"]
        return jobs[0]["processes"][0]["pid"] if jobs and jobs[0].get("processes") else None

    def put(self, *records):
        """Appends records as scry run does."""
        with open(os.path.join(self.job()["path"], "spool", "records.jsonl"), "a", encoding="utf-8") as file:
            for record in records:
                file.write(json.dumps({"t": 0.1, **record}) + "\n")

    def end(self):
        with open(self.box.path("work", "go"), "w", encoding="ascii") as file:
            file.write("go\n")
        self.assertEqual(self.run_process.wait(), 0)

    def put_all(self):
        pid = self.process()
        self.put({"type": "script_line", "pid": pid, "language": "sh", "file": "run.sh", "line": 7, "command": "make \u001b[31m", "how": "trap",
                  "time": None},
                 {"type": "progress", "source": "/x/out.log", "done": 3, "total": 4, "left_seconds": 5000},
                 {"type": "log", "file": "stderr", "pattern": "p", "level": "error", "text": "disk full", "line": 8, "folded": 0})
        return pid

    def test_top_and_ps(self):
        self.assertNotIn("PROGRESS", self.scry("ps").stdout)
        pid = self.put_all()
        picture = self.scry("top", "--once", "@last").stdout
        self.assertRegex(picture, r"(?m)^done   75 %, 1 h 23 min left  out\.log$")
        self.assertRegex(picture, rf"(?m)^script {pid} run\.sh:7: make \\x1b\[31m")
        self.assertRegex(picture, r"(?m)^log    stderr:8 error: disk full")
        top = json.loads(self.scry("top", "--json", "@last").stdout)
        self.assertEqual(list(schematest.violations(top, schematest.schema("top"))), [])
        self.assertEqual(top["layers"]["scripts"][0]["line"], 7)
        self.assertEqual(top["layers"]["progress"][0]["share"], 0.75)
        self.assertEqual((top["layers"]["log"]["text"], top["layers"]["python"]), ("disk full", []))
        self.assertRegex(self.scry("ps").stdout, r"(?m)^JOB .* PROGRESS +COMMAND\n.* 75 %, 1 h 23 min left  sh ")
        whole = json.loads(self.scry("ps", "--json").stdout)
        self.assertEqual(list(schematest.violations(whole, schematest.schema("ps"))), [])
        self.assertEqual(whole["jobs"][0]["progress"]["done"], 3)
        self.end()
        self.assertIsNone(self.job()["progress"])
        self.assertNotIn("PROGRESS", self.scry("ps").stdout)

    def test_memory(self):
        """What is in use of the node's memory is what programs cannot have: not caches, which are not free either."""
        node, others = self.report()["node"], 300 << 20
        system = {"load": 0.5, "memory_free_bytes": 1 << 20, "memory_available_bytes": node["memory_bytes"] - others}

        def shown():  # one of scry run's own may come between
            self.put({"type": "sample", "tree": {"processes": 1, "threads": 1, "rss": 4096, "cpu_ns": 1}, "system": system, "alive": []})
            return re.search(r"(?m)^node  .* memory 300 MB of \d", self.scry("top", "--once", "@last").stdout)
        wait_until(shown)
        self.end()

    def test_watch_on_a_terminal(self):
        """Below the records, and gone when the job has ended."""
        pid = self.put_all()
        terminal = Terminal(self.box, "watch", "@last")
        terminal.expect(rf"now at .*\r\n(.*\r\n)*.*script {pid} run\.sh:7: make \\x1b\[31m")
        self.put({"type": "script_line", "pid": pid, "language": "sh", "file": "run.sh", "line": 8, "how": "trap", "time": None})
        terminal.expect(rf"\033\[\d+A\r\033\[J(.*\r\n)+.*now at .*\r\n(.*\r\n)*.*script {pid} run\.sh:8")
        self.end()
        self.assertEqual(terminal.finish(), 0)
        last = terminal.text.rpartition("\033[J")[2]
        self.assertNotIn("now at", last)
        drawn = 0
        for up, head in re.findall(r"\033\[(\d+)A|(now at )", terminal.text):
            drawn = 0 if up else drawn + 1
            self.assertLessEqual(drawn, 1, "drawn twice without being erased")

    def test_watch_in_a_pipe(self):
        """Records only, and no colours."""
        self.put_all()
        self.end()
        text = self.scry("watch", "@last").stdout
        self.assertNotIn("\033", text)
        self.assertNotIn("now at", text)
        self.assertRegex(text, r"(?m)^ +0\.100  log       stderr:8 error: disk full$")


class Functions(JobCase):
    def test_calls_are_recorded(self):
        """Of a program that is traced, while it runs."""
        run = self.start_run("-q", "--sample", "0.1", "--trace", "all", "--", scrytest.example("newton"), "0", "10")
        wait_until(lambda: "find_root" in self.spool(), timeout=40)
        run.terminate()
        run.wait()
        record = json.loads(self.scry("watch", "--json", "--stream", "function", "@last").stdout.splitlines()[0])
        self.assertEqual(list(schematest.violations(record, schematest.schema("records"))), [], record)
        calls = {row["name"]: row["calls"] for row in record["list"]}
        self.assertGreaterEqual(calls["find_root"], 1)
        self.assertEqual(record["calls"], sum(calls.values()))

    def spool(self):
        jobs = json.loads(self.scry("ps", "--json").stdout)["jobs"]
        if not jobs:
            return ""
        with open(os.path.join(jobs[0]["path"], "spool", "records.jsonl"), encoding="utf-8") as file:
            return file.read()

    def test_nothing_is_traced(self):
        self.scry_run("-q", "--sample", "0.01", "--", "sh", "-c", "sleep 0.1")
        self.assertEqual(self.scry("watch", "--stream", "function", "@last").stdout, "")


scrytest.main()
