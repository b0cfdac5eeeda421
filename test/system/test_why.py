# SPDX-License-Identifier: Apache-2.0
"""scry why, of programs without MPI: what they are blocked in, and threads that wait for each other."""

import json
import os
import re
import shutil
import signal
import sys

import schematest
import scrytest


class Why(scrytest.TestCase):
    def ask(self, path):
        done = self.box.run(self.box.scry("why", "--json", path))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_pipes(self):
        path = self.box.path("work", "job")
        job, last = self.box.start(self.box.scry("run", "-q", "-o", path, "--", "sh", "-c", "sleep 1000 | cat; true")), []

        def blocked():
            if not os.path.exists(os.path.join(path, "job.json")):
                return None
            found = {process["name"]: process for process in self.ask(path)["processes"]}
            last[:] = [found]
            # each comes to its call in its own time, sleep when it is loaded
            return found if {"sh", "sleep", "cat"} <= set(found) and found["cat"]["threads"][0]["waits_for"] and \
                found["sh"]["threads"][0]["waits_for"] and found["sleep"]["threads"][0]["text"] == "sleeps" else None

        found = scrytest.wait_until(blocked, 20, lambda: f"the processes are blocked: {json.dumps(last, indent=1)}")
        (shell,), (cat,), (sleep,) = (found[name]["threads"] for name in ("sh", "cat", "sleep"))
        self.assertEqual((cat["syscall"], cat["fd"], cat["waits_for"]), ("read", 0, [found["sleep"]["pid"]]))
        self.assertIn("a pipe that can be written by process", cat["text"])
        self.assertEqual(sleep["text"], "sleeps")
        self.assertEqual(set(shell["waits_for"]), {found["sleep"]["pid"], found["cat"]["pid"]})
        text = self.box.run(self.box.scry("why", path)).stdout
        self.assertIn("(cat): reads from standard input, a pipe that can be written by process", text)
        os.kill(job.pid, signal.SIGTERM)
        job.wait(60 * scrytest.SCALE)

    @scrytest.thorough
    def test_pool(self):
        """Workers of Python wait for a lock that the parent holds: who shares it and does not wait for it is named, once for all."""
        program, path, said = self.box.path("work", "pool.py"), self.box.path("work", "job"), []
        with open(program, "w", encoding="ascii") as file:
            file.write("import multiprocessing\n"
                       "def begin(given):\n"
                       "    global lock\n"
                       "    lock = given\n"
                       "def work(number):\n"
                       "    with lock:\n"
                       "        return number\n"
                       "if __name__ == '__main__':\n"
                       "    lock = multiprocessing.Lock()\n"
                       "    lock.acquire()\n"
                       "    multiprocessing.Pool(3, begin, (lock,)).map(work, range(3), 1)\n")
        job = self.box.start(self.box.scry("run", "-q", "-o", path, "--", sys.executable, program))

        def blocked():
            if not os.path.exists(os.path.join(path, "job.json")):
                return False
            said.append(self.box.run(self.box.scry("why", path)).stdout)
            return said[-1].count("; 2 more processes wait for it, too, at work (pool.py:6)") == 3

        scrytest.wait_until(blocked, 30, lambda: said[-1] if said else "it starts")
        (parent,) = scrytest.children(job.pid)
        self.assertEqual(said[-1].count(f"): waits for a lock of multiprocessing, in memory that it shares with process {parent} (python3); "), 3)
        workers = [process for process in self.ask(path)["processes"] if process["pid"] != parent]
        self.assertEqual([process["threads"][0]["waits_for"] for process in workers], [[parent]] * 3)
        job.terminate()
        job.wait(60 * scrytest.SCALE)

    def files(self, way, call):
        """Each of two processes waits for the lock that the other one holds, one of them by flock; a third one only waits."""
        program = self.box.path("work", "locks.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write("import fcntl, os, sys\n"
                       "locks = {'a': fcntl.flock, 'b': getattr(fcntl, sys.argv[1])}\n"
                       "lock = lambda file, how: locks[file.name](file, how)\n"
                       "(read, write), (read2, write2) = os.pipe(), os.pipe()\n"
                       "child = os.fork() == 0\n"
                       "own, other = [open(name, 'w') for name in ('ab' if child else 'ba')]\n"
                       "lock(own, fcntl.LOCK_EX)\n"
                       "os.write(write if child else write2, b'.')\n"
                       "os.read(read2 if child else read, 1)\n"
                       "if child and os.fork() == 0:\n"
                       "    own = open('b', 'w')\n"
                       "    lock(own, fcntl.LOCK_EX)\n"
                       "lock(other, fcntl.LOCK_EX)\n")
        answer, text = self.deadlock(lambda answer: answer["deadlocks"], sys.executable, program, way)
        (lock,) = answer["deadlocks"]
        one, other = (thread["pid"] for thread in lock["threads"])
        self.assertIn("deadlock: 2 processes wait for each other's locks of files", text)
        for waits, holds, by in ((one, other, "flock"), (other, one, call)):
            self.assertRegex(text, rf"\n  process {waits} \([^)]*\): waits for [^\n]*\({by}\)[^\n]*, which is held by process {holds} ")

    def test_flock(self):
        self.files("flock", "flock")

    def test_fcntl(self):
        self.files("lockf", "fcntl")

    def shells(self, *lines):
        script = self.box.path("work", "flock.sh")
        with open(script, "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")
        answer, text = self.deadlock(lambda answer: answer["deadlocks"], "bash", script)
        self.assertIn("wait for each other's locks of files\n", text)
        self.assertNotIn("offset", text)
        names = {process["pid"]: process["name"] for process in answer["processes"]}
        return [names[thread["pid"]] for thread in answer["deadlocks"][0]["threads"]], text

    def test_flock_of_shells(self):
        """flock(1) takes a lock for the shell that has the open file, and has ended since."""
        if not shutil.which("flock"):
            self.skipTest("there is no flock")
        names, text = self.shells("two() { exec 7>$1; flock 7; echo >$3; read <$4; exec 6>$2; flock 6; }", "mkfifo x y",
                                  "two a b x y & { exec 7>b; flock 7; read <x; echo >y; exec 6>a; flock 6; } & wait")
        self.assertEqual(names, ["bash", "flock"] * 2, text)

    def test_flock_of_a_parent(self):
        if not shutil.which("flock"):
            self.skipTest("there is no flock")
        names, text = self.shells("exec 9>a; flock 9", "( exec 8>a; flock 8; echo inner )")
        self.assertEqual(names, ["bash", "bash", "flock"], text)

    def test_pipes_of_each_other(self):
        """Each of two processes writes more than its pipe holds before it reads; both have all ends. Then one can go on."""
        program = self.box.path("work", "pipes.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write("import os, sys\n"
                       "mine, other = os.pipe(), os.pipe()\n"
                       "if os.fork() == 0:\n"
                       "    mine, other = other, mine\n"
                       "os.write(mine[1], b'x' * 1000000)\n"
                       "os.read(other[0], 1)\n")
        answer, text = self.deadlock(lambda answer: answer["deadlocks"], sys.executable, program)
        (lock,) = answer["deadlocks"]
        one, other = (thread["pid"] for thread in lock["threads"])
        self.assertTrue(text.splitlines()[1].startswith("deadlock: 2 processes wait for each other"), text)
        for pid in one, other:
            self.assertRegex(text, rf"\n  process {pid} \([^)]*\): writes to a pipe that can be read by [^\n]*, at <module> \(pipes.py:5\)")

    def test_processes(self):
        """Of processes that scry did not start: of the root of their tree, or of each; a number that is none."""
        program = self.box.path("work", "pipes.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write("import os\n"
                       "mine, other = os.pipe(), os.pipe()\n"
                       "if os.fork() == 0:\n"
                       "    mine, other = other, mine\n"
                       "os.write(mine[1], b'x' * 1000000)\n"
                       "os.read(other[0], 1)\n")
        parent, said = self.box.start([sys.executable, program]), []

        def stands():
            said[:] = [self.box.run(self.box.scry("why", str(parent.pid)))]
            return said[0].returncode == 3

        scrytest.wait_until(stands, 20, lambda: said[0].stdout + said[0].stderr)
        (child,) = scrytest.children(parent.pid)
        text = said[0].stdout
        self.assertTrue(text.startswith("deadlock: 2 processes wait for each other"), text)
        for pid in parent.pid, child:
            self.assertRegex(text, rf"\n  process {pid} \([^)]*\): writes to a pipe that can be read by [^\n]*, at <module> \(pipes.py:5\)")
        done = self.box.run(self.box.scry("why", "--json", str(child), str(parent.pid)))
        answer = json.loads(done.stdout)
        with open(os.path.join(scrytest.SOURCE, "doc/reference/why.schema.json"), encoding="utf-8") as file:
            self.assertEqual(list(schematest.violations(answer, json.load(file))), [])
        self.assertEqual((done.returncode, answer["id"], answer["mpi"], len(answer["deadlocks"])), (3, None, None, 1))
        self.assertEqual({process["pid"] for process in answer["processes"]}, {parent.pid, child})
        done = self.box.run(self.box.scry("top", str(parent.pid)))
        self.assertRegex(done.stdout, rf"\Ascry {parent.pid} python3\S*  running  [^\n]*\n(.*\n)*2 processes \(2 so far\), 2 threads, cpu ")
        for pid in parent.pid, child:
            self.assertRegex(done.stdout, rf"\n *{pid} S +0.0 +[0-9.]+ MB +[0-9.]+ m?s +1  python3")
        os.kill(child, signal.SIGKILL)
        parent.kill()
        parent.wait(60 * scrytest.SCALE)
        done = self.box.run(self.box.scry("why", str(parent.pid)))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"there is no process {parent.pid} on this node, nor a job of that name", done.stderr)

    def test_pipes_of_a_third(self):
        """It may write into both."""
        path, program = self.box.path("work", "job"), self.box.path("work", "pipes.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write("import os, time\n"
                       "mine, other = os.pipe(), os.pipe()\n"
                       "if os.fork() == 0:\n"
                       "    mine, other = other, mine\n"
                       "elif os.fork() == 0:\n"
                       "    time.sleep(1000)\n"
                       "os.read(mine[0], 1)\n")
        job = self.box.start(self.box.scry("run", "-q", "-o", path, "--", sys.executable, program))

        def read():
            answer = self.ask(path) if os.path.exists(os.path.join(path, "job.json")) else {"processes": []}
            calls = [thread["syscall"] for process in answer["processes"] for thread in process["threads"]]
            return answer if sorted(calls) == ["clock_nanosleep", "read", "read"] else None

        answer = scrytest.wait_until(read, 20, "two read, one sleeps")
        self.assertEqual(answer["deadlocks"], [])
        os.kill(job.pid, signal.SIGTERM)
        job.wait(60 * scrytest.SCALE)

    def deadlock(self, until, *command):
        """Asks until there is one: the answer, and the text. Exit status 3."""
        path = self.box.path("work", "job")
        job = self.box.start(self.box.scry("run", "-q", "-o", path, "--", *command))
        scrytest.wait_until(lambda: os.path.exists(os.path.join(path, "job.json")), 20, "the job starts")
        answers = []

        def found():
            done = self.box.run(self.box.scry("why", "--json", path))
            answers.append(json.loads(done.stdout))
            with open(os.path.join(scrytest.SOURCE, "doc", "reference", "why.schema.json"), encoding="utf-8") as file:
                self.assertEqual(list(schematest.violations(answers[-1], json.load(file))), [])
            self.assertEqual(done.returncode, 3 if answers[-1]["deadlocks"] else 0, done.stderr)
            return until(answers[-1])

        scrytest.wait_until(found, 30, lambda: json.dumps(answers[-1], indent=1))
        done = self.box.run(self.box.scry("why", path))
        self.assertEqual(done.returncode, 3)
        os.kill(job.pid, signal.SIGTERM)
        job.wait(60 * scrytest.SCALE)
        return answers[-1], done.stdout

    def test_locks(self):
        """A circle of mutexes, with lines."""
        answer, text = self.deadlock(lambda answer: answer["deadlocks"], scrytest.example("hang"))
        (lock,) = answer["deadlocks"]
        (process,) = answer["processes"]
        held = {thread["tid"]: thread["waits_for"] for thread in process["threads"]}
        one, other = (thread["tid"] for thread in lock["threads"])
        self.assertEqual((held[one], held[other]), ([other], [one]))
        self.assertEqual([(os.path.basename(each["file"]), each["function"]) for each in lock["threads"]],
                         [("hang.c", "take_both")] * 2)
        with open(os.path.join(scrytest.SOURCE, "examples", "hang.c"), encoding="utf-8") as file:
            (line,) = (number for number, text in enumerate(file, 1) if "pthread_mutex_lock(other)" in text)
        self.assertEqual([each["line"] for each in lock["threads"]], [line] * 2)
        self.assertRegex(text, rf"\ndeadlock: 2 threads of process \d+ \(hang\) wait for each other\n  thread {one} \(hang\): waits "
                               rf"for a mutex that is held by thread {other} \(hang\), at take_both \(hang.c:{line}\)\n  thread "
                               rf"{other} ")

    @scrytest.thorough
    def test_own_lock(self):
        """Of C++, beside a thread that goes on."""
        source = self.box.path("work", "own.cc")
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include <mutex>\n#include <thread>\n#include <unistd.h>\nstatic std::mutex mutex;\n"
                       "static void twice() {\n std::lock_guard<std::mutex> once(mutex);\n"
                       " std::lock_guard<std::mutex> again(mutex);\n}\n"
                       "int main() {\n std::thread other([] { for (;;) usleep(1000); });\n twice();\n}\n")
        for optimised in ("-O0", "-O2"):
            program = self.box.path("work", "own" + optimised)
            done = self.box.run(["g++", "-g", optimised, "-o", program, source, "-lpthread"])
            self.assertEqual(done.returncode, 0, done.stderr)
            answer, text = self.deadlock(lambda answer: answer["deadlocks"], program)
            (lock,) = answer["deadlocks"]
            (thread,) = lock["threads"]
            self.assertEqual((thread["tid"], os.path.basename(thread["file"]), thread["line"]), (lock["pid"], "own.cc", 7))
            self.assertIn(f"thread {lock['pid']} of process {lock['pid']} (own{optimised}) waits for a mutex that it holds "
                          "itself\n", text)
            shutil.rmtree(self.box.path("work", "job"))

    def test_fifos(self):
        """Two shells wait for who opens two FIFOs: what for is said, and that nobody of the job will, in the second line."""
        path, said = self.box.path("work", "job"), []
        job = self.box.start(self.box.scry("run", "-q", "-o", path, "--", "sh", "-c",
                                           "mkfifo p q; sh -c 'read line <p; true' & sh -c 'echo >q; true' & wait"))

        def blocked():
            if os.path.exists(os.path.join(path, "job.json")):
                said.append(self.box.run(self.box.scry("why", path)))
            return said and "opens p for writing" in said[-1].stdout and "opens q for reading" in said[-1].stdout and \
                "\nstuck" in said[-1].stdout

        scrytest.wait_until(blocked, 30, lambda: said[-1].stdout if said else "it starts")
        head, *fifos = said[-1].stdout.splitlines()[1:4]
        self.assertEqual(head, "stuck: all of its processes wait, 2 of them until somebody opens a FIFO")
        self.assertEqual(sorted(fifos), [  # by the numbers of the processes
            "  nobody has opened p for writing; no process of this job has that in its script or its command",
            "  nobody has opened q for reading; no process of this job has that in its script or its command"])
        self.assertRegex(said[-1].stdout, r"\(sh\): waits until somebody opens p for writing\n")
        self.assertEqual(said[-1].returncode, 0)  # somebody may
        processes = [process["pid"] for process in self.ask(path)["processes"]]
        for pid in processes:
            os.kill(pid, signal.SIGKILL)
        job.wait(60 * scrytest.SCALE)

    @scrytest.thorough
    def test_fifos_crosswise(self):
        """Each of two processes would open, next, the end that the other one waits for: a deadlock. Of one FIFO who has it in its script is said."""
        users = {"later": r"\(bash\) has that in its script or its command, and itself waits for the end of [^\n]*",
                 "itself": r"\(bash\) has that in its script or its command, but is the one that waits here",
                 "named": r"\(python3\) has its name in its script or its command, and itself waits until somebody opens q for writing, at <module> \(read\.py:2\)",
                 "outside": r"\((bash|cat)\) has its name in its script or its command, and itself waits [^\n]*"}
        for name, shell, script, second in (
                ("cross", "bash", "mkfifo p q\n( read x <p; echo a >q ) &\n( read y <q; echo b >p ) &\nwait\n", "deadlock: 2 processes wait for each other to open FIFOs"),
                ("dash", "dash", "mkfifo p q\n( read x <p; echo a >q ) &\n( read y <q; echo b >p ) &\nwait\n", "deadlock: 2 processes wait for each other to open FIFOs"),
                ("cat", "bash", "mkfifo p q\ncat p >q &\ncat q >p &\nwait\n", "deadlock: 2 processes wait for each other to open FIFOs"),
                ("outside", "bash", "mkfifo p q\n( cat p; true ) &\n( cat q; true ) &\nwait\n", "stuck: all of its processes wait, 2 of them until somebody opens a FIFO"),
                ("given", "bash", "mkfifo p q\npython3 copy.py p q &\npython3 copy.py q p &\nwait\n", "deadlock: 2 processes wait for each other to open FIFOs"),
                ("named", "bash", "mkfifo p q\npython3 read.py p q &\npython3 read.py q p &\nwait\n", "stuck: all of its processes wait, 2 of them until somebody opens a FIFO"),
                ("itself", "bash", "mkfifo p\nread x <p\necho a >p\n", "stuck: all of its processes wait, 1 of them until somebody opens a FIFO"),
                ("later", "bash", "mkfifo p\n( read x <p; true ) &\nwait\necho a >p\n", "stuck: all of its processes wait, 1 of them until somebody opens a FIFO")):
            with self.subTest(name):
                work = self.box.path("work", name)
                os.makedirs(work)
                with open(os.path.join(work, "job.sh"), "w", encoding="ascii") as file:
                    file.write(script)
                for name_of, output in (("copy", "with open(sys.argv[2], 'w') as output:\n    pass\n"), ("read", "")):
                    with open(os.path.join(work, name_of + ".py"), "w", encoding="ascii") as file:
                        file.write("import sys\nwith open(sys.argv[1]) as file:\n    pass\n" + output)
                path, said = os.path.join(work, "job"), []
                job = self.box.start(self.box.scry("run", "-q", "-o", path, "--", shell, "job.sh"), cwd=work)

                def stands():
                    if os.path.exists(os.path.join(path, "job.json")):
                        said.append(self.box.run(self.box.scry("why", path)))
                    return said and second in said[-1].stdout

                scrytest.wait_until(stands, 30, lambda: said[-1].stdout if said else "it starts")
                self.assertEqual(said[-1].stdout.splitlines()[1], second)
                self.assertEqual(said[-1].returncode, 3 if second.startswith("deadlock") else 0)
                if name in users:
                    self.assertRegex(said[-1].stdout, r"\n  nobody has opened p for writing(\n    [^\n]*)*\n    process \d+ " + users[name] + r"\n")
                for process in json.loads(self.box.run(self.box.scry("why", "--json", path)).stdout)["processes"]:
                    os.kill(process["pid"], signal.SIGKILL)
                job.wait(60 * scrytest.SCALE)

    def test_python_waits(self):
        """What a Python program waits for is said in its words, with the line of its own code."""
        program = self.box.path("work", "q.py")
        with open(program, "w", encoding="ascii") as file:
            file.write("import multiprocessing as mp, queue, sys, threading\n"
                       "def get(q):\n    return q.get()\n"
                       "def locked(lock):\n    with lock:\n        pass\n"
                       "if sys.argv[1] == 'queue':\n    get(mp.Queue())\n"
                       "elif sys.argv[1] == 'lock':\n    lock = mp.Lock()\n    lock.acquire()\n    locked(lock)\n"
                       "elif sys.argv[1] == 'accept':\n    import socket\n    socket.create_server(('127.0.0.1', 0)).accept()\n"
                       "elif sys.argv[1] == 'join':\n    q = mp.Queue()\n    child = mp.Process(target=q.put, args=('x' * 1000000,))\n    child.start()\n    child.join()\n"
                       "else:\n    threading.Thread(target=get, args=(queue.Queue(),)).start()\n")
        for way, said in (("queue", r"waits for an item in a queue of multiprocessing \(reads from a pipe [^\n]*\), at get \(q\.py:3\)\n"),
                          ("lock", r"waits for a lock of multiprocessing, in memory that it shares with [^\n]*, at locked \(q\.py:5\)\n"),
                          ("accept", r"waits for a client at TCP port \d+, at <module> \(q\.py:15\)\n"),
                          ("join", r"\ndeadlock: 2 processes wait for each other\n  process \d+ \([^)]*\): waits for the end of process \d+ \([^)]*\), at <module> \(q\.py:20\)\n"
                                   r"  process \d+ \([^)]*\): waits for somebody to read what it has put into a queue of multiprocessing, at <module> \(q\.py:19\)\n"),
                          ("thread", r"waits for an item in a queue, at get \(q\.py:3\)\n")):
            with self.subTest(way):
                path, last = self.box.path("work", way), []
                job = self.box.start(self.box.scry("run", "-q", "-o", path, "--", sys.executable, program, way))

                def stands():
                    if os.path.exists(os.path.join(path, "job.json")):
                        last.append(self.box.run(self.box.scry("why", path)).stdout)
                    return last and re.search(said, last[-1])

                scrytest.wait_until(stands, 30, lambda: last[-1] if last else "it starts")
                for process in json.loads(self.box.run(self.box.scry("why", "--json", path)).stdout)["processes"]:
                    os.kill(process["pid"], signal.SIGKILL)
                job.wait(60 * scrytest.SCALE)

    def test_ended(self):
        """Of a job that is over: how it ended, what it said last, what is missing; never that nothing is left."""
        def ended(script, *options):
            path = self.box.path("work", f"ended{len(os.listdir(self.box.path('work')))}")
            with open(path + ".err", "w", encoding="ascii") as errors:
                done = self.box.start(self.box.scry("run", "-o", path, *options, "sh", "-c", script), stderr=errors)
                done.wait(60 * scrytest.SCALE)
            return self.box.run(self.box.scry("why", path)).stdout.split(" ", 2)[2]

        self.assertEqual(ended("exit 0"), "ended: exit status 0\n")
        self.assertRegex(ended("echo mesh is too coarse in step 7 >&2; exec false"),
                         r"^failed: false \(pid \d+\) ended with exit status 1; it said: mesh is too coarse in step 7\n")
        self.assertRegex(ended("{ echo reading; echo step 7; } >&2; exec false"),
                         r"^failed: false \(pid \d+\) ended with exit status 1; it said last: reading / step 7\n$")
        more = r"^failed: \S+ \(pid \d+\) ended with exit status 2\n {13}nothing that was recorded says why"
        self.assertRegex(ended("exit 2"), more + "\n$")  # of dash nothing more can be had
        with open(self.box.path("work", "job.sh"), "w", encoding="ascii") as file:
            file.write(":\nexit 2\n")
        script = "exec bash " + self.box.path("work", "job.sh")
        self.assertRegex(ended(script), more + "; scry run --script calls records which command of a script fails\n$")
        self.assertRegex(ended(script, "--script", "calls"), more + "\n$")
        self.assertRegex(ended("exec python3 -c 'import os; os._exit(2)'"),
                         more + "; scry run --script calls records exceptions of Python, also those that are caught\n$")
        self.assertEqual(ended("kill -9 $$").splitlines()[0], "failed: sh was killed by SIGKILL, probably by its own script")
        self.assertRegex(ended("for i in $(seq 300); do /bin/true; done; exec sh -c 'exit 2'", "--max-size", "20K"),
                         r"^ended: exit status 2\n  reason     not known: nothing that was recorded says why\n"
                         r"  warning    recording stopped: the job directory reached its limit .*; \d+ records were lost\n$")

    def test_lost(self):
        """Nobody knows how a lost job ended: it is not said that it failed, and all say the same."""
        lost = "neither the command nor its `scry run` is there any more, and no end was recorded"
        path = self.box.path("work", "lost")
        job = self.box.start(self.box.scry("run", "-q", "-o", path, "--", "sleep", "1000"))
        scrytest.wait_until(lambda: os.path.exists(os.path.join(path, "job.json")) and self.ask(path)["processes"], 30, "it runs")
        (sleep,) = [process["pid"] for process in self.ask(path)["processes"]]
        job.kill()
        job.wait()
        os.kill(sleep, signal.SIGKILL)
        scrytest.wait_until(lambda: self.ask(path)["state"] == "lost", 30, "it is lost")
        self.assertRegex(self.box.run(self.box.scry("why", path)).stdout, rf"^job \S+ was lost: {lost}\n$")
        report = self.box.run(self.box.scry("report", path)).stdout
        self.assertIn(f"was lost: {lost}\n", report)
        self.assertNotIn("  reason ", report)
        listed, = json.loads(self.box.run(self.box.scry("ps", "--all", "--json"), env={"SCRY_STATE_DIR": self.box.path("work")}).stdout)["jobs"]
        self.assertEqual((listed["state"], listed["cause"]), ("lost", lost))

    def test_wrong_arguments(self):
        for arguments in ((), ("a", "b"), ("--settled", "x", "a"), ("--nonsense", "a")):
            self.assertEqual(self.box.run(self.box.scry("why", *arguments)).returncode, 2)
        self.assertEqual(self.box.run(self.box.scry("why", "nowhere")).returncode, 1)


scrytest.main()
