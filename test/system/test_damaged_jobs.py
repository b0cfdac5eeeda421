# SPDX-License-Identifier: Apache-2.0
"""Job directories in which files were replaced: by pipes, sockets, links, directories, devices, files of gigabytes without
content, or that are cut, emptied, changed or grow. Whatever reads them comes to an end soon, and is not ended by a signal."""

import contextlib
import http.client
import json
import os
import pty
import random
import shutil
import socket
import subprocess
import threading
import time
import unicodedata

import scrytest
import servetest
from jobtest import JobCase, target, traces_of

SECONDS = 5  # for a command, on a machine that does nothing else
GREAT = 8 << 30
COMMANDS = (("report", "JOB"), ("report", "--json", "JOB"), ("why", "JOB"), ("replay", "JOB"), ("rm", "--dry-run", "--force", "JOB"), ("watch", "--json", "JOB"),
            ("export", "-f", "csv", "-o", "-", "JOB"), ("top", "--once", "JOB"), ("ps", "--all", "--json"), ("snapshot", "JOB"), ("logs", "--last", "3", "JOB"), ("logs", "-f", "--json", "JOB"),
            ("diff", "--json", "JOB", "WHOLE"))
COMMANDS += tuple(("export", "-f", name, "-o", "-", "JOB") for name in scrytest.rounds((), ("chrome", "folded", "folded-waiting", "messages", "spacetime")))
# of scry serve, below api/jobs/ID
ROUTES = ("", "/report", "/why", "/snapshot", "/logs?last=3", "/files", "/picture", "/tiles/0/0?lanes=0-3", "/selection?from=0&to=1000000000&lanes=0-3",
          "/search?function=*&from=0&to=1000000000&limit=3", "/profile", "/volume", "/tree", "/distributions", "/samples", "/source")


def files(top):
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names)


def put(path, content):
    with open(path, "wb") as file:
        file.write(content)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def a_pipe(path, _):
    os.unlink(path)
    os.mkfifo(path)


def a_socket(path, _):
    os.unlink(path)
    at = os.open(os.path.dirname(path), os.O_PATH)  # the path is too long for a socket
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{at}/{os.path.basename(path)}")
    os.close(at)


def a_directory(path, _):
    os.unlink(path)
    os.mkdir(path)


def a_link(path, chance):
    os.unlink(path)
    os.symlink(chance.choice(("/dev/zero", "/dev/tty", os.path.basename(path), "/", "nowhere", "/proc/self/mem")), path)


def sparse(path, _):
    os.truncate(path, GREAT)


def sparse_before(path, _):
    old = content(path)
    put(path, b"")
    os.truncate(path, GREAT)
    with open(path, "ab") as file:
        file.write(old)


def cut(path, chance):
    os.truncate(path, chance.randrange(os.path.getsize(path) + 1))


def flipped(path, chance):
    old = bytearray(content(path))
    for _ in range(chance.randint(1, 8)):
        if old:
            old[chance.randrange(len(old))] ^= 1 << chance.randrange(8)
    put(path, old)


def without_a_value(path, chance):
    """A value of a line of text is gone, as when /proc was not mounted."""
    lines = content(path).split(b"\n")
    at = chance.randrange(len(lines))
    lines[at] = lines[at].partition(b"\t")[0] + b"\t"
    put(path, b"\n".join(lines))


def doubled(path, _):
    put(path, content(path) * 3)


def in_one_line(path, _):
    put(path, b"[" * (4 << 20))


MUTATIONS = (a_pipe, a_socket, a_directory, a_link, sparse, sparse_before, cut, flipped, without_a_value, doubled, in_one_line)


