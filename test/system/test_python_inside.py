# SPDX-License-Identifier: Apache-2.0
"""`--script calls` and `lines` in Python programs: they run as without scry, and what is said of them is so."""

import glob
import json
import os
import subprocess
import unittest

import scrytest
from jobtest import JobCase, pythons
from scrytest import wait_until

DEBIANS = "/usr/bin/python3"
LEVELS = "calls", "lines"

# name: (options of python, program). Outputs and status must be those without scry; each prints nothing that differs
# from run to run.
PROGRAMS = {
    "plain": ([], "print('hello')"),
    "status": ([], "import sys; sys.exit(7)"),
    "uncaught": ([], "def f(): raise ValueError('no')\nf()"),
    "recursion": ([], """
        import sys
        def deep(n):
            try:
                return deep(n + 1)
            except RecursionError:
                return n
        sys.setrecursionlimit(200)
        print(deep(0))
        """),
    "recursion in a thread": ([], """
        import sys, threading
        def deep(n):
            try:
                return deep(n + 1)
            except RecursionError:
                return n
        sys.setrecursionlimit(200)
        thread = threading.Thread(target=lambda: print(deep(0)))
        thread.start()
        thread.join()
        """),
    "what it sees of itself": ([], """
        import os, sys, threading
        print(sys.gettrace(), sys.getprofile(), sys.path[1:], sys.flags, sorted(sys.modules))
        print(sorted(key for key in os.environ if key.startswith("PYTHON")), sys.argv, sys.excepthook, threading.excepthook)
        f = sys._getframe()
        print(f.f_trace, f.f_trace_lines, f.f_trace_opcodes, f.f_lineno, f.f_back)
        print(sys.getrefcount(f.f_code) - sys.getrefcount(f.f_code), sys.orig_argv[1:-1])
        """),
    "isolated": (["-I", "-S", "-E"], "import sys; print(sys.flags, sys.path[1:])"),
    "development mode": (["-X", "dev"], "import sys; print(sys.flags.dev_mode)"),
    "debug allocator": ([], """
        import subprocess, sys
        print(subprocess.run([sys.executable, "-c", "pass"], env=dict(__import__("os").environ, PYTHONMALLOC="malloc_debug")).returncode)
        """),
    "own trace": ([], """
        import sys
        seen = []
        def trace(frame, event, argument):
            seen.append((event, frame.f_lineno, frame.f_code.co_name))
            return trace
        def f(x):
            for i in range(2):
                x += i
            return x
        sys.settrace(trace)
        f(1)
        sys.settrace(None)
        print(seen, sys.gettrace())
        """),
    "own profile": ([], """
        import sys
        seen = []
        def f(x):
            return len([x])
        sys.setprofile(lambda frame, event, argument: seen.append((event, frame.f_code.co_name)))
        f(1)
        sys.setprofile(None)
        print(seen, sys.getprofile())
        """),
    "a profiler in Python": ([], """
        import profile, threading, sys
        def f(x):
            return len([x])
        one = profile.Profile(lambda: 0.0)
        print(one.runcall(f, 1), sorted(key[0] for key in one.timings), sys.getprofile())
        seen = []
        threading.setprofile(lambda frame, event, argument: seen.append((event, frame.f_code.co_name)))
        thread = threading.Thread(target=f, args=(1,))
        thread.start()
        thread.join()
        print(seen)
        """),
    "threads": ([], """
        import threading
        total = [0] * 8
        def work(i):
            for n in range(100):
                total[i] += n
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(total)
        import _thread
        try:
            _thread.start_new_thread(1, ())
        except TypeError as error:
            print(error)
        """),
    "exception in a thread": ([], """
        import threading
        def bad():
            raise KeyError("thread")
        thread = threading.Thread(target=bad, name="one")
        thread.start()
        thread.join()
        """),
    "generators": ([], """
        def numbers(n):
            try:
                for i in range(n):
                    got = yield i
                    if got: print("got", got)
            except ValueError as error:
                print("thrown", error)
                yield -1
            finally:
                print("closed")
        g = numbers(3)
        print(next(g), g.send("x"), g.throw(ValueError("v")))
        g.close()
        import asyncio
        async def main():
            async def one(i):
                await asyncio.sleep(0)
                return i
            print(await asyncio.gather(*(one(i) for i in range(5))))
        asyncio.run(main())
        """),
    "fork": ([], """
        import os, sys
        def child():
            return sum(range(10))
        pid = os.fork()
        if pid == 0:
            child()
            os._exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """),
    "multiprocessing": ([], """
        import multiprocessing, sys
        def square(x):
            return x * x
        if __name__ == "__main__":
            for way in ("fork", "spawn", "forkserver"):
                with multiprocessing.get_context(way).Pool(2) as pool:
                    print(way, pool.map(square, range(5)))
        """),
    "subprocess": ([], """
        import subprocess, sys
        print(subprocess.run([sys.executable, "-c", "import os; print('PYTHONPATH' in os.environ)"], capture_output=True))
        print(subprocess.run(["sh", "-c", "exit 3"], preexec_fn=lambda: None).returncode)
        """),
    "killed": ([], "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"),
    "signals": ([], """
        import signal, os
        signal.signal(signal.SIGUSR1, lambda number, frame: print("signal", number, frame.f_code.co_name))
        def f():
            os.kill(os.getpid(), signal.SIGUSR1)
            return 1
        print(f())
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            print("interrupted")
        """),
    "atexit and finalizers": ([], """
        import atexit, weakref
        class Thing:
            def __del__(self): print("gone")
        atexit.register(lambda: print("exit"))
        thing = Thing()
        code = compile("def g(): pass", "odd\\udc80name", "exec")
        weakref.finalize(code, print, "code gone")
        exec(code)
        del code
        """),
    "messages of the program's own": ([], """
        class Odd(Exception):
            args = property(lambda self: print("args"))
            def __str__(self): print("str"); return "odd"
        try:
            raise Odd(1)
        except Odd:
            pass
        def f():
            raise Odd(2)
        f()
        """),
    "audit hooks": ([], """
        import sys
        seen = []
        sys.addaudithook(lambda event, arguments: seen.append(event) if event.startswith("sys.") else None)
        import threading
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        print([event for event in seen if event not in ("sys.setprofile", "sys.settrace")])
        """),
    "subinterpreters": ([], """
        try:
            import _xxsubinterpreters as interpreters
            one = interpreters.create()
            interpreters.run_string(one, "def f():\\n    return 1\\nprint(f())")
            interpreters.destroy(one)
        except ImportError:
            pass
        """),
}


