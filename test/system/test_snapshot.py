# SPDX-License-Identifier: Apache-2.0
"""scry snapshot: the stacks of all threads of a job, merged."""

import json
import os
import re
import signal
import sys
import textwrap

import mpitest
import schematest
import scrytest


class SnapshotCase:
    def start(self, *command, options=()):
        self.path = self.box.path("work", "job")
        self.job = self.box.start(self.box.scry("run", "-q", "-o", self.path, *options, "--", *command))
        self.addCleanup(self.end)
        scrytest.wait_until(lambda: os.path.exists(os.path.join(self.path, "job.json")), 20, "the job starts")

    def end(self):
        for child in scrytest.children(self.job.pid):
            os.kill(child, signal.SIGKILL)
        self.job.wait(60 * scrytest.SCALE)

    def lines(self, *patterns, options=()):
        """The text, once it has a line that matches each pattern."""
        said = []

        def found():
            done = self.box.run(self.box.scry("snapshot", *options, self.path))
            said.append(done.stdout + done.stderr)
            return all(re.search(each, said[-1], re.M) for each in patterns)

        scrytest.wait_until(found, 40, lambda: f"{patterns}: {said[-1]}")
        return said[-1]

    def tree(self, *options):
        done = self.box.run(self.box.scry("snapshot", "--json", *options, self.path))
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual(list(schematest.violations(answer, schematest.schema("snapshot"))), [])
        return answer