class Damaged(JobCase):
    case_seconds = max(120, int(os.environ.get("SCRY_TEST_ROUNDS", 0)))

    def setUp(self):
        super().setUp()
        self.whole = self.box.path("work", "whole")
        self.assertEqual(self.scry_run("-q", "-o", self.whole, "--profile", "1000", "--trace", "all", target(), "calls", "1").returncode, 0)
        self.assertEqual(self.box.run([scrytest.built("test", "system", "targets", "mpi_ranks"), self.whole, 2, 1, 2]).returncode, 0)
        os.mkdir(os.path.join(self.whole, "output"))
        for name, text in (("stdout.0000000000000000", b"a\nb\n"), ("stdout.0000000000000010", b"c"), ("stdout.times", b"0 1796016752.531\n2 1796016753.100\n")):
            put(os.path.join(self.whole, "output", name), text)
        with open(os.path.join(self.whole, "job.json"), encoding="utf-8") as file:
            self.info = json.load(file)
        self.job, self.copies = None, 0
        self.server = servetest.Server(self.box)
        self.server.log_in()

    def fresh(self):
        """A copy, where ps and serve find it; another job each time, for serve asks only once about one that is over."""
        if self.job:
            shutil.rmtree(self.job)
        self.copies += 1
        self.job_id = f"{self.info['id']}-{self.copies}"
        self.job = self.box.path("jobs", self.job_id)
        shutil.copytree(self.whole, self.job)
        put(os.path.join(self.job, "job.json"), json.dumps({**self.info, "id": self.job_id}, indent=1).encode())

    def read_all(self, what):
        for words in COMMANDS:
            command = self.box.scry(*({"JOB": self.job, "WHOLE": self.whole}.get(word, word) for word in words))
            try:
                done = subprocess.run(command, env=self.box.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, timeout=scrytest.room(SECONDS), cwd=self.box.path("work"), check=False)
            except subprocess.TimeoutExpired:
                self.fail(f"scry {' '.join(words)} does not come to an end: {what}")
            self.assertIn(done.returncode, (0, 1), f"scry {' '.join(words)}: {what}: {done.stderr[-500:]}")
        for route in ("api/jobs", *(f"api/jobs/{self.job_id}{route}" for route in ROUTES)):
            begun = time.monotonic()
            try:
                while (status := self.server.ask(route).status) == 429:  # it takes so many a second
                    self.assertLess(time.monotonic() - begun, scrytest.room(2 * SECONDS), f"{route}: {what}")
                    time.sleep(0.1)
            except (OSError, http.client.HTTPException) as error:
                self.fail(f"{route}: {what}: {error!r}")
            self.assertIn(status, (200, 204, 400, 404, 409, 413, 422, 500, 502, 503, 504), f"{route}: {what}")
            self.assertLess(time.monotonic() - begun, scrytest.room(2 * SECONDS), f"{route}: {what}")
        self.assertIsNone(self.server.process.poll(), what)

    def test_each_file(self):
        """Each file in its turn, in every way that is no matter of chance."""
        self.scry("replay", self.whole)  # the names that it finds are a file, too
        self.assertIn("sites.json", [os.path.basename(path) for path in files(self.whole)])
        self.fresh()
        chance = random.Random(1)
        for mutate in (a_pipe, a_link, sparse, sparse_before):
            for path in files(self.whole):
                at = os.path.join(self.job, os.path.relpath(path, self.whole))
                if not scrytest.rounds(0, 1) and (mutate is not a_pipe and os.path.basename(path)[:6] not in ("stream", "record", ".proce")):
                    continue
                mutate(at, chance)
                self.read_all(f"{mutate.__name__} {os.path.relpath(path, self.whole)}")
                self.fresh()

    def test_by_chance(self):
        """Some files at a time. SCRY_TEST_ROUNDS=10000 runs so many."""
        for seed in range(int(os.environ.get("SCRY_TEST_ROUNDS", scrytest.rounds(5, 300)))):
            chance = random.Random(seed)
            self.fresh()
            done = []
            for path in chance.sample(files(self.job), chance.randint(1, 3)):
                mutate = chance.choice(MUTATIONS)
                mutate(path, chance)
                done.append(f"{mutate.__name__} {os.path.relpath(path, self.job)}")
            self.read_all(f"seed {seed}: {', '.join(done)}")

    def test_without_programs(self):
        """Waits of no process are known, and of the second also not its program: /proc was not there. It is looked for among the
        names of the first."""
        self.fresh()
        for path in traces_of(self.job):
            with_name, without = content(os.path.join(path, ".process")), os.path.join(os.path.dirname(path), "9" + os.path.basename(path))
            lines = [line for line in with_name.split(b"\n") if not line.startswith(b"switches_")]
            put(os.path.join(path, ".process"), b"\n".join(lines))
            shutil.copytree(path, without)
            put(os.path.join(without, ".process"), b"\n".join(b"exe\t" if line.startswith(b"exe\t") else line for line in lines))
        self.read_all("no programs")
        said = self.report(self.job)["trace"]["unwatched"]
        self.assertTrue(any(line.startswith("?: ") for line in said), said)

    def test_growing(self):
        """A stream that grows while it is read."""
        self.fresh()
        path = next(path for path in files(self.job) if os.path.basename(path).startswith("stream"))
        more, over = content(path), threading.Event()

        def grow():
            with open(path, "ab") as file:
                while not over.is_set() and file.tell() < 16 << 20:
                    file.write(more * 64)

        thread = threading.Thread(target=grow)
        thread.start()
        try:
            self.read_all("a stream that grows")
        finally:
            over.set()
            thread.join()


