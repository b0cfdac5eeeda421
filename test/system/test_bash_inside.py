# SPDX-License-Identifier: Apache-2.0
"""`--script calls` and `lines` in shell scripts: they run as without scry, and what is said of them is so."""

import json
import os

import scrytest
from jobtest import JobCase
from scrytest import wait_until

BASH = "/bin/bash"

# name: (options of bash, script). Outputs and status must be those without scry.
SCRIPTS = {
    "plain": ([], "echo hello"),
    "status": ([], "exit 7"),
    "statuses": ([], """
        false; echo $?
        true | false | (exit 5); echo "${PIPESTATUS[@]}"
        ! true; echo $?
        (exit 300); echo $?
        nosuchcommand 2>/dev/null; echo $?
        x=$(exit 9); echo $?
        if (exit 3); then :; else echo $?; fi
        f() { return 6; }; f; echo $?
        eval 'false'; echo $?
        """),
    "last argument": ([], """
        : one two; echo "$_"
        f() { : three; }; f four; echo "$_"
        ls /dev/null >/dev/null; echo "$_"
        """),
    "set -e in a function": (["-e"], """
        f() { false; echo not; }
        f || echo ignored
        if f; then echo condition; fi
        trap 'echo exit $?' EXIT
        f
        echo not
        """),
    "set -u": (["-u"], "echo before; echo $nothing; echo not"),
    "pipefail": ([], "set -eo pipefail; false | true; echo not"),
    "lastpipe": ([], "shopt -s lastpipe; f() { unset -f f; read x; }; echo 1 | f; echo $x"),
    "traps": ([], """
        set -ET
        trap 'echo "debug $LINENO $BASH_COMMAND"' DEBUG
        trap 'echo "err $LINENO $?"' ERR
        trap 'echo "return $?"' RETURN
        trap 'echo "exit $?"; false; trap -p' EXIT
        trap 'echo "usr1 $FUNCNAME"' USR1
        f() { false; kill -USR1 $$; return 2; }
        f
        (f)
        trap -p DEBUG
        declare -F
        """),
    "debug trap that skips": ([], "shopt -s extdebug; trap '[[ $BASH_COMMAND != *not* ]]' DEBUG; echo yes; echo not; echo yes"),
    "trace": ([], "exec 7>&1; BASH_XTRACEFD=7; PS4='+$LINENO '; set -x; f() { local a=1; [[ $a ]]; }; f; ((a = 2)); for i in 1 2; do :; done"),
    "where it is": ([], """
        f() {
            echo "$LINENO ${FUNCNAME[*]} ${BASH_LINENO[*]} ${#BASH_SOURCE[@]}"
            g
        }
        g() { caller 0; echo "$BASH_SUBSHELL $SHLVL"; }
        f; (g); eval 'f
        g'
        """),
    "own variables gone": ([], """
        f() { unset -f f; unset FUNCNAME BASH_SOURCE; g; }
        g() { BASH_SOURCE=text; FUNCNAME=other; false; echo "$BASH_SOURCE $FUNCNAME"; }
        f; unset -f g; echo "$BASH_SOURCE"
        """),
    "jumps": ([], """
        f() { while :; do for i in 1 2; do [ $i = 2 ] && return 4; done; done; }
        for i in 1 2 3; do f; echo $?; [ $i = 2 ] && break; continue; done
        g() { if [ $1 -gt 0 ]; then g $(($1 - 1)); else return 8; fi; }
        g 100; echo $?
        : $((1 / 0)); echo not
        """),
    "errors": ([], "( : ${nothing:?is not there} ); echo $?; eval '(('; echo $?; readonly r=1; r=2; echo not"),
    "unwound by exit": ([], "f() { g; }; g() { { exit 5; }; }; trap 'echo $?' EXIT; f"),
    "sourced": ([], "printf 'false\\nh() { return 3; }\\nh\\nreturn 4\\necho not\\n' >sourced.sh; . ./sourced.sh; echo $?; h; echo $?"),
    "here documents": ([], "x=1; cat <<A; cat <<'B'; cat <<<here\na $x $(echo b)\nA\n$x\nB"),
    "coprocess": ([], "coproc { read x; echo \"got $x\"; }; echo 1 >&${COPROC[1]}; read y <&${COPROC[0]}; wait; echo $y"),
    "background": ([], "f() { exit 3; }; f & wait $!; echo $?; { sleep 0; false; } & wait $!; echo $?; jobs"),
    "process substitution": ([], "diff <(echo 1) <(echo 2); cat <(f() { false; }; f; echo $?)"),
    "exec": ([], "trap 'echo not' EXIT; f() { exec bash -c 'echo in; exit 4'; }; f"),
    "exec of nothing": ([], "shopt -s execfail; exec /nonexistent 2>/dev/null; echo $?; exec 5>&1; echo five >&5"),
    "environment": ([], "env -i /bin/bash -c 'f() { false; }; f; echo $?'; env | grep -v -e ^SCRY -e ^LD_PRELOAD= -e ^ASAN_OPTIONS= -e ^OMPI_MCA_plm_rsh_agent= -e ^HYDRA_LAUNCHER_EXEC= -e ^_= | sort | cut -d= -f1"),
    "what it sees of itself": ([], "set -o; shopt; trap -p; declare -F; compgen -A builtin; echo \"$BASHOPTS $SHELLOPTS $-\"; printf '%s\\n' /proc/self/fd/*"),
    "posix": (["--posix"], "f() { false; return 2; }; f; echo $? $POSIXLY_CORRECT; set -o | grep posix; export a=1; . /nonexistent; echo not"),
    "privileged": (["-p"], "f() { false; }; f; echo $? $-"),
    "restricted": (["-r"], "f() { cd /; }; f; echo $?"),
    "builtins": ([], "enable -n echo; echo a; command false; echo $?; builtin true; enable echo; mapfile -t a < <(seq 3); echo ${a[@]}; printf '%s\\n' \"${a[@]}\""),
    "names": ([], "SECONDS=5; [ $SECONDS -ge 5 ] && echo $?; RANDOM=1; echo $RANDOM $RANDOM; select x in a; do echo $x; break; done <<<1; time -p true 2>/dev/null"),
    "killed": ([], "f() { kill -9 $$; }; f"),
    "terminated": ([], "trap 'echo term; exit 9' TERM; kill -TERM $$; echo not"),
    "many subshells": ([], "n=0; for i in {1..200}; do n=$((n + $(f() { echo 1; }; f))); done; echo $n"),
    "deep": ([], "f() { if (($1)); then f $(($1 - 1)); else return 3; fi; }; f 700; echo $?"),
}


