# SPDX-License-Identifier: Apache-2.0
"""Python programs of a job, read from outside: their lines and stacks in the job's records."""

import glob
import json
import os
import shutil
import subprocess
import sys
import venv

import schematest
import scrytest
from jobtest import JobCase
from scrytest import wait_until

WAIT = "open({fifo!r}).read()"


class PythonCase(JobCase):
    def setUp(self):
        super().setUp()
        self.fifo = self.box.path("work", "end")
        os.mkfifo(self.fifo)

    def write(self, name, text):
        """A file of the test; WAIT stands for a call that waits for release()."""
        path = self.box.path("work", name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("WAIT", WAIT.format(fifo=self.fifo)))
        return path

    def start(self, *command, options=(), **more):
        self.job = self.start_run("-q", "--sample", "0.2", *options, "--", *command, **more)

    def records(self, kind):
        """Those that are written by now, of the last job."""
        spools = sorted(glob.glob(self.box.path("jobs", "2*", "spool", "records.jsonl")), key=os.path.getmtime)
        if not spools:
            return []
        with open(spools[-1], encoding="utf-8") as file:
            records = [json.loads(line) for line in file if line.endswith("\n")]
        return [record for record in records if record["type"] == kind]

    def await_record(self, kind, matches):
        """The first record of this kind for which it holds."""
        found = []

        def look():
            found[:] = [record for record in self.records(kind) if matches(record)]
            return found

        wait_until(look)
        return found[0]

    def await_line(self, file, line, function=None):
        return self.await_record("script_line", lambda record: (record["file"], record.get("line")) == (file, line) and
                                 function in (None, record["function"].rpartition(".")[2]))

    def stack(self, matches):
        """[[(function, file, line), ...], ...], the threads of the first stack for which it holds."""
        def frames(record):
            return [[(frame["function"].rpartition(".")[2], frame["file"], frame.get("line")) for frame in thread["frames"]]
                    for thread in record["threads"]]
        return frames(self.await_record("python_stack", lambda record: matches(frames(record))))

    def release(self, status=0):
        with open(self.fifo, "w", encoding="ascii"):
            pass
        self.assertEqual(self.job.wait(), status)