class Controls(JobCase):
    """Whatever programs, functions, files, logs and ranks are called: no character reaches a terminal that it may obey, or that
    makes a line look like another one."""

    CONTROLS = "".join(chr(code) for code in range(1, 0x110000) if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp"))
    KEPT = {"type", "stream", "kind", "format", "id", "job", "host", "boot_id", "note", "state", "scry", "started", "level"}

    def change(self, value, name=""):
        if isinstance(value, dict):
            return {key: self.change(each, key) for key, each in value.items()}
        if isinstance(value, list):
            return [self.change(each, name) for each in value]
        return f"a{self.CONTROLS}b{value}" if isinstance(value, str) and name not in self.KEPT else value

    def check(self, text, what):
        bad = sorted({hex(ord(each)) for each in text if each in self.CONTROLS and each != "\n"})
        self.assertEqual(bad, [], (what, next(line for line in text.split("\n") if any(each in self.CONTROLS for each in line))[:300] if bad else ""))

    def test_reading_commands(self):
        name = "n\x1b[31m\u202e\u200b\u2028\x9b\u061c\ufeff"
        program = self.box.path("work", f"p{name}")
        shutil.copy2("/bin/ls", program)
        log = self.box.path("work", f"l{name}.log")
        self.scry_run("-q", "--name", name, "--log", log, "--log-patterns", "all", "--", "sh", "-c",
                      'printf "error: %s\\n" "$2" >>"$0"; "$1" /nowhere "$2"; exit 3', log, program, self.CONTROLS)
        path, = [entry.path for entry in os.scandir(self.box.path("jobs")) if entry.is_dir()]
        for changed in (False, True):
            if changed:
                for file in ("job.json", "spool/records.jsonl"):
                    text = content(os.path.join(path, file)).decode()
                    lines = text.strip().split("\n") if file.endswith("l") else [text]
                    put(os.path.join(path, file), "".join(json.dumps(self.change(json.loads(line))) + "\n" for line in lines).encode())
            for words in (("report", path), ("ps",), ("ps", "--all"), ("watch", path), ("why", path),
                          ("doctor", "--job", path), ("logs", path), ("rm", "--dry-run", path), ("record", "--import", path), ("site",),
                          ("top", "--once", path), ("snapshot", path), ("replay", path), ("diff", path, path), ("set", path),
                          ("set", path, f"trace={name}"), ("set", path, f"{name}=1"), ("task", "show", path), ("task", "show", name)):
                done = self.box.run(self.box.scry(*words))
                self.check(done.stdout + done.stderr, (changed, words))
                self.assertTrue(done.stdout + done.stderr, words)

    def test_functions(self):
        """Names of functions, and of what is asked for in vain."""
        self.scry_run("-q", "--trace", "all", "--", target(), "calls", "1")
        path, = [entry.path for entry in os.scandir(self.box.path("jobs")) if entry.is_dir()]
        escaped = self.CONTROLS.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
        for trace in traces_of(path):
            lines = [line.split("\t") for line in content(os.path.join(trace, ".functions")).decode().strip("\n").split("\n")]
            put(os.path.join(trace, ".functions"),
                "".join("\t".join([*line[:2], line[2] + escaped, line[3] + escaped, *line[4:]]) + "\n" for line in lines).encode())
        name = self.CONTROLS.replace("\n", "")
        for words in (("replay", path), ("report", path), ("top", "--once", path),
                      ("replay", "--fn", f"no{name}", path), ("export", "-f", "folded", "--fn", f"no{name}", "-o", "-", path)):
            done = self.box.run(self.box.scry(*words))
            self.check(done.stdout + done.stderr, words)
            self.assertTrue(done.stdout + done.stderr, words)

    def test_tasks(self):
        """Names and commands of tasks, and words of those that are wrong."""
        name = "t\x1b[31m\u202e\u200b\u2028\x9b\u061c\ufeff"
        for words in (("submit", "--by", "plain", "--wait", "--name", name, "--", "sh", "-c", "echo \"$0\" >&2; exit 3", name),
                      ("submit", "--by", name, "true"), ("submit", "--hosts", name, "--by", "plain", "true"),
                      ("task", "ls", "--all"), ("task", "show", name), ("task", "cancel", name), ("task", "scaling", name), ("task", "compare", name, name), ("task", name), ("ps", "--all")):
            done = self.box.run(self.box.scry(*words))
            self.check(done.stdout + done.stderr, words)
            self.assertTrue(done.stdout + done.stderr, words)
        self.assertIn("t\\x1b[31m", self.scry("task", "ls", "--all").stdout)

    def test_ranks(self):
        """Hosts, programs, threads, call sites and communicators of MPI."""
        path = self.box.path("jobs", "mpi")
        self.scry_run("-q", "-o", path, "true")
        self.assertEqual(self.box.run([scrytest.built("test", "system", "targets", "mpi_ranks"), path, 2, 1, 2]).returncode, 0)
        for file in files(os.path.join(path, "stats")):
            stats = json.loads(content(file))
            stats.update({key: self.change(stats[key]) for key in ("exe", "processor", "library_version", "node")}, state="running")
            stats["threads"][0]["name"] = self.change("ocean")
            stats["threads"][0]["now"].update(call="MPI_Recv", peer=1 - stats["rank"], comm=0, module=self.change("ocean"), build_id="00")
            for table in (stats["communicators"], stats["sites"]):
                changed = [table["columns"].index(name) for name in ("name", "module", "function", "file") if name in table["columns"]]
                table["rows"] = [[self.change(each) if at in changed else each for at, each in enumerate(row)] for row in table["rows"]]
            put(file, json.dumps(stats).encode())
        for words in (("report", path), ("report", "--rank", "1", path), ("why", path), ("snapshot", path), ("diff", path, path), ("ps", "--all"),
                      ("top", "--once", path), ("doctor", "--job", path)):
            done = self.box.run(self.box.scry(*words))
            self.check(done.stdout + done.stderr, words)
            self.assertTrue(done.stdout + done.stderr, words)
            if words == ("report", path):
                self.assertIn("MPI_COMM_WORLD", done.stdout)  # it has read them
        for words in (("report",), ("why",), ("diff", path)):
            self.check(self.at_a_terminal(words[0], "--json", *words[1:], path), words)

    def test_values(self):
        """A text that was recorded as an argument and a result."""
        source = scrytest.kept(self.script("char *say(char *said) { return said; } int main(int n, char **words) { return !say(words[1]); }", "say.c"))
        program = scrytest.compiled("say", ["cc", "-g", "-O0", "-finstrument-functions", source], source)
        self.scry_run("-q", "--trace", "all", "--args", "--string-bytes", "3000", "--", program, self.CONTROLS)
        done = self.scry("replay", "@last")
        self.check(done.stdout + done.stderr, "replay")
        self.assertIn(r"\e", done.stdout)
        self.assertIn(r"\342\200\256", done.stdout)  # U+202E
        for words in (("replay", "--json"), ("export", "-f", "csv", "-o", "-"), ("export", "-f", "chrome", "-o", "-")):
            said = self.at_a_terminal(*words, "@last")
            self.check(said, words)
            self.assertIn(r"\342", said, words)

    def at_a_terminal(self, *words):
        main, side = pty.openpty()
        process = self.box.start(self.box.scry(*words), stdout=side, stderr=side, env={"SCRY_PAGER": ""})
        os.close(side)
        text = b""
        with contextlib.suppress(OSError):
            while piece := os.read(main, 1 << 16):
                text += piece
        os.close(main)
        process.wait(30)
        return text.decode(errors="replace").replace("\r\n", "\n")

    def test_json_at_a_terminal(self):
        """Programs read JSON as it is; a person at a terminal gets it in ASCII."""
        name = "n\x1b[31m\u202e\u200b\u2028\x9b\u061c\ufeff\U00013439"
        program = self.box.path("work", f"p{name}")
        shutil.copy2(target(), program)
        self.scry_run("-q", "--name", name, "--trace", "all", "--", program, "calls", "1")
        for words in (("report",), ("why",), ("replay",), ("watch",), ("top", "--once"), ("ps", "--all"), ("doctor", "--job")):
            job = [] if words[0] == "ps" else ["@last"]
            self.check(self.at_a_terminal(words[0], "--json", *words[1:], *job), words)
        self.assertIn(name, json.loads(self.scry("report", "--json", "@last").stdout)["name"])

    def test_exports_at_a_terminal(self):
        """Programs read an export as it is; a person at a terminal gets its names escaped."""
        program = self.box.path("work", "p\x1b[31m\u202e;q")
        shutil.copy2(target(), program)
        self.scry_run("-q", "--trace", "all", "--", program, "calls", "1")
        for style in ("folded", "folded-cpu", "folded-waiting", "csv", "chrome"):
            self.check(self.at_a_terminal("export", "-f", style, "-o", "-", "@last"), style)
        plain = self.scry("export", "-f", "folded-cpu", "-o", "-", "@last").stdout
        self.check(plain, "folded-cpu")


scrytest.main()
