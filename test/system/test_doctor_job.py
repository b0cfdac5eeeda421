# SPDX-License-Identifier: Apache-2.0
"""scry doctor --job: why a job shows nothing, or too little. Each case breaks a job in another way."""

import json
import os
import signal

import scrytest

SOURCE = """#include <unistd.h>
int add(int x) { return x + 1; }
int main(int argc, char **argv) { int sum = 0; for (int i = 0; i < 1000; i++) sum = add(sum);
    if (argc > 1) pause();
    return sum != 1000; }
"""


class DoctorJob(scrytest.TestCase):
    def program(self, name, *flags):
        source, path = self.box.path("work", "add.c"), self.box.path("work", name)
        with open(source, "w", encoding="ascii") as file:
            file.write(SOURCE)
        done = self.box.run(["cc", *flags, source, "-o", path])
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def run_job(self, *arguments, status=0, env=None):
        done = self.box.run(self.box.scry("run", "--quiet", *arguments), env=env)
        self.assertEqual(done.returncode, status, done.stderr)

    def doctor(self, status=0, job="@last", env=None):
        """{name: its findings}."""
        done = self.box.run(self.box.scry("doctor", "--json", "--job", job), env=env)
        self.assertEqual((done.returncode, done.stderr), (status, ""), done.stdout)
        answer = json.loads(done.stdout)
        self.assertEqual(answer["job"], job)
        self.assertEqual(answer["failed"], sum(check["state"] == "fail" for check in answer["checks"]))
        names = [check["name"] for check in answer["checks"]]
        self.assertEqual(list(dict.fromkeys(names)), ["record", "command", "asked", "monitor", "hooks", "symbols",
                                                      "traced", "calls", "limits", "mpi"])
        return {name: [check for check in answer["checks"] if check["name"] == name] for name in names}

    def assert_found(self, found, name, state, text, remedy=""):
        """One of the findings of that name is this."""
        matching = [check for check in found[name]
                    if check["state"] == state and text in check["text"] and remedy in check["remedy"]]
        self.assertTrue(matching, f"{name} {state} {text}: {found[name]}")

    def test_good(self):
        self.run_job(self.program("good", "-g", "-finstrument-functions"))
        found = self.doctor()
        self.assertEqual({check["state"] for checks in found.values() for check in checks}, {"ok"}, found)
        self.assert_found(found, "hooks", "ok", "in good")
        self.assert_found(found, "calls", "ok", "2002 events of 2 functions")
        self.assert_found(found, "traced", "ok", "1 of 1 processes")

    def test_no_hooks(self):
        self.run_job("--trace", "fn:add", self.program("bare", "-g"))
        self.assert_found(self.doctor(), "hooks", "ok", "by jumps that were put into them")
        self.run_job("--trace", "fn:nothing", self.program("bare", "-g"))
        found = self.doctor()
        self.assert_found(found, "hooks", "warn", "none in bare", "-finstrument-functions")
        self.assert_found(found, "traced", "warn", "compiled without -finstrument-functions: bare")

    def test_nothing_matches(self):
        self.run_job("--trace", "fn:nothing*", self.program("good", "-g", "-finstrument-functions"))
        found = self.doctor(status=1)
        self.assert_found(found, "asked", "ok", "trace=fn:nothing*")
        self.assert_found(found, "calls", "fail", "no function that matches the selection", "fn:nothing*")

    def test_own_hooks(self):
        source = self.box.path("work", "own.c")
        with open(source, "w", encoding="ascii") as file:
            file.write("#define NO __attribute__((no_instrument_function))\n"
                       "NO void __cyg_profile_func_enter(void *a, void *b) {}\n"
                       "NO void __cyg_profile_func_exit(void *a, void *b) {}\nint main(void) { return 0; }\n")
        done = self.box.run(["cc", "-g", "-finstrument-functions", source, "-o", self.box.path("work", "own")])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.run_job(self.box.path("work", "own"))
        self.assert_found(self.doctor(status=1), "hooks", "fail", "hooks of their own, which get their calls: own")

    def test_static(self):
        """Its hooks, those of the C library, are no hooks of its own, and that it has them helps nobody."""
        for name, flags in (("bare", []), ("fixed", ["-finstrument-functions"])):
            self.run_job("--trace", "fn:add", self.program(name, "-g", "-static", *flags))
            found = self.doctor(status=1)
            self.assert_found(found, "command", "fail", "cannot trace")
            self.assert_found(found, "hooks", "warn", "nothing can be loaded into " + name, "link it dynamically")
            self.assertEqual(len(found["hooks"]), 1, found)

    def test_static_in_script(self):
        fixed = self.program("fixed", "-g", "-static", "-finstrument-functions")
        self.run_job("--trace", "fn:add", "sh", "-c", f"{fixed}; true")
        found = self.doctor()
        self.assert_found(found, "traced", "warn", f"not traced: {fixed} (1 process): it is statically linked")
        self.assertNotIn("there is nothing to trace", str(found))

    def test_partly_traced(self):
        good = self.program("good", "-g", "-finstrument-functions")
        job = self.box.path("work", "job")
        self.box.start(self.box.scry("run", "--quiet", "-o", job, "sh", "-c",
                                     f"{good} wait & env -u LD_PRELOAD {good} wait & wait"))

        def both_seen():
            done = self.box.run(self.box.scry("report", "--json", job))
            argv = [process["argv"] for process in json.loads(done.stdout or "{}").get("processes", [])]
            traces = self.box.run(self.box.scry("doctor", "--job", job)).stdout
            return argv.count([good, "wait"]) == 2 and "1 processes traced now" in traces

        scrytest.wait_until(both_seen)
        self.assert_found(self.doctor(job=job), "traced", "warn", "1 of 2 processes of good have no trace")

    def test_forked(self):
        """A copy of a process that calls nothing misses nothing."""
        source, path = self.box.path("work", "fork.c"), self.box.path("work", "forks")
        with open(source, "w", encoding="ascii") as file:
            file.write("#include <sys/wait.h>\n#include <unistd.h>\n"
                       "int main(void) { if (!fork()) _exit(0); return wait(0) < 0; }\n")
        done = self.box.run(["cc", "-g", "-finstrument-functions", source, "-o", path])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.run_job(path)
        found = self.doctor()
        self.assertEqual({check["state"] for check in found["traced"]}, {"ok"}, found)

    def test_unknown_programs(self):
        """Of a process that ends at once with SCRY=off nobody may see the command line; here nobody did."""
        good, job = self.program("good", "-g", "-finstrument-functions"), self.box.path("work", "job")
        self.run_job("-o", job, "sh", "-c", f"{good}; SCRY=off {good}; true")
        spool = os.path.join(job, "spool", "records.jsonl")
        with open(spool, encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        ends = [record for record in records if record["type"] == "process_end" and record["name"] == "good"]
        self.assertEqual(len(ends), 2, records)
        for record in records:
            if record.get("pid") == ends[-1]["pid"]:
                record.pop("argv", None)
        with open(spool, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
        self.assert_found(self.doctor(job=job), "traced", "warn",
                          "of 1 processes the program is not known (too short, static, or SCRY=off)")

    def test_never_called(self):
        source, path = self.box.path("work", "never.c"), self.box.path("work", "never")
        with open(source, "w", encoding="ascii") as file:
            file.write("int solve(int x) { return x; }\nint main(int c, char **v) { return c > 5 ? solve(c) : 0; }\n")
        done = self.box.run(["cc", "-g", "-finstrument-functions", source, "-o", path])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.run_job("--trace", "fn:solve", path)
        found = self.doctor(status=1)
        self.assert_found(found, "calls", "fail", "no function that matches the selection", "exists, but was not called")
        self.assertNotIn("correct --trace", str(found))

    def test_off_here(self):
        """Whoever has SCRY=off makes no records: the last job is another."""
        good = self.program("good", "-g", "-finstrument-functions")
        self.run_job(good)
        self.run_job("--trace", "fn:add", good, env={"SCRY": "off"})
        found = self.doctor(env={"SCRY": "off"})
        self.assertIn("SCRY=off", found["record"][0]["text"])
        self.assert_found(found, "record", "warn", "leaves no record; @last is an older one", "unset SCRY")
        self.assert_found(found, "record", "ok", f"{good}, started ")
        self.assertEqual(len(self.doctor()["record"]), 1)

    def test_monitor_stopped(self):
        good = self.program("good", "-g", "-finstrument-functions")
        self.run_job(good)
        monitor = self.box.monitor_pid()
        os.kill(monitor, signal.SIGSTOP)
        try:
            self.run_job("--trace", "fn:add", good)
        finally:
            os.kill(monitor, signal.SIGCONT)
        found = self.doctor(status=1)
        self.assert_found(found, "monitor", "fail", "was stopped", "scry doctor")
        self.assertNotIn("LD_PRELOAD", str(found))

    def test_stripped(self):
        self.run_job(self.program("stripped", "-s", "-finstrument-functions"))
        self.assert_found(self.doctor(), "symbols", "warn", "stripped", "-g")

    def test_switched_off(self):
        self.run_job("--trace", "off", "--mpi", "off", self.program("good", "-g", "-finstrument-functions"))
        found = self.doctor()
        self.assert_found(found, "asked", "warn", "trace=off")
        self.assert_found(found, "mpi", "warn", "mpi=off")

    def test_preload_replaced(self):
        good = self.program("good", "-g", "-finstrument-functions")
        self.run_job("env", "-u", "LD_PRELOAD", good)
        found = self.doctor(status=1)
        self.assert_found(found, "traced", "fail", "though programs with hooks ran", "LD_PRELOAD")

    def test_not_found(self):
        self.run_job("./nothing", status=127)
        self.assert_found(self.doctor(status=1), "command", "fail", "exit status 127", "there is no such")

    def test_no_monitor(self):
        good = self.program("good", "-g", "-finstrument-functions")
        self.run_job("--trace", "fn:add", good, env={"SCRY_CONNECT": "unix:" + self.box.path("run", "none")})
        found = self.doctor(status=1)
        self.assert_found(found, "monitor", "fail", "no monitor")

    def test_limit_of_size(self):
        """What is said only when nothing can be recorded any more."""
        self.run_job("--max-size", "400", self.program("good", "-g", "-finstrument-functions"))
        found = self.doctor()
        self.assert_found(found, "limits", "warn", "recording stopped: the job directory reached its limit")
        self.assertNotIn("nothing was lost", str(found))

    def test_trace_that_cannot_grow(self):
        """It is not the buffer that was too small."""
        source = self.box.path("work", "many.c")
        with open(source, "w", encoding="ascii") as file:
            file.write("int f(int x) { return x + 1; }\n"
                       "int main(void) { int s = 0; for (int i = 0; i < 3000000; i++) s = f(s); return 0; }\n")
        program = self.box.path("work", "many")
        self.assertEqual(self.box.run(["cc", "-g", "-finstrument-functions", source, "-o", program]).returncode, 0)
        self.run_job("--max-size", "1M", "--trace", "fn:*", program)
        found = self.doctor()
        self.assert_found(found, "calls", "warn", "reached its limit (--max-size)")
        self.assert_found(found, "limits", "warn", "records are missing: the traces could not grow, see", "--max-size")
        self.assertNotIn("buffer", str(found["limits"]))

    def test_running(self):
        good = self.program("good", "-g", "-finstrument-functions")
        job = self.box.path("work", "job")
        self.box.start(self.box.scry("run", "--quiet", "-o", job, "--trace", "fn:nothing*", good, "wait"))

        def unmatched():
            done = self.box.run(self.box.scry("doctor", "--job", job))
            return "scry set JOB trace" in done.stdout and "follows the job: 1 processes traced now" in done.stdout

        scrytest.wait_until(unmatched)
        self.assert_found(self.doctor(status=1, job=job), "calls", "fail", "", "scry set")

    def test_launchers(self):
        """Of the node: all MPIs that are there, each once."""
        folder = self.box.path("work", "bin")
        os.makedirs(folder)
        for name, target in (("orterun", None), ("hydra", None), ("mpirun.openmpi", "orterun"), ("mpirun.mpich", "hydra"), ("mpirun", "mpirun.openmpi"),
                             ("mpiexec", "hydra")):
            path = os.path.join(folder, name)
            if target:
                os.symlink(target, path)
                continue
            with open(path, "w", encoding="ascii"):
                os.chmod(path, 0o755)
        done = self.box.run(self.box.scry("doctor", "--json"), env={"PATH": folder})
        (found,) = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "mpi"]
        self.assertEqual(found["text"], f"{folder}/mpirun -> {folder}/orterun, {folder}/mpirun.mpich -> {folder}/hydra")

    def test_no_job(self):
        done = self.box.run(self.box.scry("doctor", "--job", "nothing"))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("nothing", done.stderr)
        self.assertEqual(self.box.run(self.box.scry("doctor", "--job")).returncode, 2)


scrytest.main()