class Snapshot(SnapshotCase, scrytest.TestCase):
    def voluntary(self, pid):
        """Context switches of a process that only waits: each stop would be some."""
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return re.search(r"^voluntary_ctxt_switches:\s*(\d+)", file.read(), re.M)[1]

    def test_threads(self):
        self.start(scrytest.example("hang"), "deadlock")
        text = self.lines(r"deadlock \(hang.c:\d+\) > take_both \(hang.c:37\) > pthread_mutex_lock$",
                          r"other_thread \(hang.c:\d+\) > take_both \(hang.c:37\) > pthread_mutex_lock$")
        self.assertIn("2 threads of 1 process", text)
        self.assertIn("nothing was stopped", text)
        (pid,) = scrytest.children(self.job.pid)
        before = self.voluntary(pid)
        answer = self.tree()
        self.assertEqual(self.voluntary(pid), before)
        (process,) = answer["processes"]
        self.assertEqual((process["name"], process["threads"], process["rank"]), ("hang", 2, -1))
        inner = [node for node in answer["nodes"] if node["innermost"]]
        self.assertEqual(sum(node["innermost"] for node in inner), 2)
        for node in inner:  # each goes back to where its thread began
            names = []
            while node:
                names.append(node["function"])
                node = next((each for each in answer["nodes"] if each["number"] == node["parent"]), None)
            self.assertIn("take_both", names)
            self.assertTrue({"_start", "clone3", "__clone3", "clone"} & set(names), names)
        main = self.lines("deadlock", options=("--thread", "main"))
        self.assertNotIn("other_thread", main)
        cut = self.lines("hang.c", options=("--depth", "1"))
        self.assertNotIn("take_both", cut)

    def test_alike(self):
        """Threads that do the same are one line; one that runs is sampled."""
        self.start(scrytest.built("test", "system", "targets", "alike"))
        self.lines(r"alike \d+ x 12 threads  worker \(alike.c:\d+\) > pause$",
                   r"runner \(alike.c:\d+\) > hot \(alike.c:\d+\), runs$", r"main \(alike.c:\d+\) > ")

    def test_compiled_anyhow(self):
        """All of a stack is found without a stop, whether or not the compiler needs a register for that."""
        source = os.path.join(scrytest.SOURCE, "test", "system", "targets", "nested.c")
        flags = [["-O0"], ["-O2"], ["-O2", "-fno-omit-frame-pointer"], ["-O1", "-fstack-protector-all", "-fno-omit-frame-pointer"]]
        programs = [scrytest.compiled("nested", ["cc", "-g", *each, source], source) for each in flags]
        self.start("sh", "-c", " & ".join(programs) + " & wait")
        whole = r"main \(nested.c:37\) > descend \(nested.c:29\) x 5 > descend \(nested.c:31\) > " \
            r"sort \(nested.c:\d+\) > (qsort|qsort_r) > compare \(nested.c:\d+\) > pause$"
        text = self.lines(r"nested \(4 processes\)  " + whole)
        self.assertNotIn("not known", text)

    def valued(self, *flags):
        """A job of three processes of valued, each compiled with its own flags."""
        source = os.path.join(scrytest.SOURCE, "test", "system", "targets", "valued.c")
        programs = [scrytest.compiled("valued", ["cc", "-g", *each, source, "-lpthread"], source) for each in flags]
        self.start("sh", "-c", " & ".join(f"{program} {number}" for number, program in enumerate(programs)) + " & wait")

    def test_values(self):
        self.valued(["-O0"], ["-O0"], ["-O0"])
        text = self.lines(r"^    wait_for: n = 320 \(all\); at = 0x\.\.\. -> {x = 1.5, y = 2.5, name = \"start\"} \(all\); "
                          r"letter = 113 \(all\); text = \"round 320\" \(all\)$", r"^    main: .*; number: \d, \d, \d;",
                          options=("--values", "--thread", "valued"))
        self.assertIn("nothing was stopped", text)
        self.assertIn("answer", re.search(r"not available: (.*)", text)[1])  # nothing has set it
        self.assertNotIn("n = 320", self.lines("wait_for", options=("--thread", "valued")))

    def test_values_are_right(self):
        """Of waiting and running threads, however compiled: the right value, or none."""
        right = {"n": "320", "letter": "113", "text": '"round 320"'}
        self.valued(["-O0"], ["-O2"], ["-O2", "-fno-omit-frame-pointer"])
        self.lines(r"^valued (\d+, ){2}\d+  .*> wait_for .* > pause$")
        known = set()
        for _ in range(scrytest.rounds(1, 5)):
            answer = self.tree("--values")
            for value in (value for node in answer["nodes"] for value in node["values"]):
                if value["name"] not in (*right, "number", "which", "steady") or value["value"].startswith("<"):
                    continue
                for place in value["processes"]:
                    with open(f"/proc/{answer['processes'][place]['pid']}/cmdline", encoding="ascii") as file:
                        number = file.read().split("\0")[1]
                    self.assertEqual(value["value"], right.get(value["name"], number), value)
                    known.add((value["name"], number))
        for number in "012":
            self.assertLessEqual({("n", number), ("number", number)}, known)

    def test_files(self):
        """Of processes together, a line for each file; where they are in it."""
        paths = [self.box.path("work", name) for name in ("read me", "log")]
        with open(paths[0], "wb") as file:
            file.write(bytes(8192))
        program = ("import os, sys, time\nfile = os.open(sys.argv[1], os.O_RDONLY)\nos.read(file, 4096 * int(sys.argv[3]))\n"
                   "log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)\nends = os.pipe()\nprint('open', flush=True)\n"
                   "time.sleep(1000)\n")
        one = f"{sys.executable} -c \"{program}\" '{paths[0]}' '{paths[1]}'"
        self.start("sh", "-c", f"{one} 1 & {one} 2 & wait")
        text = self.lines(r"^python\S* \d+, \d+  /.*/read me, read, at 4.0 KB .. 8.0 KB, the end, as 3$",
                          r"^python\S* \d+, \d+  /.*/log, write append, empty, as 4$", r"python.*  \d+ pipes$", options=("--files",))
        self.assertIn("open files:", text)
        answer = self.tree("--files")
        rows = [each for each in answer["files"] if each["path"] == paths[0]]
        self.assertEqual(sorted(each.pop("offset") for each in rows), [4096, 8192])
        self.assertEqual({each.pop("process") for each in rows}, {i for i, each in enumerate(answer["processes"]) if each["name"].startswith("python")})
        self.assertEqual(rows, [{"fd": 3, "kind": "file", "path": paths[0], "flags": "read", "size": 8192}] * 2)
        self.assertIsNone(self.tree()["files"])

    def test_python(self):
        path = self.box.path("work", "hot.py")
        with open(path, "w", encoding="ascii") as file:
            file.write(textwrap.dedent("""\
                import threading, time
                def inner(value):
                    time.sleep(1000)
                def spin():
                    while True:
                        pass
                threading.Thread(target=spin, daemon=True).start()
                sorted([1], key=inner)
                """))
        self.start(sys.executable, path)
        text = self.lines(r"<module> \(hot.py:8\) > inner \(hot.py:3\) > \S*nanosleep$", r"> spin \(hot.py:\d\), runs$")
        self.assertNotIn("PyEval", text)
        nodes = self.tree()["nodes"]
        self.assertEqual({node["language"] for node in nodes}, {"native", "python"})

    def test_python_below_a_library_without_callers(self):
        """The stack of C ends in it: what Python called before stands further out than all of it, in its order."""
        path = self.box.path("work", "blind.py")
        with open(path, "w", encoding="ascii") as file:
            file.write(textwrap.dedent(f"""\
                import ctypes, time
                lib = ctypes.CDLL({scrytest.blind_library()!r})
                def inner():
                    time.sleep(1000)
                called = ctypes.CFUNCTYPE(None)(inner)
                def outer():
                    lib.blind(called)
                outer()
                """))
        self.start(sys.executable, path)
        self.lines(r"<module> \(blind.py:8\) > outer \(blind.py:7\) > \(callers are not known\) > .*inner \(blind.py:4\) > \S*nanosleep$")

    def test_pids(self):
        """Of a process that scry did not start, and what this has started; no monitor runs before, and nothing is stopped."""
        path, said = self.box.path("work", "parent.py"), []
        with open(path, "w", encoding="ascii") as file:
            file.write(textwrap.dedent(f"""\
                import subprocess
                def wait_for(child):
                    child.wait()
                wait_for(subprocess.Popen([{scrytest.example("hang")!r}]))
                """))
        parent = self.box.start([sys.executable, path])

        def stands():
            said[:] = [self.box.run(self.box.scry("stack", str(parent.pid)))]
            return re.search(rf"^python\S* {parent.pid}  <module> \(parent.py:4\) > wait_for \(parent.py:3\) > ", said[0].stdout, re.M) and \
                len(re.findall(r"> take_both \(hang.c:37\) > pthread_mutex_lock$", said[0].stdout, re.M)) == 2

        scrytest.wait_until(stands, 40, lambda: said[0].stdout + said[0].stderr)
        self.assertRegex(said[0].stdout, r"\A3 threads of 2 processes, read in .*; nothing was stopped\n")
        (child,) = scrytest.children(parent.pid)
        before = [self.voluntary(pid) for pid in (parent.pid, child)]
        done = self.box.run(self.box.scry("snapshot", "--json", str(child), "4194304"))
        self.assertEqual([self.voluntary(pid) for pid in (parent.pid, child)], before)
        self.assertEqual((done.returncode, done.stderr), (1, "scry snapshot: there is no process 4194304 on this node, nor a job of that name\n"))
        answer = json.loads(done.stdout)
        self.assertEqual(list(schematest.violations(answer, schematest.schema("snapshot"))), [])
        (process,) = answer["processes"]
        self.assertEqual((answer["id"], process["pid"], process["ppid"], process["name"], process["threads"]), (None, child, parent.pid, "hang", 2))
        os.kill(child, signal.SIGKILL)
        parent.wait(60 * scrytest.SCALE)

    def test_ended(self):
        self.start("true")
        self.job.wait(60 * scrytest.SCALE)
        done = self.box.run(self.box.scry("snapshot", self.path))
        self.assertEqual(done.returncode, 1)
        self.assertIn("does not run", done.stderr)


