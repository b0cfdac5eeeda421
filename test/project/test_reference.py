# SPDX-License-Identifier: Apache-2.0
"""doc/reference/services.md says what the tables say. To renew it: scry-monitor --reference >doc/reference/services.md
(with SCRY_EXT_PATH pointing at the built extensions); so do mpi-calls.json and
notes.md: scry-monitor --reference=mpi-calls. Of records.md and metrics.md: scry-schemas records.md."""

import json
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import scrytest  # noqa: E402

PAGE = os.path.join(scrytest.SOURCE, "doc", "reference", "services.md")

# Whether these work depends on the machine (perf_event_paranoid, sensors), so their state is not compared.
MACHINE_DEPENDENT = re.compile(r"^\| `((proc|thread)_has_(been_(un)?(de)?(scheduled|blocked)|blocked)|temp_\w+)` ")

# All services of the specification's chapter 8, with kind and class. They may not be lost from the tables.
CHAPTER_8 = {
    "information": {
        "P": "node_get_info proc_get_info proc_get_loader_info thread_get_info",
        "R": "proc_read_memory thread_get_backtrace thread_read_int_regs thread_read_fp_regs print version extensions "
             "services",
        "O": "proc_read_memory_bin message_queue_get_info",
    },
    "manipulation": {
        "P": "thread_stop thread_continue",
        "R": "proc_write_memory thread_suspend thread_resume thread_write_int_regs thread_write_fp_regs csr_enable "
             "csr_disable csr_delete user_event_create user_event_raise user_event_destroy",
        "O": "node_attach node_attach2 node_detach proc_create proc_attach proc_attach3 proc_detach proc_send_signal "
             "proc_set_priority proc_write_memory_bin proc_migrate proc_checkpoint proc_restore thread_detach "
             "thread_send_signal thread_set_priority thread_goto thread_call message_insert_into_queue "
             "message_queue_remove message_queue_clear message_tag message_create message_copy message_destroy",
    },
    "event": {
        "R": "proc_has_terminated proc_has_been_stopped proc_has_been_continued thread_has_terminated "
             "thread_has_been_stopped thread_has_been_continued thread_reached_addr thread_has_started_lib_call "
             "thread_has_ended_lib_call user_event_has_been_raised",
        "O": "proc_has_been_scheduled proc_has_been_descheduled proc_will_be_migrated proc_has_been_migrated "
             "thread_adds_node thread_removes_node thread_creates_proc thread_creates_thread thread_received_signal "
             "thread_has_blocked thread_has_been_unblocked thread_has_been_scheduled thread_has_been_descheduled "
             "thread_executed_insn thread_executed_insn_call thread_has_started_sys_call thread_has_ended_sys_call "
             "thread_has_received_tagged_msg message_queue_has_been_extended",
    },
}


def lines(text):
    """The page without the states that depend on the machine."""
    return [re.sub(r"` \| [^|]* \| ([^|]*) \| ([^|]*) \|$", r"` | ? | \1 | \2 |", line) if MACHINE_DEPENDENT.match(line) else line
            for line in text.splitlines()]