class Inside(JobCase):
    def functions(self, python, text, level="calls", status=0, arguments=()):
        """{(function, line): row} over all processes, of all their time."""
        done = self.scry_run("-q", "--script", level, "--", python, self.program(text), *arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        rows = {}
        for record in self.records("python_calls"):
            for row in record["functions"] if record["whole"] else ():
                kept = rows.setdefault(row["function"].rpartition(".")[2], dict(row, calls=0))
                kept["calls"] += row["calls"]
        return rows

    def compare(self, python):
        for number, (name, (options, text)) in enumerate(PROGRAMS.items()):
            command = [python, *options, self.program(text)]
            alone = self.box.run(command)
            for level in scrytest.rounds(LEVELS[number % 2:][:1], LEVELS):
                with self.subTest(program=name, level=level):
                    seen = self.scry_run("-q", "--script", level, "--", *command)
                    status = alone.returncode if alone.returncode >= 0 else 128 - alone.returncode
                    self.assertEqual((seen.returncode, seen.stdout, seen.stderr), (status, alone.stdout, alone.stderr))

    def test_unchanged(self):
        """Every program of the table prints and returns the same, at the one level or the other; in a thorough run at each."""
        self.compare(DEBIANS)

    @scrytest.thorough  # all versions of Python that are here
    def test_unchanged_in_all_versions(self):
        for python in pythons().values():
            with self.subTest(python=python):
                self.compare(python)

    def test_calls(self):
        for version, python in pythons().items():
            with self.subTest(python=version):
                rows = self.functions(python, """
                    import json, threading
                    def fib(n):
                        return n if n < 2 else fib(n - 1) + fib(n - 2)
                    def outer():
                        json.dumps([1])
                        return fib(10)
                    outer()
                    thread = threading.Thread(target=fib, args=(5,))
                    thread.start()
                    thread.join()
                    """)
                self.assertEqual(rows["fib"]["calls"], 177 + 15)
                self.assertEqual((rows["outer"]["calls"], rows["outer"]["line"]), (1, 5))
                self.assertNotIn("dumps", rows) # the library's
                self.assertGreaterEqual(rows["outer"]["total_ns"], rows["outer"]["self_ns"])

    def test_lines(self):
        for version, python in pythons().items():
            with self.subTest(python=version):
                self.functions(python, "def f():\n    for i in range(10):\n        i += 1\nf()\nf()\n", "lines")
                end = self.records("script_end")[-1]
                counts = {row["line"]: row["count"] for row in end["lines"]}
                self.assertEqual((counts[3], counts[4], counts[5]), (20, 1, 1))
                self.assertEqual(counts[2], 22)

    def test_sums_of_a_long_program(self):
        """What was told of it while it ran is in the sum at its end: nothing is counted twice."""
        go = self.box.path("work", "go")
        os.mkfifo(go)
        path = self.program(f"""
            def f():
                pass
            for _ in range(50):
                f()
            open({go!r}).read()
            for _ in range(10):
                f()
            """)
        run = self.start_run("-q", "--sample", "0.1", "--script", "calls", "--", DEBIANS, path)
        wait_until(lambda: json.loads(self.scry("ps", "--json").stdout)["jobs"])
        watch = self.box.start(self.box.scry("watch", "--json", "--grep", '"python_calls"', "@last"))
        self.assertFalse(json.loads(watch.stdout.readline())["whole"])
        with open(go, "w", encoding="ascii"):
            pass
        self.assertEqual((run.wait(), watch.wait()), (0, 0))
        windows = [record for record in self.records("python_calls") if not record["whole"]]
        self.assertEqual(sum(row["calls"] for record in windows for row in record["functions"] if row["function"] == "f"), 60)
        scripts = self.report()["scripts"]
        self.assertEqual({row["function"]: row["calls"] for row in scripts["python_functions"]}["f"], 60)

    def test_exceptions(self):
        """Caught or not, with their text and where they came from; in each version that can tell."""
        text = """
            def bad(x):
                raise OSError(2, "nothing there", "in the box")
            def middle():
                try:
                    bad(1)
                finally:
                    len("")
            def outer():
                try:
                    middle()
                except OSError:
                    pass
                return 1
            outer()
            raise KeyError("last")
            """
        for version, python in pythons().items():
            with self.subTest(python=version):
                self.functions(python, text, "lines", status=1)
                found = [(record["name"], record["message"], record["function"].rpartition(".")[2], record["line"], record["caught"])
                         for record in self.records("python_exception")]
                self.assertEqual(found, [("FileNotFoundError", "[Errno 2] nothing there: 'in the box'", "bad", 3, True),
                                         ("KeyError", "last", "<module>", 16, False)])
                traceback = self.records("python_exception")[0]["traceback"]
                self.assertEqual([frame["line"] for frame in traceback], [3, 6, 11, 15])

    def test_exceptions_of_workers(self):
        """What a worker of a pool raised is where it raised it; of what a library raises, the reason has the user's own line."""
        text = """
            import concurrent.futures, json, multiprocessing, subprocess, sys
            def look(key):
                return {1: "a"}[key]
            def decode(text):
                return json.loads(text)
            if __name__ == "__main__":
                if sys.argv[1:] == ["pool"]:
                    with multiprocessing.Pool(2) as pool:
                        pool.map(look, [1, 3])
                elif sys.argv[1:] == ["executor"]:
                    with concurrent.futures.ProcessPoolExecutor(2) as pool:
                        list(pool.map(look, [1, 3]))
                elif sys.argv[1:] == ["decode"]:
                    decode("{")
                else:
                    subprocess.run([sys.executable, "-c", "raise SystemExit(3)"], check=True)
            """
        for version, python in pythons().items():
            for way, said in (("pool", r":4: KeyError: 3"), ("executor", r":4: KeyError: 3"), ("decode", ":6: JSONDecodeError: Expecting property name .*"),
                              ("child", r":17: CalledProcessError: Command '\['.*', '-c', 'raise SystemExit\(3\)'\]' returned non-zero exit status 3")):
                with self.subTest(python=version, way=way):
                    self.functions(python, text, "calls", status=1, arguments=[way])
                    reason = self.report()["last"]["reason"]["text"]
                    self.assertRegex(reason, r"^an exception of Python that nothing caught, at \w+\.py" + said + "$")

    def test_exceptions_in_threads(self):
        """Those that end a thread, one that the library catches, and one that is caught."""
        text = """
            import concurrent.futures, threading
            def bad(name):
                raise KeyError(name)
            def good():
                try:
                    bad("caught")
                except KeyError:
                    pass
            for work, arguments in (bad, ("thread",)), (good, ()):
                thread = threading.Thread(target=work, args=arguments)
                thread.start()
                thread.join()
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                pool.submit(bad, "pool").exception()
            """
        for python in scrytest.rounds([DEBIANS], pythons().values()):
            with self.subTest(python=python):
                self.functions(python, text, "lines")
                found = {record["message"]: record["caught"] for record in self.records("python_exception")}
                self.assertEqual(found, {"thread": False, "caught": True, "pool": True})

    def test_exception_at_module_level(self):
        """It is told soon that it was caught, not at the end."""
        fifo = self.box.path("work", "go")
        os.mkfifo(fifo)
        run = self.start_run("-q", "--script", "lines", "--", DEBIANS,
                             self.program(f"try:\n    raise KeyError(1)\nexcept KeyError:\n    open({fifo!r}).read()\n"))
        wait_until(lambda: json.loads(self.scry("ps", "--json").stdout)["jobs"])
        watch = self.box.start(self.box.scry("watch", "--json", "--stream", "python", "@last"))
        record = next(record for record in map(json.loads, watch.stdout) if record["type"] == "python_exception")
        self.assertEqual((record["name"], record["caught"]), ("KeyError", True))
        self.assertIsNone(run.poll())
        with open(fifo, "w", encoding="ascii"):
            pass
        self.assertEqual((run.wait(), watch.communicate()[0] and watch.returncode), (0, 0))
        self.assertEqual(len(self.records("python_exception")), 1)

    def test_processes(self):
        """What forked processes do is known, however they end."""
        rows = self.functions(DEBIANS, """
            import os, signal
            def child():
                return 1
            child()
            for way in range(3):
                if os.fork() == 0:
                    child()
                    os._exit(0) if way else os.kill(os.getpid(), signal.SIGKILL)
                os.wait()
            child()
            """)
        self.assertEqual(rows["child"]["calls"], 5)
        children = [row["calls"] for record in self.records("python_calls") if record["whole"]
                    for row in record["functions"] if row["function"] == "child"]
        self.assertEqual(sorted(children), [1, 1, 1, 2])  # each process has its own

    def test_debugger_goes_first(self):
        """A trace function of the program is noted: until 3.11 it is in the place of ours."""
        self.functions(DEBIANS, "import sys\nsys.settrace(lambda *a: None)\ndef f(): pass\nf()\n", "lines")
        notes = [record["note"] for record in self.records("warning")]
        self.assertIn("script_aside", notes)

    def test_debugger_goes(self):
        """When the program has taken its trace function away, and executes code, as notebooks do, that is seen."""
        for version, python in pythons().items():
            with self.subTest(python=version):
                rows = self.functions(python, """
                    import sys
                    def before(): pass
                    def unseen(): pass
                    def after(): before()
                    before()
                    sys.settrace(lambda *arguments: None)
                    unseen()
                    exec("1")
                    unseen()
                    sys.settrace(None)
                    print(sys.gettrace())
                    exec(compile("after()", "cell", "exec"))
                    print(sys.gettrace())
                    """, "lines")
                self.assertEqual({name: rows[name]["calls"] for name in ("before", "after")}, {"before": 2, "after": 1})
                self.assertEqual([record for record in self.records("warning") if record["note"] == "script_dropped"], [])

    def test_current_line(self):
        """Where it is while it waits."""
        fifo = self.box.path("work", "go")
        os.mkfifo(fifo)
        run = self.start_run("-q", "--sample", "1", "--script", "lines", "--", DEBIANS,
                             self.program(f"def wait():\n    return open({fifo!r}).read()\nwait()\n"))
        wait_until(lambda: json.loads(self.scry("ps", "--json").stdout)["jobs"])
        watch = self.box.start(self.box.scry("watch", "--json", "@last"))
        record = next(json.loads(line) for line in watch.stdout if '"script_line"' in line)
        self.assertEqual((record["line"], record["function"], record["language"]), (2, "wait", "python"))
        next(line for line in watch.stdout if '"python_stack"' in line)  # it was looked at from outside, too
        with open(fifo, "w", encoding="ascii"):
            pass
        self.assertEqual((run.wait(), watch.wait()), (0, 0))
        told = [(record["line"], record["how"]) for record in self.records("script_line")]
        hows = [how for line, how in told if line == 2]  # a look may come before the library is there
        self.assertEqual(hows[hows.index("inside"):], ["inside"], told)

    def test_nothing_left(self):
        self.scry_run("-q", "--script", "calls", "--", DEBIANS, "-c", "pass")
        self.assertEqual(glob.glob(self.box.path("run", "scripts.*")), [])

    def test_without_room(self):
        """A limit of file sizes below that of the ring: the program runs, unseen."""
        done = self.scry_run("-q", "--script", "calls", "--", "sh", "-c", f"ulimit -f 8; exec {DEBIANS} -c 'print(1)'")
        self.assertEqual((done.returncode, done.stdout), (0, "1\n"))
        self.assertEqual(self.records("python_calls"), [])

    @unittest.skipUnless(os.getuid() == 0, "only root can mount")
    def test_full_runtime_directory(self):
        """The program runs, unseen, and a warning says why."""
        place = self.box.path("run")
        os.makedirs(place, mode=0o700, exist_ok=True)
        if self.box.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "none", place]).returncode:
            self.skipTest("no mounts here")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", place], check=True))
        self.addCleanup(self.box.stop_monitor)
        done = self.scry_run("-q", "--script", "calls", "--", DEBIANS, "-c", "print(1)")
        self.assertEqual((done.returncode, done.stdout), (0, "1\n"))
        self.assertEqual(self.records("python_calls"), [])
        notes = [record["text"] for record in self.records("warning")]
        self.assertEqual([note for note in notes if "no room in the runtime directory" in note], notes)
        self.assertEqual(len(notes), 1)


scrytest.main()