class Ranks(SnapshotCase, mpitest.MpiCase):
    def test_ranks(self):
        self.start(*self.command(4, self.program("mpi_straggler")))
        self.lines(r"^ranks 0,2,3 \(3\)  main \(mpi_straggler.c:\d+\) > MPI_Allreduce", r"^rank 1  .*large_part .*, runs$",
                   options=("--thread", "main"))
        text = self.lines("large_part", options=("--rank", "1", "--thread", "main"))
        self.assertIn("1 thread of 1 rank", text)
        answer = self.tree()
        self.assertEqual([each["rank"] for each in answer["processes"]][:4], [0, 1, 2, 3])
        self.assertIn(-1, [each["rank"] for each in answer["processes"]])  # the launcher
        wrong = self.box.run(self.box.scry("snapshot", "--rank", "7-9", self.path))
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("no process of the job is one of the ranks 7-9", wrong.stderr)
        wrong = self.box.run(self.box.scry("snapshot", "--rank", "1-", self.path))
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("is no set of ranks", wrong.stderr)

    def test_queues(self):
        """Of a rank that receives from any, a line; others have nothing begun."""
        name = "mpi_served" if self.mpi == "openmpi" else "mpi_served_mpich"
        self.start(*self.command(3, scrytest.built("test", "system", "targets", name), self.box.path("work", "release")))
        text = self.lines(r"^rank 0  MPI_Irecv from any rank, tag 7, 64 B, begun .* ago$", "^rank 0  .*MPI_Recv",
                          options=("--queues", "--thread", "main"))
        self.assertEqual(text.count("MPI_Irecv"), 1)
        self.assertRegex(text, r"(?m)^note: not all messages to ranks 0-2 \(3\) are known: messages are not counted")
        text = self.lines("no request of MPI is begun", options=("--queues", "--rank", "1,2", "--thread", "main"))
        (operation,) = self.tree("--queues")["operations"]
        self.assertGreater(operation.pop("seconds"), 0)
        self.assertEqual(operation, {"process": 0, "call": "MPI_Irecv", "kind": "receive", "state": "active", "peer": -1,
                                     "tag": 7, "comm": 0, "bytes": 64})
        self.assertIsNone(self.tree()["operations"])

    @scrytest.thorough
    def test_messages(self):
        """What was sent and not received."""
        program = mpitest.compile_program(self.mpi, "unreceived.c")
        self.start(*self.command(3, program, self.box.path("work", "release")), options=["--mpi", "messages"])
        self.lines(r"^rank 0  from rank 1, tag 5, 400 B, 3 messages, the oldest sent .* ago$",
                   r"^rank 0  from rank 2, tag 5, 400 B, 3 messages, the oldest sent .* ago$",
                   options=("--queues", "--thread", "main"))
        rows = self.tree("--queues")["messages"]
        self.assertEqual([(each["process"], each["rank"], each["tag"], each["bytes"], each["doubts"]) for each in rows],
                         [(0, sender, 5, 400, None) for sender in (1, 1, 1, 2, 2, 2)])
        self.lines(r"^no message of MPI is known", options=("--queues", "--rank", "1,2", "--thread", "main"))

    def program(self, name):
        return mpitest.example(name, self.mpi)


mpitest.for_each_mpi(Ranks, globals())
scrytest.main()