class Reference(scrytest.TestCase):
    def setUp(self):
        super().setUp()
        done = self.box.run([self.box.path("libexec", "scry-monitor"), "--reference"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.printed = done.stdout

    def test_page_is_current(self):
        with open(PAGE, encoding="utf-8") as file:
            self.assertEqual(lines(file.read()), lines(self.printed))

    def test_other_pages_are_current(self):
        for page in ("mpi-calls.json", "notes.md"):
            done = self.box.run([self.box.path("libexec", "scry-monitor"), f"--reference={page.split('.')[0]}"])
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(os.path.dirname(PAGE), page), encoding="utf-8") as file:
                self.assertEqual(file.read().splitlines(), done.stdout.splitlines())
        done = self.box.run([self.box.path("libexec", "scry-monitor"), "--reference=pvm-calls"])
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected mpi-calls or notes, not 'pvm-calls'", done.stderr)

    def test_schemas_are_current(self):
        """Those of which the fields are declared in the program. To renew one: scry-schemas NAME >doc/reference/NAME.schema.json"""
        program = os.path.join(scrytest.BUILD, "src", "cli", "scry-schemas")
        usage = self.box.run([program])
        self.assertEqual(usage.returncode, 1)
        names = usage.stderr.split("one of:")[1].split()
        self.assertIn("report", names)
        for name in names:
            done = self.box.run([program, name])
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(os.path.dirname(PAGE), f"{name}.schema.json"), encoding="utf-8") as file:
                self.assertEqual(file.read().splitlines(), done.stdout.splitlines(), name)

    def test_calls_of_mpi(self):
        """The members that doc/reference/omis-readings.md describes."""
        with open(os.path.join(os.path.dirname(PAGE), "mpi-calls.json"), encoding="utf-8") as file:
            calls = json.load(file)["calls"]
        self.assertEqual(calls["MPI_Send"], {
            "libraries": ["Open MPI", "MPICH"], "parameters": ["buf", "count", "datatype", "dest", "tag", "comm"],
            "more": ["message", "length"], "about": ["peer", "tag", "comm", "bytes"]})
        self.assertEqual(calls["MPI_Send_c"]["libraries"], ["MPICH"])
        self.assertEqual(calls["MPI_Sendrecv"]["more"], ["message", "length"] * 2)
        self.assertEqual(calls["MPI_Wtime"], {"libraries": ["Open MPI", "MPICH"], "parameters": [], "more": [], "about": []})

    def test_every_reason_is_explained(self):
        """Each kind of reason, and each error that a log may say, is in the table of doc/howto/why-did-it-fail.md."""
        with open(os.path.join(scrytest.SOURCE, "doc", "howto", "why-did-it-fail.md"), encoding="utf-8") as file:
            table = file.read()
        with open(os.path.join(os.path.dirname(PAGE), "notes.md"), encoding="utf-8") as file:
            templates = re.findall(r"^\| `(cause_\w+)` \|.*\| (.*) \|$", file.read(), re.M)
        self.assertGreater(len(templates), 20)
        for kind, template in templates:
            words = max(re.split(r"\{[^}]*\}|[:;,](?= )", template), key=len).strip(" :;,()")
            self.assertTrue(words in table, (kind, words))
        with open(os.path.join(scrytest.SOURCE, "src", "jobdir", "layers", "cause_lines.c"), encoding="utf-8") as file:
            errors = re.findall(r'\{\w+, (?:NULL|"\w+"), "([^"(]+?)(?: \(.*)?", (?:true|false)\}', file.read())
        self.assertGreater(len(errors), 12)
        for error in errors:
            self.assertTrue(error in table, error)

    def test_pages_of_schemas_are_current(self):
        for page in ("records.md", "metrics.md"):
            done = self.box.run([os.path.join(scrytest.BUILD, "src", "cli", "scry-schemas"), page])
            with open(os.path.join(os.path.dirname(PAGE), page), encoding="utf-8") as file:
                self.assertEqual(file.read().splitlines(), done.stdout.splitlines(), page)

    def test_chapter_8_is_complete(self):
        rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (\w) \|", self.printed.split("## Extension")[0], re.M)
        wanted = {(name, kind, klass) for kind, classes in CHAPTER_8.items() for klass, names in classes.items()
                  for name in names.split()}
        self.assertEqual(set(rows), wanted)
        self.assertEqual(len(rows), len(wanted), "a service is listed twice")

    def test_units_and_errors(self):
        """Every number that measures something has its unit; every service says what may go wrong."""
        for line in self.printed.splitlines():
            row = re.match(r"^\| `(\w+)` \| .*?`(.*)` \| .* \| ([A-Z_, ]*) \|$", line)
            if not row:
                continue
            name, signature, errors = row.groups()
            measures = re.findall(r"(?:integer|floating)(<[^>]*>)? (\w*(?:size|time|duration|seconds|_ns|bytes|length))\b", signature)
            self.assertEqual([word for unit, word in measures if not unit and word not in self.NO_MEASURES], [], name)
            self.assertNotIn("!", signature)
            if "token<" in signature.split("->")[0]:
                self.assertIn("UNKNOWN_OBJECT", errors, name)
        self.assertRegex(self.printed, r"\| `user_event_raise` .*UNSPECIFIED_ERROR \|\n")

    NO_MEASURES = ("os_boottime", "queue_length")

    def test_unsupported_services_give_their_reason(self):
        for name, state in re.findall(r"^\| `(\w+)` \|.*\| (works|unsupported[^|]*) \| [^|]* \| [^|]* \|$", self.printed, re.M):
            self.assertTrue(state == "works" or len(state) > len("unsupported: ") + 10, (name, state))


scrytest.main()
