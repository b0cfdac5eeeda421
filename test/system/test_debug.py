# SPDX-License-Identifier: Apache-2.0
"""What a person finds who debugs scry itself: the log at level debug, and the monitor's state."""

import os
import re
import signal

import scrytest
from servicetest import *

FIELD = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"(?:\.\.\.)?|\S+)')


def facts(text):
    """The lines of a log or a state: (word, {key: value}), in order. Each has to be of that form to the last byte."""
    found = []
    for line in text.splitlines():
        line = re.sub(r"^.*?: debug: ", "", line)
        word, _, rest = line.partition(" ")
        if not re.fullmatch(rf"\w+(?: {FIELD.pattern})*", line):
            raise AssertionError(f"not of the form WORD KEY=VALUE...: {line}")
        found.append((word, dict(FIELD.findall(rest))))
    return found


class Debugging(ServiceTest):
    spread = False  # about the log of the monitor beside the program

    def setUp(self):
        super().setUp()
        self.ask(': scry_monitor_set_log_level("debug")')

    def log(self, word, **fields):
        """The lines of the monitor's log that begin with the word and have these fields."""
        with open(self.box.path("run", "monitor.log"), encoding="utf-8") as file:
            lines = "\n".join(line for line in file.read().split("\n") if ": debug: " in line)
        return [got for name, got in facts(lines) if name == word and fields.items() <= got.items()]

    def state(self, word, **fields):
        done = self.box.run(self.box.scry("monitor", "--state"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [got for name, got in facts(done.stdout) if name == word and fields.items() <= got.items()]

    def test_requests_and_replies(self):
        self.ask(': print(["a \\"b\\""])')
        self.assertEqual(len(self.log("request", text='": print([\\"a \\\\\\"b\\\\\\"\\"])"')), 1)
        self.refused(": nothing()", UNKNOWN_SERVICE, "no service", action=0)
        self.assertIn("there is no service nothing", self.log("reply", status="OMIS_UNKNOWN_SERVICE")[0]["text"])

    def test_long_requests_are_shortened(self):
        self.ask(f': print(["{"x" * 5000}"])')
        line = [line for line in self.log("request") if "xxx" in line["text"]][0]
        self.assertEqual(line["bytes"], "5013")
        self.assertTrue(line["text"].endswith('x"...'))

    def test_conditional_requests(self):
        process = self.attach(self.target())
        csr = self.omis.request(f"proc_has_been_stopped([{process}]) : print([1])").result(0)
        self.assertEqual(len(self.log("csr", token=csr, state="defined", event="proc_has_been_stopped")), 1)
        self.ask(f": csr_enable([{csr}])")
        self.assertEqual(len(self.log("csr", token=csr, state="enabled")), 1)
        self.assertEqual(self.log("armed", csr=csr)[0]["status"], "OMIS_OK")
        self.assertEqual(self.state("csr", token=csr, enabled="1", armed="1", failed="0")[0]["event"],
                         "proc_has_been_stopped")
        self.ask(f": thread_stop([{process}])")
        scrytest.wait_until(lambda: self.log("csr", token=csr, state="triggered"))
        self.assertEqual(self.log("event", service="proc_has_been_stopped")[0]["matched"], "1")
        self.ask(f": csr_disable([{csr}]) csr_delete([{csr}])")
        self.assertEqual(len(self.log("csr", token=csr, state="disabled")), 1)
        self.assertEqual(len(self.log("csr", token=csr, state="deleted")), 1)

    def test_tracer(self):
        target = self.target()
        process = self.attach(target)
        self.ask(f": thread_stop([{process}])")
        tracer = self.log("tracer", state="started")[0]["pid"]
        self.assertEqual(self.state("tracer")[0], {"pid": tracer, "deaths": "0", "off": "0"})
        self.assertEqual(self.state("process", token=process, traced="1")[0]["pid"], str(target.pid))
        os.kill(int(tracer), signal.SIGKILL)
        scrytest.wait_until(lambda: self.log("tracer", state="died", pid=tracer))
        scrytest.wait_until(lambda: self.state("tracer", deaths="1"))

    def test_connections(self):
        with self.tool() as tool:
            self.assertEqual(len(self.state("connection", pid=str(tool.pid))), 1)
            self.assertEqual(len(self.log("connection", state="joined", pid=str(tool.pid))), 1)
            pid = str(tool.pid)
        scrytest.wait_until(lambda: self.log("connection", state="closed", pid=pid))

    def test_levels(self):
        self.refused(': scry_monitor_set_log_level("loud")', PARAMETER_ERROR, '"loud" is no level')
        self.ask(': scry_monitor_set_log_level("warning")')
        self.ask(": print([77777])")
        self.assertEqual([line for line in self.log("request") if "77777" in line["text"]], [])


SOURCE = "int add(int x) { return x + 1; }\nint main(void) { return add(-1); }\n"


class Jobs(scrytest.TestCase):
    def test_run(self):
        """`scry run --log-level debug` logs what it does itself, and the monitor logs as much."""
        source, target = self.box.path("work", "add.c"), self.box.path("work", "add")
        with open(source, "w", encoding="ascii") as file:
            file.write(SOURCE)
        built = self.box.run(["cc", "-g", "-finstrument-functions", source, "-o", target])
        self.assertEqual(built.returncode, 0, built.stderr)
        done = self.box.run(self.box.scry("run", "--quiet", "--log-level", "debug", "--", target))
        self.assertEqual(done.returncode, 0, done.stderr)
        mine = [line for line in done.stderr.splitlines() if line.startswith("scry run: debug: ")]
        self.assertTrue(any(word == "record" and got["type"] == "end" for word, got in facts("\n".join(mine))))
        self.assertTrue(any(word == "monitor" and got["state"] == "connected" for word, got in facts("\n".join(mine))))
        with open(self.box.path("run", "monitor.log"), encoding="utf-8") as file:
            log = facts("\n".join(line for line in file.read().split("\n") if ": debug: " in line))
        words = {word for word, _ in log}
        self.assertLessEqual({"job", "hello", "agent", "collect", "csr", "request", "reply"}, words)

    def test_wrong_level(self):
        done = self.box.run(self.box.scry("run", "--log-level", "loud", "true"))
        self.assertEqual(done.returncode, 125)
        self.assertIn("--log-level: expected error, warning, info or debug, not 'loud'", done.stderr)
        done = self.box.run(self.box.scry("monitor", "--log-level", "loud"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("--log-level: expected error, warning, info or debug", done.stderr)

    def test_no_monitor(self):
        done = self.box.run(self.box.scry("monitor", "--state"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("no monitor runs", done.stderr)


scrytest.main()