class PythonOutside(PythonCase):
    def test_threads(self):
        path = self.write("threads.py", """import threading
both = threading.Barrier(2)
def worker():
    both.wait()
def values():
    yield 1
    list(map(lambda fifo: WAIT,
             [0]))
threading.Thread(target=worker, daemon=True).start()
for value in values():
    pass
""")
        self.start(sys.executable, path)
        record = self.await_line(path, 7, "<lambda>")
        self.assertEqual((record["language"], record["how"]), ("python", "outside"))
        threads = self.stack(lambda threads: len(threads) == 2 and threads[0][0] == ("<lambda>", path, 7))
        self.assertEqual(threads[0], [("<lambda>", path, 7), ("values", path, 7), ("<module>", path, 10)])
        self.assertIn(("worker", path, 4), threads[1])
        why = json.loads(self.scry("why", "--json", "@last").stdout)
        self.assertEqual(list(schematest.violations(why, schematest.schema("why"))), [])
        self.assertEqual([(thread["python"]["function"].rpartition(".")[2], thread["python"]["file"], thread["python"]["line"])
                          for thread in why["processes"][0]["threads"]], [("<lambda>", path, 7), ("worker", path, 4)])
        self.assertIn(".<lambda> (threads.py:7)", self.scry("why", "@last").stdout)
        self.release()
        schema = schematest.schema("records")
        for line in self.scry("watch", "--json", "--stream", "script", "--stream", "python", "@last").stdout.splitlines():
            self.assertEqual(list(schematest.violations(json.loads(line), schema)), [], line)

    def test_deep_recursion(self):
        path = self.write("deep.py", """def down(n):
    if n:
        return down(n - 1)
    WAIT
down(500)
""")
        self.start(sys.executable, path)
        self.await_line(path, 4)
        record = self.await_record("python_stack", lambda record: True)
        thread = record["threads"][0]
        self.assertEqual((len(thread["frames"]), thread["cut"]), (200, True))
        self.assertEqual({frame["line"] for frame in thread["frames"][1:]}, {3})
        self.release()

    def test_async_and_executed_code(self):
        path = self.write("run.py", """import asyncio
async def inner():
    exec(compile("\\n\\nWAIT", "made up", "exec"))
async def outer():
    await inner()
asyncio.run(outer())
""")
        self.start(sys.executable, path)
        self.await_line("made up", 3)
        frames = self.stack(lambda threads: threads[0][0][1] == "made up")[0]
        self.assertEqual(frames[:3], [("<module>", "made up", 3), ("inner", path, 3), ("outer", path, 5)])
        self.assertEqual(frames[-1], ("<module>", path, 6))
        self.release()

    def test_event_loop(self):
        """What an asyncio program waits for is told in its words; and what is made from text is no code of the user's."""
        path = self.write("loop.py", """import asyncio
space = {}
exec(compile("import asyncio\\ndef run(it): asyncio.run(it)", "<string>", "exec"), space)
async def main():
    await asyncio.Event().wait()
space["run"](main())
""")
        self.start(sys.executable, path)
        self.await_line(path, 6)
        answer = json.loads(self.scry("why", "--json", "@last", status=3).stdout)
        (process,), (lock,) = answer["processes"], answer["deadlocks"]
        self.assertRegex(process["threads"][0]["text"],
                         r"\Awaits in asyncio's event loop: no task can go on, at <module> \(loop.py:6\)\Z")
        self.assertRegex(lock["text"], rf"\Adeadlock: process {process['pid']} \(.*\) waits for itself: no task of its event loop can go on\Z")
        self.box.run(["kill", str(process["pid"])])
        self.job.wait()

    def test_event_loop_that_may_go_on(self):
        """One that waits for a time, a client, or a signal is no deadlock."""
        for name, line, at in (("time.py", "await asyncio.sleep(1000)", " before some time has passed"),
                               ("client.py", "await (await asyncio.start_server(print, '127.0.0.1', 0)).serve_forever()",
                                r" until there is something at TCP port \d+"),
                               ("both.py", "await asyncio.start_server(print, '127.0.0.1', 0); await asyncio.sleep(1000)",
                                r" until there is something at TCP port \d+, or some time has passed"),
                               ("signal.py", "asyncio.get_running_loop().add_signal_handler(15, print); await asyncio.Event().wait()", "")):
            path = self.write(f"loop_{name}", f"import asyncio\nasync def main():\n    {line}\nasyncio.run(main())\n")
            self.start(sys.executable, path)
            self.await_line(path, 4)
            answer = json.loads(self.scry("why", "--json", "@last").stdout)
            (process,) = answer["processes"]
            self.assertRegex(process["threads"][0]["text"], rf"\Awaits in asyncio's event loop: no task can go on{at}, at <module> ")
            self.assertEqual(answer["deadlocks"], [])
            self.box.run(["kill", "-9", str(process["pid"])])
            self.job.wait()

    def test_deleted_script_in_a_child(self):
        """A script that removes itself, started by a shell and another Python."""
        path = self.write("gone.py", "import os\nos.remove(__file__)\nWAIT\n")
        self.start("sh", "-c", f"{sys.executable} -c 'import subprocess, sys\nsubprocess.call([sys.executable, sys.argv[1]])' {path}; exit 3")
        child = self.await_line(path, 3)
        parent = self.await_line("<string>", 2)
        self.assertNotEqual(child["pid"], parent["pid"])
        self.release(status=3)

    def test_standard_input_and_venv(self):
        folder = self.box.path("work", "venv")
        venv.create(folder, with_pip=False, symlinks=True)
        path = self.write("main.py", "\n\nWAIT\n")
        with open(path, encoding="ascii") as script:
            self.start(os.path.join(folder, "bin", "python"), "-", stdin=script)
            self.await_line("<stdin>", 3)
            self.release()

    @scrytest.thorough
    def test_other_versions(self):
        """Those that are installed beside the one that runs the tests, also by pyenv."""
        path = self.write("old.py", "def wait():\n    WAIT\n\nwait()\n")
        pythons = [shutil.which(f"python3.{version}") for version in range(9, 15)]
        for python in filter(None, pythons + glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))):
            if self.box.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 9))"]).returncode:
                continue
            with self.subTest(python=python):
                self.start(python, path)
                self.assertEqual(self.await_record("script_line", lambda record: record["pid"] and record["file"] == path)["line"], 2)
                self.release()

    def test_crash_below_python(self):
        """A crash in C, called by Python, which C has called for Python: each function stands where it was called."""
        path = self.write("crash.py", """import ctypes
def step(n):
    if n:
        return step(n - 1)
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    def below(a, b):
        return ctypes.memmove(8, 16, 4)
    libc = ctypes.CDLL(None)
    libc.qsort.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
    libc.qsort((ctypes.c_int * 2)(3, 1), 2, 4,
               ctypes.cast(compare(below), ctypes.c_void_p))
step(2)
""")
        self.scry_run("-q", "--crash-stack", "--", sys.executable, path)
        report = self.report()
        self.assertEqual(list(schematest.violations(report, schematest.schema("report"))), [])
        frames = report["crashes"][0]["frames"]
        own = [(frame["function"].rpartition(".")[2], frame["line"]) for frame in frames if frame.get("file") == path]
        self.assertEqual(own, [("below", 7), ("step", 10), ("step", 4), ("step", 4), ("<module>", 12)])
        places = [frame.get("file") == path for frame in frames]
        self.assertFalse(places[0])  # memmove, below all
        first = places.index(True)
        self.assertFalse(places[first + 1])  # ctypes and qsort are between
        names = [frame.get("function") for frame in frames]
        self.assertTrue(any("qsort_r" in str(name) for name in names[first:names.index("step")]), names)

    def test_snapshot(self):
        """A snapshot in C below Python has the functions of Python where the interpreter stands."""
        source, library = self.write("below.c", "int leaf(int n) { return n + 1; }\n"), self.box.path("work", "below.so")
        subprocess.run(["cc", "-g", "-shared", "-fPIC", "-finstrument-functions", "-o", library, source], check=True)
        path = self.write("main.py", f"import ctypes\ndef step(n):\n    library.leaf(n)\nlibrary = ctypes.CDLL('{library}')\nstep(7)\n")
        self.scry_run("-q", "--trace", "fn:leaf", "--rule", 'ct_function_called([], "leaf", "n == 7") : ct_snapshot([$proc])', "--",
                      sys.executable, path)
        (snapshot,) = glob.glob(self.box.path("jobs", "2*", "snapshots", "*.json"))
        with open(snapshot, encoding="utf-8") as file:
            stack = json.load(file)["stacks"][0]
        rows = [stack, *stack["frames"]]
        self.assertEqual([(row["function"], row["file"], row["line"]) for part in rows for row in part.get("python", [])],
                         [("step", path, 3), ("<module>", path, 5)])
        self.assertEqual(stack["frames"][0]["function"], "leaf")

    def test_service(self):
        """The same for other tools, from the monitor."""
        path = self.write("wait.py", "def wait():\n    WAIT\n\nwait()\n")
        self.start(sys.executable, path)
        pid = self.await_line(path, 2)["pid"]
        done = self.scry("omis", "-c", f': node_attach2("localhost") proc_attach3([n_1], {pid}, "") scry_thread_get_python_stack([], 5)')
        self.assertIn(f'2,["wait","{path}",2,0,"<module>","{path}",4,1]', done.stdout.replace(" ", ""))
        self.release()

    def test_off(self):
        path = self.write("main.py", "import time\ntime.sleep(1)\n")
        self.assertEqual(self.scry_run("-q", "--sample", "0.2", "--script", "off", "--", sys.executable, path).returncode, 0)
        self.assertEqual(self.records("script_line") + self.records("python_stack"), [])

    def test_many_short_ones(self):
        """Processes that end while they are read: the job's result is its own, and nothing is warned of."""
        self.assertEqual(self.scry_run("-q", "--sample", "0.05", "--script", "outside", "--", "sh", "-c",
                                       f"for i in $(seq 30); do {sys.executable} -S -c 'import sys; sys.exit(0)' || exit 1; done; exit 4").returncode, 4)
        self.assertEqual([record for record in self.records("warning") if "Python" in record["text"]], [])


class Refused(PythonCase):
    user = scrytest.Sandbox.ordinary_user()

    def test_refused(self):
        """A process that lets nobody read it: only who has asked for --script is told."""
        if not os.path.exists("/usr/bin/python3"):
            self.skipTest("needs a Python that an ordinary user may run: /usr/bin/python3")
        program = "import ctypes\nctypes.CDLL(None).prctl(4, 0)\n" + WAIT.format(fifo=self.fifo)
        for options, told in (([], 0), (["--script", "outside"], 1)):
            self.start("/usr/bin/python3", "-c", program, options=options)
            wait_until(lambda: self.records("sample") and (not told or self.records("warning")))
            self.release()
            warnings = [row["text"] for row in self.report()["warnings"] if "Python in process" in row["text"]]
            self.assertEqual(len(warnings), told, warnings)


scrytest.main()