class Inside(JobCase):
    def run_script(self, text, level="lines", status=0):
        path = self.script(text)
        done = self.scry_run("-q", "--script", level, "--", BASH, path)
        self.assertEqual(done.returncode, status, done.stderr)
        return path

    def failures(self):
        return [(record["line"], record.get("function"), record.get("command"), record["status"])
                for record in self.records("command_failed")]

    def test_unchanged(self):
        """Every script of the table prints and returns the same, at the one level or the other; in a thorough run at each."""
        levels = "calls", "lines"
        for number, (name, (options, text)) in enumerate(SCRIPTS.items()):
            command = [BASH, *options, self.script(text)]
            alone = self.box.run(command)
            for level in scrytest.rounds(levels[number % 2:][:1], levels):
                with self.subTest(script=name, level=level):
                    seen = self.scry_run("-q", "--script", level, "--", *command)
                    status = alone.returncode if alone.returncode >= 0 else 128 - alone.returncode
                    self.assertEqual((seen.returncode, seen.stdout, seen.stderr), (status, alone.stdout, alone.stderr))

    def test_failures(self):
        """What fails is told, with its function; what is a condition is not."""
        self.run_script("""\
            f() {
                false
                return 3
            }
            if false; then :; fi
            while ! true; do :; done
            false || true
            ! true
            f
            f || true
            true | (exit 4)
            (exit 5)
            trap 'false; true' EXIT
            [[ a = b ]]
            eval '(exit 6)'
            if eval 'false; (exit 2)'; then :; fi
            ! f
            { false; f; } || x=$(false; true) || :
            exit 0
            """, "calls")
        self.assertEqual(self.failures(), [
            (2, "f", "false", 1), (9, None, "f", 3), (11, None, "true | ...", 4), (12, None, None, 5), (14, None, None, 1), (15, None, None, 6)])

    def test_pipelines(self):
        """Each command of a pipeline that failed by its own status; one whose last command went on has not failed. A line's time is that of the
        pipeline, not of its last command."""
        self.run_script("""\
            seq 1000000 | head -n 1 >/dev/null
            echo x | grep y | cat
            if (exit 3) | cat; then :; fi
            set -o pipefail
            (exit 5) | ls /none 2>/dev/null | cat
            sleep 0.2 | true
            exit 0
            """)
        self.assertEqual([(record["line"], record["command"], record["status"], record["stages"])
                          for record in self.records("command_failed")],
                         [(5, "... | ls /none | cat", 2, [5, 2, 0])])
        end, = self.records("script_end")
        rows = {row["line"]: row for row in end["lines"]}
        self.assertEqual((rows[1]["command"], rows[6]["command"]), ("seq 1000000 | head -n 1", "sleep 0.2 | true"))
        self.assertGreaterEqual(rows[6]["seconds"], 0.2)

    def test_stacks(self):
        """Through functions and a sourced file, also where set -e leaves them; none where there is no call."""
        sourced = self.script("g() {\n  false\n}\n\ng\n", "sourced.sh")
        for text, status in ("f() {\n  . ./sourced.sh\n}\nf\n(exit 4)\nexit 0\n", 0), ("set -e\nf() { . ./sourced.sh; }\n\nf\n", 1):
            with self.subTest(script=text):
                path = self.script(text)
                done = self.scry_run("-q", "--script", "calls", "--", BASH, path, cwd=os.path.dirname(path))
                self.assertEqual(done.returncode, status, done.stderr)
                first, *others = self.records("command_failed")
                self.assertEqual([(frame["function"], frame["file"], frame["line"]) for frame in first["stack"]], [
                    ("g", sourced, 2), ("source", sourced, 5), ("f", path, 2), ("main", path, 4)])
                self.assertEqual([record["line"] for record in others if record.get("stack") is None], [] if status else [5])

    def test_failure_that_ends_it(self):
        """set -e leaves no command in order."""
        for text, found, *ends in (
                ("set -e\nf() {\n  if true; then\n    cat /none\n  fi\n}\nf 2>/dev/null\n", (4, "f", "cat /none", 1)),
                ("set -u\n{ : $none; } 2>/dev/null\n", (2, None, ": $none", 1)),
                ("set -eo pipefail\ntrap 'true; false; true' EXIT\nfalse | true\n", (3, None, "false | true", 1)),
                ("set -e\ntrap '(exit 7) || true' EXIT\nsh -c 'exit 6'\n", (3, None, "sh -c 'exit 6'", 6)),
                ("set -e\ntrap 'sh -c \"exit 7\"' EXIT\nsh -c 'exit 6'\n", (3, None, "sh -c 'exit 6'", 6), 7),
                ("set -Ee\ntrap 'true; sh -c \"exit 7\"' ERR\nf() {\n  test -r /none\n}\nf\n", (4, "f", "test -r /none", 1), 7),
                ("set -Ee\ng() { sh -c 'exit 7'; }\ntrap g ERR\n[ a = b ]\n", (4, None, "[ a = b ]", 1), 7)):
            with self.subTest(script=text):
                self.run_script(text, "calls", status=ends[0] if ends else found[3])
                self.assertEqual(self.failures(), [found])

    def test_lines(self):
        """Lines come in order; their counts are exact, subshells and all."""
        path = self.run_script("""\
            f() {
                :
            }
            for i in 1 2 3 4 5; do
                f
                (false
                 true)
            done
            x=$(true; false)
            [[ $i ]] && ((i))
            """)
        lines = [(record["line"], record.get("function")) for record in self.records("script_line")
                 if record["how"] == "inside"]
        self.assertEqual(lines[:3], [(5, None), (2, "f"), (7, None)]) # bash has the end of a subshell as its line
        end, = self.records("script_end")
        self.assertEqual((end["file"], end["status"], end["how"]), (path, 0, "inside"))
        counts = {row["line"]: (row["count"], row["failed"]) for row in end["lines"]}
        self.assertEqual({row["line"]: row.get("command") for row in end["lines"]},
                         {2: ":", 5: "f", 6: "false", 7: None, 9: "x=$(true; false)", 10: None})
        self.assertEqual(counts, {2: (5, 0), 5: (5, 0), 6: (5, 5), 7: (10, 0), 9: (3, 2), 10: (2, 0)})

    def test_functions(self):
        """With calls, a line comes when the shell is in another function."""
        self.run_script("f() {\n  :\n  g\n}\ng() {\n  :\n  :\n}\n:\n:\nf\n", "calls")
        entered = [record["function"] for record in self.records("script_line") if record.get("function") and record["how"] == "inside"]
        self.assertEqual(entered, ["f", "g"])

    def test_killed(self):
        """What a script did is known, however it ended."""
        self.run_script("false\n:\n:\nkill -9 $$\n", status=137)
        self.assertEqual(self.failures(), [(1, None, "false", 1)])
        end, = self.records("script_end")
        self.assertEqual(end["status"], 137)
        self.assertEqual({row["line"]: row["count"] for row in end["lines"]}, {1: 1, 2: 1, 3: 1})

    def test_executed(self):
        """A script that executes a program is over then, not when the program ends."""
        fifo = self.box.path("work", "go")
        os.mkfifo(fifo)
        for program in "/bin/cat", "/bin/bash -c 'read x; exit 3'":
            with self.subTest(program=program):
                path = self.script(f":\nfalse\nexec {program} <{fifo}\n")
                run = self.start_run("-q", "--script", "calls", "--", BASH, path)
                with open(fifo, "w", encoding="ascii") as file:
                    watch = self.box.start(self.box.scry("watch", "--json", "--stream", "script", "@last"))
                    end = next(record for record in map(json.loads, watch.stdout) if record["type"] == "script_end")
                    self.assertEqual((end["file"], end["how"], end["status"]), (path, "inside", None))
                    self.assertIsNone(run.poll())
                    file.write("x\n")
                self.assertEqual(run.wait(), 3 if "exit" in program else 0)
                watch.communicate()
                self.assertEqual([record["how"] for record in self.records("script_end")], ["inside"])

    def test_where_it_waits(self):
        """After a loop of too many lines for records, or where none are told, and in a command that waits."""
        fifo = self.box.path("work", "go")
        os.mkfifo(fifo)
        path = self.script(f"for i in {{1..3000}}; do\n  :\n  :\ndone\nread x <{fifo}\n")
        for level in "lines", "calls":
            with self.subTest(level=level):
                run = self.start_run("-q", "--sample", "1", "--script", level, "--", BASH, path)
                wait_until(lambda run=run: any(job["state"] == "running" for job in json.loads(self.scry("ps", "--json").stdout)["jobs"]))
                watch = self.box.start(self.box.scry("watch", "--json", "--stream", "script", "@last"))
                record = next(record for record in map(json.loads, watch.stdout)
                              if record.get("line") == 5 and record["how"] == "inside")
                self.assertEqual(record["file"], path)
                with open(fifo, "w", encoding="ascii") as file:
                    file.write("x\n")
                self.assertEqual((run.wait(), watch.wait()), (0, 0))

    def test_ended_from_outside(self):
        """A script that handles the signal fails with a status of its own: the reason is the signal."""
        path = self.script("trap 'kill $!; exit 9' TERM\nsleep 100 >/dev/null &\necho ready\nwait\n")
        run = self.start_run("-q", "--script", "calls", "--", BASH, path)
        self.assertEqual(run.stdout.readline(), "ready\n")
        run.terminate()
        self.assertEqual(run.wait(), 9)
        reason = self.report()["last"]["reason"]
        self.assertEqual((reason["note"], reason["fields"]["signal"]), ("cause_signal", "SIGTERM"))
        self.assertIn(f"(pid {os.getpid()})", reason["fields"]["sender"])

    def test_returned(self):
        """A function that returns a status of its own has failed, and ends the script; one that returns that of a command
        that was told is not told again."""
        self.run_script("set -e\nbad() {\n  return 5\n}\nbad\n", "calls", status=5)
        self.assertEqual(self.failures(), [(5, None, "bad", 5)])
        self.assertEqual(self.report()["last"]["reason"]["note"], "cause_command")
        self.run_script("set -e\nbad() {\n  (exit 4) || return $?\n}\nouter() {\n  bad\n}\nouter\n", "calls", status=4)
        self.assertEqual(self.failures(), [(6, "outer", "bad", 4)])
        self.run_script("bad() {\n  false\n  return $?\n}\nbad\n", "calls", status=1)
        self.assertEqual(self.failures(), [(2, "bad", "false", 1)])

    def test_container(self):
        """Its processes have other numbers there, which here are those of others, or of none."""
        unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
        if self.box.run([*unshare, "true"]).returncode:
            self.skipTest("no PID namespace can be made here")
        fifo = self.box.path("work", "go")
        os.mkfifo(fifo)
        path = self.script(f":\nread x <{fifo}\nfalse\nexit 3\n")
        burn = 'i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done; bash "$0"'
        run = self.start_run("-q", "--script", "calls", "--", *unshare, "sh", "-c", burn, path)
        wait_until(lambda: any(job["state"] == "running" for job in json.loads(self.scry("ps", "--json").stdout)["jobs"]))
        watch = self.box.start(self.box.scry("watch", "--json", "--stream", "script", "@last"))
        next(line for line in watch.stdout if '"line":2' in line.replace(" ", ""))  # where it stays for a second
        with open(fifo, "w", encoding="ascii") as file:
            file.write("x\n")
        self.assertEqual((run.wait(), watch.wait()), (3, 0))
        records = self.records("script_line", "command_failed", "script_end", "process_end")
        pids = {record["pid"] for record in records if record["type"] == "process_end"}
        failed = [record for record in records if record["type"] == "command_failed" and record["command"] == "false"]
        ends = [record for record in records if record["type"] == "script_end" and record["file"] == path]
        self.assertEqual([record["line"] for record in failed], [3])
        self.assertEqual([(record["how"], record["status"]) for record in ends], [("inside", 3)])
        self.assertLessEqual({failed[0]["pid"], ends[0]["pid"]}, pids)

    def test_other_version(self):
        """A bash that is not known runs as it is, and a warning says so once."""
        other = self.box.path("work", "bash-other")
        with open(BASH, "rb") as file:
            program = file.read()
        with open(other, "wb") as file:
            file.write(program.replace(b"\x005.2\x00", b"\x005.9\x00"))
        os.chmod(other, 0o755)
        version = self.box.run([other, "-c", "echo ${BASH_VERSINFO[1]}"]).stdout
        if version != "9\n":
            self.skipTest(f"bash is not 5.2: {version}")
        path = self.script(f"echo one\n{other} -c 'echo two'\nfalse\nexit 3\n")
        done = self.scry_run("-q", "--script", "lines", "--", other, path)
        self.assertEqual((done.returncode, done.stdout), (3, "one\ntwo\n"), done.stderr)
        self.assertEqual(self.failures(), [])
        reasons = [record["fields"]["reason"] for record in self.records("warning") if record["note"] == "script_aside"]
        self.assertEqual(reasons, ["unsupported: bash other than 5.2"])

    def test_with_python(self):
        """Both libraries tell of their own."""
        path = self.script("def f():\n    pass\nf()\n", "program.py")
        self.run_script(f"false\n/usr/bin/python3 {path}\n")
        self.assertEqual(self.failures(), [(1, None, "false", 1)])
        self.assertTrue([record for record in self.records("python_calls") if record["whole"]])
        self.assertEqual([record["how"] for record in self.records("script_end") if record["how"]], ["inside"])

    def test_without_room(self):
        """A limit of file sizes below that of the ring: the script runs, unseen from inside."""
        path = self.script("false\nexit 3\n")
        done = self.scry_run("-q", "--script", "calls", "--", "sh", "-c", f"ulimit -f 8; exec bash {path}")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(self.failures(), [])


scrytest.main()
