# SPDX-License-Identifier: Apache-2.0
"""`scry run --trace`: functions are counted exactly, with their values; the program is not changed by it."""

import json
import os
import re
import shutil
import signal
import subprocess

import scrytest
from jobtest import target
from scrytest import wait_until
from tracetest import TraceCase


class Counts(TraceCase):
    def test_calls(self):
        """Without an option the program's own functions are recorded."""
        done, said = self.traced("calls", 50)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(said, {"work": 50, "leaf": 100})
        self.assertEqual(self.calls(), said)

    def test_places_and_times(self):
        self.traced("calls", 50, options=["--trace", "fn:work fn:leaf"])
        rows = {row["name"]: row for row in self.report()["functions"]}
        for name, row in rows.items():
            self.assertTrue(row["file"].endswith("traced.c"), row)
            self.assertGreater(row["line"], 0)
            self.assertLessEqual(row["min_ns"], row["max_ns"])
            self.assertLessEqual(row["self_ns"], row["total_ns"])
            self.assertGreater(row["total_ns"], 0, name)
        self.assertGreater(rows["work"]["total_ns"], rows["leaf"]["total_ns"])

    def test_selection(self):
        for selection, names in (("fn:work", {"work"}), ("leaf", {"leaf"}), ("file:traced.c !fn:le*", {"work"}),
                                 ("file:other.c", set()), ("lib:traced", {"work", "leaf"}), ("!work", {"leaf"})):
            with self.subTest(selection=selection):
                done, said = self.traced("calls", 10, options=["--trace", selection])
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(self.calls(), {name: said[name] for name in names})

    def test_wrong_selection(self):
        """One line of error, whatever its source, and nothing is run."""
        for selection, said in (("fn:[", "'fn:[' at character 1 has a [ that is not closed"),
                                ("main fn:[a-", "'fn:[a-' at character 6 has a ["), ("fnn:x", "'fnn:' at character 1")):
            with self.subTest(selection=selection):
                for options, env in ((["--trace", selection], {}), ([], {"SCRY_TRACE": selection})):
                    done = self.scry_run(*options, "--", "touch", "ran", env=env)
                    self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (125, "", 1), done)
                    self.assertIn(said, done.stderr)
                self.assertFalse(os.path.exists(self.box.path("work", "ran")))

    def test_removed_meanwhile(self):
        """Whoever removes the trace while the job runs learns that, and no advice on compiling."""
        job = self.box.path("work", "job")
        done = self.scry_run("--trace", "fn:leaf", "-o", job, "--", "sh", "-c",
                             f"{target()} calls 5; until grep -q '^state.exited' {job}/trace/*/*/.process; do :; done; "
                             f"rm -r {job}/trace")
        self.assertEqual(done.returncode, 0, done.stderr)
        said = [line for line in done.stderr.splitlines() if "warning" in line]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertIn(f"the recorded calls (20 records) are gone: {job}/trace was removed", said[0])
        self.assertNotIn("-finstrument-functions", done.stderr)
        replay = self.box.run(self.box.scry("replay", job))
        self.assertEqual(replay.returncode, 1)
        self.assertIn("was removed while the job ran", replay.stderr)

    def test_moved_meanwhile(self):
        """The same if only what was in its directory has gone elsewhere."""
        job = self.box.path("work", "job")
        done = self.scry_run("--trace", "fn:leaf", "-o", job, "--", "sh", "-c",
                             f"{target()} calls 5; until grep -q '^state.exited' {job}/trace/*/*/.process; do :; done; "
                             f"mv {job}/trace/* {job}/moved")
        said = f"the recorded calls (20 records) are gone: {job}/trace was emptied while the job ran"
        self.assertIn(said, done.stderr)
        self.assertIn(said, self.box.run(self.box.scry("replay", job)).stderr)

    def test_declared_in_a_header_of_the_system(self):
        """What the program defines itself has its place in the program, whoever else declares it."""
        source, program = self.box.path("work", "own.c"), self.box.path("work", "own")
        with open(source, "w", encoding="ascii") as file:
            file.write("#include <unistd.h>\n#include <stdlib.h>\n\n"
                       "int usleep(useconds_t time)\n{\n    return (int)time - 1;\n}\n\n"
                       "int main(void)\n{\n    return usleep(1);\n}\n")
        subprocess.run(["gcc", "-g", "-O0", "-finstrument-functions", "-o", program, source], check=True)
        done = self.scry_run("--trace", "file:own.c", "--", program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({row["name"]: (os.path.basename(row["file"]), row["line"])
                          for row in self.report()["functions"]}, {"usleep": ("own.c", 5), "main": ("own.c", 9)})

    def test_from_the_environment(self):
        _, said = self.traced("calls", 10, env={"SCRY_TRACE": "fn:work"})
        self.assertEqual(self.calls(), {"work": said["work"]})

    def test_threads(self):
        done, said = self.traced("threads", 200)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(said, {"work": 800, "leaf": 1600})
        self.assertEqual(self.calls(), said)

    def test_fork(self):
        """work(0) before the fork is the parent's; each counts what it has done, the child that, too."""
        done, said = self.traced("fork", 20)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(said, {"work": 42, "leaf": 84})
        self.assertEqual(self.calls(), {"work": 41, "leaf": 82})

    def test_exec(self):
        done, said = self.traced("exec", 20)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(said, {"work": 20, "leaf": 40})
        self.assertEqual(self.calls(), {"work": 21, "leaf": 42})

    def test_spawn(self):
        """posix_spawn, vfork, and a shell between."""
        done, said = self.traced("spawn", 20)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(said, {"work": 60, "leaf": 120})
        self.assertEqual(self.calls(), said)

    def test_many_short_processes(self):
        script = f"for i in 1 2 3 4 5 6 7 8 9 10; do {target()} calls $i; done"
        done = self.scry_run("sh", "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.calls(), {"work": 55, "leaf": 110})

    def test_off(self):
        done, _ = self.traced("calls", 10, options=["--trace", "off"])
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.calls(), {})
        look = ("sh", "-c", "echo ${LD_PRELOAD-none} ${SCRY_AGENT_SOCKET-none}")
        done = self.scry_run("-q", "--trace", "off", "--mpi", "off", *look)
        self.assertEqual(done.stdout, "none none\n")
        done = self.scry_run("-q", "--trace", "off", *look)  # of MPI programs there are statistics all the same
        self.assertIn("libscry-agent.so", done.stdout)
        done, _ = self.traced("calls", 10, env={"SCRY": "off"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Values(TraceCase):
    def replay(self, *arguments):
        done = self.box.run(self.box.scry("replay", *arguments, "@last"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_arguments_and_results(self):
        self.traced("calls", 3, options=["--trace", "fn:leaf", "--args"])
        text = self.replay()
        for i in range(3):
            self.assertRegex(text, rf'leaf\(n = {i}, text = [^)]*"text"')
            self.assertRegex(text, rf'leaf\(n = {-i}, text = [^)]*"more"')
            self.assertRegex(text, rf"= {2 * i + 4}\b")

    def test_locals(self):
        self.traced("calls", 2, options=["--trace", "fn:work fn:leaf", "--args", "--locals"])
        text = self.replay()
        self.assertRegex(text, r"first = 6\b")  # of work(1), at its return
        self.assertRegex(text, r"second = 2\b")
        self.assertRegex(text, r'item = \{[^}]*number = 1\b[^}]*"text"')

    def test_ways_of_reading(self):
        for way in ("direct", "syscall", "victim"):
            with self.subTest(way=way):
                done, _ = self.traced("calls", 2, options=["--trace", "fn:leaf", "--args", "--read-by", way])
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(self.replay(), r'leaf\(n = 1, text = [^)]*"text"')

    def test_depth(self):
        """Pointers are followed so often; texts are shown at any depth."""
        source, program = self.box.path("work", "depth.c"), self.box.path("work", "depth")
        with open(source, "w", encoding="ascii") as file:
            file.write("struct node { struct node *next; const char *text; } a = {0, \"inner\"}, b = {&a, \"outer\"};\n"
                       "int look(struct node *at, const char *text) { return at && text; }\n"
                       "int main(void) { return look(&b, \"text\") - 1; }\n")
        subprocess.run(["gcc", "-g", "-finstrument-functions", "-o", program, source], check=True)
        for depth, shown in (("0", ("text",)), ("1", ("text", "outer")), ("2", ("text", "outer", "inner"))):
            self.scry_run("-q", "--trace", "fn:look", "--args", "--depth", depth, program)
            self.assertEqual({text for text in ("text", "outer", "inner") if f'"{text}"' in self.replay()}, set(shown))


class Opened(TraceCase):
    """A library whose symbols nobody has read yet: the program waits for them when it opens it."""

    PLUGIN = "int plugin_work(int n) { return n + 1; }\n"
    PROGRAM = """#include <dlfcn.h>
        #include <stdio.h>
        int once(const char *path, int i)
        {
            void *library = dlopen(path, RTLD_NOW);
            int (*work)(int) = (int (*)(int))dlsym(library, "plugin_work");
            int result = work(i);
            dlclose(library);
            return result;
        }
        int main(int argc, char **argv)
        {
            for (int i = 0; i < 3; i++)
                printf("%d\\n", once(argv[1], i));
            return 0;
        }
        """

    def test_first_calls(self):
        for name, text, options in (("plugin.so", self.PLUGIN, ["-shared", "-fPIC"]), ("program", self.PROGRAM, [])):
            with open(self.box.path("work", "part.c"), "w", encoding="utf-8") as out:
                out.write(text)
            done = self.box.run(["gcc", "-g", "-finstrument-functions", *options, "part.c", "-o", name])
            self.assertEqual(done.returncode, 0, done.stderr)
        done = self.scry_run("--trace", "all", "--args", "--", "./program", "./plugin.so")
        self.assertEqual((done.returncode, done.stdout), (0, "1\n2\n3\n"))
        done = self.box.run(self.box.scry("replay", "--fn", "plugin_work", "@last"))
        self.assertEqual(re.findall(r"plugin_work\(n = (\d)\)", done.stdout), ["0", "1", "2"], done.stdout + done.stderr)


class Limits(TraceCase):
    def test_min_time(self):
        self.traced("calls", 20, options=["--min-time", "10s"])
        self.assertEqual(self.report()["trace"]["events"], 0)

    def test_max_depth(self):
        _, said = self.traced("calls", 20, options=["--trace", "fn:work fn:leaf", "--max-depth", "1"])
        self.assertEqual(self.calls(), {"work": said["work"]})

    def test_drop(self):
        """A storm into the smallest buffer: what is dropped is counted, and the program is complete."""
        done, said = self.traced("storm", 3000000, options=["--trace", "all", "--buffer", "1M", "--overflow", "drop"])
        self.assertEqual(done.returncode, 0, done.stderr)
        trace = self.report()["trace"]
        # a call that is dropped is an entry and an exit
        self.assertIn(2 * said["hot"], (trace["events"] + trace["discarded"], trace["events"] + 2 * trace["discarded"]))

    def test_wait(self):
        done, said = self.traced("storm", 300000, options=["--buffer", "1M", "--overflow", "wait"])
        self.assertEqual(done.returncode, 0, done.stderr)
        trace = self.report()["trace"]
        self.assertEqual(trace["events"] + trace["discarded"], 2 * said["hot"])

    def test_all_calls_counted(self):
        """What is overwritten, or beyond a limit, is counted by function, and each table says that it is not whole."""
        for options in (["--trace", "all", "--max-size", "1M"], ["--overflow", "flight", "--buffer", "1M"]):
            with self.subTest(options=options):
                done, said = self.traced("calls", 80000, options=options)
                self.assertEqual(done.returncode, 0, done.stderr)
                report = self.report()
                self.assertEqual({row["name"]: row["calls"] + row["tallied"] for row in report["functions"]
                                  if row["name"] in said}, said)
                self.assertGreater(sum(row["unkept"] for row in report["functions"]), 0)
                for row in report["functions"]:
                    self.assertGreaterEqual(row["total_ns"], row["self_ns"], row)
                text = self.scry("report", "@last").stdout
                missing = report["trace"]["overwritten"]
                events = 2 * (sum(said.values()) - report["trace"]["tallied"])
                self.assertEqual(text.count(f"  not whole: of {events} events {missing} are missing"),
                                 text.count("\nFunctions") + text.count("\nWho calls") + text.count("\nSlowest"), text)

    @scrytest.thorough
    def test_hottest_only_counted(self):
        """Without an option: functions whose records cost more than they tell are counted only, and named."""
        done, said = self.traced("storm", 250000)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = self.report()
        self.assertFalse(report["trace"]["calls_at_least"])
        trace, (hot,) = report["trace"], [row for row in report["functions"] if row["name"] == "hot"]
        self.assertEqual(hot["calls"] + hot["tallied"], said["hot"])
        self.assertEqual((hot["thinned"], trace["thinned"], trace["tallied"]), (hot["tallied"],) * 3)
        self.assertLess(trace["events"], 100000)
        self.assertRegex(done.stderr, rf"; {trace['tallied']} calls of hot were only counted, since records cost more")
        self.assertIn(f"  (of {said['hot']}: the others only counted)", self.scry("report", "@last").stdout)
        self.assertIn("thinned", self.scry("replay", "--json", "@last").stdout)
        done, said = self.traced("storm", 30000, options=["--trace", "all"])
        self.assertEqual((self.calls(), self.report()["trace"]["tallied"]), (said, 0))

    def test_hottest_not_counted(self):
        """Functions for which even that costs as much as they do: their number is a lower bound, and is said to be one."""
        done, said = self.traced("storm", 6000000)
        self.assertEqual(done.returncode, 0, done.stderr)
        trace, (hot,) = self.report()["trace"], [row for row in self.report()["functions"] if row["name"] == "hot"]
        self.assertEqual((hot["calls_at_least"], trace["calls_at_least"]), (True, True))
        self.assertTrue(2 << 17 <= hot["tallied"] < said["hot"], hot)
        known = hot["calls"] + hot["tallied"]
        self.assertRegex(done.stderr, rf"; at least {trace['tallied']} calls of hot were only counted")
        self.assertIn(f"  (of at least {known}: the others only counted)", self.scry("report", "@last").stdout)

    def test_flight(self):
        """The last calls are kept, the first are not."""
        done, _ = self.traced("storm", 1000000, options=["--buffer", "1M", "--overflow", "flight", "--args"])
        self.assertEqual(done.returncode, 0, done.stderr)
        trace = self.report()["trace"]
        self.assertGreater(trace["events"], 0)
        self.assertLess(trace["bytes"], 8 << 20)
        done = self.box.run(self.box.scry("replay", "@last"))
        self.assertIn("hot(i = 999999)", done.stdout)
        self.assertNotIn("hot(i = 5)", done.stdout)


class Untouched(TraceCase):
    def both(self, *arguments, **options):
        """The same without and with tracing; stdout, status of each."""
        alone = self.box.run([target(), *arguments], **options)
        traced = self.scry_run("-q", "--trace", "all", "--args", "--locals", "--", target(), *arguments, **options)
        self.assertEqual(traced.stderr, alone.stderr)
        return alone, traced

    def test_exit_status(self):
        for status in (0, 1, 42, 255):
            alone, traced = self.both("exit", status)
            self.assertEqual((alone.returncode, traced.returncode), (status, status))

    def test_signals(self):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGUSR1):
            _, traced = self.both("kill", int(number))
            self.assertEqual(traced.returncode, 128 + number)
            self.assertEqual(self.report()["signal"], number)

    def test_handlers_and_masks(self):
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGUSR1):
            alone, traced = self.both("handle", int(number))
            self.assertEqual((traced.returncode, traced.stdout), (alone.returncode, alone.stdout), number)

    def test_crash(self):
        """It ends as it would have, and the calls up to the crash are there."""
        done, _ = self.traced("crash", 5)
        self.assertEqual(done.returncode, 128 + signal.SIGSEGV)
        self.assertEqual(self.report()["signal"], signal.SIGSEGV)
        calls = self.calls()
        self.assertEqual({name: calls[name] for name in ("work", "leaf", "deep")}, {"work": 2, "leaf": 4, "deep": 6})

    def test_descriptors(self):
        alone, traced = self.both("fds", stdin=subprocess.DEVNULL)
        self.assertEqual(traced.stdout, alone.stdout)

    def test_streams(self):
        done = self.scry_run("-q", "--trace", "all", "--", "sh", "-c", f"cat; {target()} calls 1 >&2", input="abc\n" * 100)
        self.assertEqual(done.stdout, "abc\n" * 100)
        self.assertEqual(done.stderr, "calls work 1\ncalls leaf 2\n")

    def test_own_preload_stays(self):
        """What is in LD_PRELOAD is kept, after the agent; blanks and colons separate it."""
        done = self.scry_run("-q", "sh", "-c", 'echo "$LD_PRELOAD"',
                             env={"LD_PRELOAD": "libm.so.6 libdl.so.2",
                                  # a sanitized scry would not start with anything before its own library
                                  "ASAN_OPTIONS": f"{self.box.env.get('ASAN_OPTIONS', '')}:verify_asan_link_order=0"})
        first, *rest = done.stdout.strip().split(":")
        self.assertEqual(os.path.basename(first), "libscry-agent.so")
        self.assertEqual(rest, ["libm.so.6", "libdl.so.2"])

    def test_nested(self):
        """A scry run in a scry run: one library, the inner job."""
        done = self.box.run(self.box.scry("run", "-q", *self.box.scry("run", "-q", "sh", "-c", "echo $LD_PRELOAD")))
        self.assertEqual(done.stdout.count("libscry-agent.so"), 1)
        inner = self.box.scry("run", "-q", "--trace", "off", "--mpi", "off", "sh", "-c", "echo x$LD_PRELOAD")
        done = self.box.run(self.box.scry("run", "-q", *inner))
        self.assertEqual(done.stdout, "x\n")

    def test_library_in_a_place_with_blanks(self):
        os.mkdir(self.box.path("work", "a b:c"))
        library = self.box.path("work", "a b:c", "libscry-agent.so")
        os.symlink(os.path.realpath(self.box.path("lib", "libscry-agent.so")), library)
        with open(os.path.realpath(library), "rb") as source:
            os.remove(library)
            with open(library, "wb") as copy:
                copy.write(source.read())
        done, said = self.traced("calls", 5, env={"SCRY_AGENT_LIB": library})
        self.assertEqual((done.returncode, said["work"]), (0, 5))
        self.assertEqual(self.calls()["work"], 5)
        self.assertNotIn("ld.so", done.stderr)


class Refused(TraceCase):
    def test_library_missing(self):
        done, said = self.traced("calls", 1, options=["--trace", "all"], env={"SCRY_AGENT_LIB": "/nonexistent/x.so"})
        self.assertEqual((done.returncode, said["work"]), (0, 1))
        self.assertIn("SCRY_AGENT_LIB", done.stderr)
        self.assertNotIn("ld.so", done.stderr)

    def test_statically_linked(self):
        done = self.scry_run("--trace", "all", "--", target("traced_static"), "calls", "1")
        self.assertEqual((done.returncode, done.stdout), (0, "calls work 1\ncalls leaf 2\n"))
        self.assertRegex(done.stderr, r"\nscry: cannot trace .*traced_static: it is statically linked; .* untraced.*\n")
        done = self.scry_run("-q", "--", target("traced_static"), "exit", "3")
        self.assertEqual((done.returncode, done.stderr), (3, ""))

    def test_programs_inside(self):
        """Programs into which nothing is loaded are named, with how many processes they had, and why."""
        static = self.box.path("work", "stat")
        shutil.copy(target("traced_static"), static)
        script = f"cd {self.box.path('work')}; ./stat calls 1; {static} calls 1; PATH=$PWD:$PATH stat calls 1; {target()} calls 1"
        reasons = {static: (3, "it is statically linked")}
        if os.geteuid() == 0:
            other = self.box.path("work", "other_user")
            shutil.copy(target(), other)
            os.chown(other, 65534, 65534)
            os.chmod(other, 0o4755)
            script += f"; {other} calls 1"
            reasons[other] = (1, "it runs with privileges")
        done = self.scry_run("--trace", "all", "--", "sh", "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = " ".join(done.stderr.split())
        self.assertIn("stat (3 processes): it is statically linked", said)
        warnings = [one for one in self.report()["warnings"] if one["kind"] == "untraced"]
        for warning in warnings:
            processes, reason = reasons.pop(warning["fields"]["program"])
            self.assertEqual(warning["fields"]["processes"], processes)
            self.assertIn(reason, warning["fields"]["reason"])
        self.assertEqual(reasons, {})
        done = self.scry_run("--", "sh", "-c", f"{static} calls 1; true")
        self.assertNotIn("statically", done.stderr)

    def test_without_hooks(self):
        """One line with the remedy, and nothing unless it was requested."""
        done = self.scry_run("--trace", "fn:nothing", "--", target("untraced"), "calls", "1")
        self.assertEqual((done.returncode, done.stdout), (0, "calls work 1\ncalls leaf 2\n"))
        lines = [line for line in done.stderr.splitlines() if "-finstrument-functions" in line]
        self.assertEqual(len(lines), 1, done.stderr)
        done = self.scry_run("--", target("untraced"), "calls", "1")
        self.assertNotIn("instrument", done.stderr)

    def test_wrong_rules(self):
        marker = self.box.path("work", "started")
        for rule in ("no_such_event([]) : print([])", "ct_function_called([], 5) : print([])",
                     'ct_function_called([], "work") : no_such_action()', "nonsense"):
            done = self.scry_run("--rule", rule, "--", "touch", marker)
            self.assertEqual((done.returncode, done.stdout), (125, ""), rule)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertFalse(os.path.exists(marker))
        self.assertEqual(os.listdir(self.box.path("jobs")), [])


class Exec(TraceCase):
    def test_status(self):
        for arguments, status in ((["sh", "-c", "exit 5"], 5), (["no-such-command"], 127), (["/"], 126), ([], 2)):
            done = self.box.run(self.box.scry("exec", *arguments))
            self.assertEqual(done.returncode, status, arguments)

    def test_in_a_job(self):
        """Where the launcher lost the environment."""
        scry = self.box.scry()[0]
        done = self.scry_run("--trace", "fn:work", "--", "sh", "-c",
                             f"env -u LD_PRELOAD -u SCRY_AGENT_SOCKET {scry} exec {target()} calls 6")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.calls(), {"work": 6})

    def test_without_a_job(self):
        """Nothing is recorded, and the program runs."""
        done = self.box.run(self.box.scry("exec", target(), "calls", "2"))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "calls work 2\ncalls leaf 4\n", ""))
        self.assertEqual(os.listdir(self.box.path("jobs")), [])

    def test_off(self):
        for env in ({"SCRY": "off"}, {"SCRY_TRACE": "off", "SCRY_MPI": "off"}):
            done = self.box.run(self.box.scry("exec", "sh", "-c", "echo x$LD_PRELOAD"), env=env)
            self.assertEqual((done.returncode, done.stdout), (0, "x\n"))


class Sanitized(TraceCase):
    def build(self):
        if self.box.run(["gcc", "-g", "-O1", "-finstrument-functions", "-fsanitize=address", "-o", "asan",
                         os.path.join(scrytest.SOURCE, "test", "system", "targets", "traced.c")]).returncode:
            self.skipTest("no compiler with the address sanitizer")
        return self.box.path("work", "asan")

    def test_directly_and_from_a_script(self):
        """libasan insists on being first; what the job starts must not be given it, nor refuse to start."""
        program = self.build()
        for command in ([program, "calls", "3"], ["sh", "-c", f"{program} calls 3"], [program, "spawn", "1"]):
            done = self.scry_run("--trace", "fn:work", "--", *command)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("ASan", done.stderr)
            self.assertEqual(self.calls(), {"work": 3})


class Top(TraceCase):
    def test_functions(self):
        run = self.box.start(self.box.scry("run", "-q", "--", target(), "step", "0"), stdin=subprocess.PIPE)
        self.assertRegex(run.stdout.readline(), "^ready ")

        def picture(*options):
            done = self.box.run(self.box.scry("top", *options, "@last"))
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        wait_until(lambda: " step  traced.c:" in picture("--once"), 20, lambda: picture("--once"))
        row = json.loads(picture("--json"))["functions"][0]
        self.assertEqual((row["name"], os.path.basename(row["file"])), ("step", "traced.c"))
        self.assertGreater(row["calls"], 0)
        self.assertGreater(row["max_ns"], 0)
        run.communicate(timeout=30 * scrytest.SCALE)


scrytest.main()
