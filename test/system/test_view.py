# SPDX-License-Identifier: Apache-2.0
"""scry-view: what it answers of a job is what the report says of it, at every scale."""

import glob
import json
import os
import resource
import signal
import subprocess
import sys
import unittest

import jobtest
import mpitest
import scrytest
import servetest
from viewtest import View, key

MANY = """
#include <mpi.h>
void cell(int *v);
void row(int *v, int n);
__attribute__((noinline)) void cell(int *v) { *v = *v * 5 + 1; }
__attribute__((noinline)) void row(int *v, int n) { for (int i = 0; i < n; i++) cell(v); }
int main(int argc, char **argv)
{
    int v = 1, rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 100; i++) {
        row(&v, 20);
        MPI_Sendrecv(&size, 1, MPI_INT, (rank + 1) % size, 0, &v, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
"""

THREADS = """
#include <pthread.h>
#include <unistd.h>
void work(int n);
__attribute__((noinline)) void work(int n) { for (volatile int i = 0; i < n; i++) ; }
static void *run(void *unused) { for (int i = 0; i < 10; i++) work(1000); return unused; }
int main(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, run, 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    work(5);
    return 0;
}
"""

LONG = """
void leaf(void);
void work(void);
__attribute__((noinline)) void leaf(void) { __asm__ volatile(""); }
__attribute__((noinline)) void work(void) { for (int i = 0; i < 50; i++) leaf(); }
int main(void) { for (int i = 0; i < 4000; i++) work(); return 0; }
"""

DOZE = """
#include <time.h>
void doze(void);
void spin(void);
__attribute__((noinline)) void doze(void) { nanosleep(&(struct timespec){0, 150000000}, 0); }
__attribute__((noinline)) void spin(void) { for (volatile int i = 0; i < 20000000; i++) ; }
int main(void) { doze(); spin(); nanosleep(&(struct timespec){0, 50000000}, 0); return 0; }
"""

LOOP = """
#include <stdio.h>
#include <unistd.h>
void step(void);
__attribute__((noinline)) void step(void) { char c; if (read(0, &c, 1) != 1) _exit(0); puts("x"); fflush(stdout); }
int main(void) { for (;;) step(); }
"""


CRASH = """
#include <stdlib.h>
void fail(void);
__attribute__((noinline)) void fail(void) { abort(); }
int main(void) { fail(); return 0; }
"""

ALONE = """
#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank, in = 1, out;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    while (rank == 0 && access(argv[1], F_OK) != 0)
        usleep(10000);
    MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"""


def compiled(case, name, text, *command):
    source = scrytest.kept(case.script(text, f"{name}.c"))
    rest = [] if command[0] == "cc" or scrytest.THOROUGH else ["-Wl,--no-as-needed", mpitest.compiled_rest()]
    return scrytest.compiled(name, [*command, "-g", "-O1", "-finstrument-functions", source, *rest, "-lpthread"], source)


class Program(mpitest.MpiCase):
    case_seconds = 240

    def traced(self, ranks, *program, options=()):
        job = self.box.path("work", "job")
        done = self.job(ranks, *program, options=["-q", "--mpi", "trace", "--trace", "fn:*", "-o", job, *options])
        self.assertEqual(done.returncode, 0, done.stderr)
        return job

    def same_as_report(self, view, job):
        report = self.report(job)
        wanted = {key(one): (one["calls"], one["total_ns"], one["self_ns"]) for one in report["functions"]}
        profile = view.ask("profile")
        self.assertEqual(wanted, {key(one): tuple(sum(one[name]) for name in ("calls", "total_ns", "self_ns"))
                                  for one in profile["functions"]})
        for one in report["functions"]:
            mine, = (each for each in profile["functions"] if key(each) == key(one))
            by_rank = {process["rank"]: mine["calls"][process["process"]] for process in profile["processes"]}
            self.assertEqual({rank["rank"]: rank["calls"] for rank in one["ranks"]},
                             {rank: calls for rank, calls in by_rank.items() if calls})
        functions = view.picture()["functions"]
        selection = view.ask("selection")
        self.assertEqual(wanted, {key(functions[one["id"]]): (one["calls"], one["total_ns"], one["self_ns"])
                                  for one in selection["functions"]})
        members = "calls", "total_ns", "sent_bytes", "received_bytes"
        self.assertEqual({one["name"]: tuple(one[name] for name in members) for one in report["mpi"]["calls"]},
                         {one["name"]: tuple(sum(one[name]) for name in members) for one in view.ask("volume")["calls"]})
        nodes = view.ask("tree")["nodes"]
        self.assertEqual(sum(one["calls"] for one in report["functions"]), sum(node["calls"] for node in nodes))

    def check_scales(self, view, lane, picture, functions):
        """The columns of all of it are what the single calls of its deepest tiles add up to."""
        calls = view.all_calls(lane["lane"])
        self.assertEqual(len(calls), lane["calls"])
        tile = view.ask("tiles", level=0, index=0, lanes=str(lane["lane"]))
        one, = tile["lanes"]
        self.assertEqual(one["calls"], lane["calls"])
        depth, cells = one["depth"], one["columns"]
        length = picture["to_ns"] - picture["from_ns"]
        for column in range(picture["columns"]):
            begin, end = (picture["from_ns"] + length * i // picture["columns"] for i in (column, column + 1))
            for row in range(depth):
                sums = {}
                for call in calls:
                    if call[3] == row and call[0] < end and call[1] > begin:
                        sums[call[2]] = sums.get(call[2], 0) + min(call[1], end) - max(call[0], begin)
                at = 2 * (column * depth + row)
                function, share = cells[at:at + 2] if at < len(cells) else (-1, 0)
                best = max(sums.values(), default=0)
                self.assertEqual(best > 0, share > 0)
                if best:
                    self.assertEqual(sums[function], best, functions[function])
                    self.assertAlmostEqual(share, 255 * best / (end - begin), delta=1)


class Stommel(Program):
    RANKS, STEPS = 4, 30

    def test_all(self):
        name = "stommel" if self.mpi == "openmpi" else "stommel_mpich"
        job = self.traced(self.RANKS, scrytest.example(name), 48, 40, self.STEPS, 10)
        with View(self.box, job) as view:
            picture = view.picture()
            self.same_as_report(view, job)
            self.assertEqual([lane["rank"] for lane in picture["lanes"]][:self.RANKS], list(range(self.RANKS)))
            self.assertEqual(picture["messages"], 8 * self.STEPS)
            self.check_tile(view, picture)
            self.check_calls(view, picture)
            self.check_rest(view)
        os.unlink(glob.glob(os.path.join(job, "stats", "*", "*-0.json"))[0])
        with View(self.box, job) as view:
            self.assertEqual(view.ask("volume")["notes"], [f"1 of {self.RANKS} ranks have no statistics of MPI here: they are left out"])

    @scrytest.thorough
    def test_hosts(self):
        """A rank whose node's clock is an hour ahead is where it belongs, and sums stay those of the report."""
        name = "stommel" if self.mpi == "openmpi" else "stommel_mpich"
        job = self.traced(self.RANKS, scrytest.example(name), 48, 40, self.STEPS, 10)
        with View(self.box, job) as view:
            before = view.picture()
        path = sorted(glob.glob(os.path.join(job, "trace", "*", "*", ".process")))[-1]
        with open(path, encoding="utf-8") as file:
            lines = [line.split("\t", 1) for line in file.read().splitlines()]
        changed = {"host": lambda _: "other", "boot_id": lambda _: "other", "clock_offset_ns": lambda text: int(text) + 3600 * 10 ** 9}
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{name}\t{changed.get(name, str)(text)}\n" for name, text in lines)
        with View(self.box, job) as view:
            picture = view.picture()
            self.same_as_report(view, job)
            self.assertGreater(picture["clock_bound_ns"], 0)
            for name in ("from_ns", "to_ns"):
                self.assertAlmostEqual(picture[name], before[name], delta=10 ** 9)
            self.check_tile(view, picture)

    def check_tile(self, view, picture):
        tile = view.ask("tiles", level=0, index=0)
        self.assertEqual((tile["from_ns"], tile["to_ns"]), (picture["from_ns"], picture["to_ns"]))
        lines = list(zip(*(tile["messages"][i::5] for i in range(5))))
        self.assertEqual((len(lines), tile["message_step"]), (8 * self.STEPS, 1))
        self.assertEqual(sorted({line[0] for line in lines}), list(range(self.RANKS)))
        for _, _, sent, received, size in lines:
            self.assertLessEqual(picture["from_ns"], sent)
            self.assertLess(sent, received)
            self.assertIn(size, (4 * 48, 4 * 40))
        self.assertGreater(len(tile["collectives"]), 0)
        for one in tile["collectives"]:
            self.assertEqual(len(one["lanes"]), len(one["begin"]))
            self.assertTrue(all(begin <= end for begin, end in zip(one["begin"], one["end"])))

    def check_calls(self, view, picture):
        names = [function["name"] for function in picture["functions"]]
        found = view.ask("search", function="MPI_Sendrec?", limit=10000)
        self.assertEqual((len(found["calls"]), found["complete"]), (4 * self.RANKS * self.STEPS, True))
        self.assertEqual(found["calls"], sorted(found["calls"], key=lambda one: (one["begin"], one["lane"])))
        first = view.ask("search", function="MPI_Sendrecv", limit=3)
        self.assertEqual(([one["begin"] for one in first["calls"]], first["complete"]),
                         ([one["begin"] for one in found["calls"][:3]], False))
        one = found["calls"][7]
        call = view.ask("call", lane=one["lane"], at=one["begin"], depth=one["depth"])
        self.assertEqual((call["begin"], call["end"], names[call["function"]]), (one["begin"], one["end"], "MPI_Sendrecv"))
        self.assertIn({"name": "bytes", "value": str(4 * 48)} if {"name": "bytes", "value": str(4 * 48)} in call["arguments"]
                      else {"name": "bytes", "value": str(4 * 40)}, call["arguments"])
        values = view.ask("search", function="MPI_Sendrec?", limit=8, values=1)["calls"][7]
        self.assertEqual(values, {**one, "arguments": call["arguments"], "result": call["result"]})
        self.assertEqual([names[one["function"]] for one in call["callers"][-1:]], ["main"] if "main" in names else [])
        whole = view.ask("search", function="main")["calls"]
        self.assertEqual(len(whole), self.RANKS if "main" in names else 0)  # with MPICH it is compiled without hooks
        self.assertTrue(all(one["begin"] < one["end"] <= picture["to_ns"] for one in whole))
        half = (picture["from_ns"] + picture["to_ns"]) // 2
        parts = [view.ask("selection", lanes="0-1,3", **part) for part in ({"to": half}, {"from": half}, {})]
        sums = [{one["id"]: one["self_ns"] for one in part["functions"]} for part in parts]
        for function, self_ns in sums[2].items():
            self.assertAlmostEqual(sum(part.get(function, 0) for part in sums[:2]), self_ns, delta=4)

    def check_rest(self, view):
        tree = view.ask("tree", processes="1", limit=2)
        self.assertGreater(tree["joined"], 0)
        self.assertIn("(others)", [node["function"] for node in tree["nodes"]])
        for i, node in enumerate(tree["nodes"]):
            self.assertTrue(node["parent"] is None or node["parent"] < i)
        self.assertIn("MPI_Sendrecv.size", [one["name"] for one in view.ask("distributions")["distributions"]])
        self.assertEqual(view.refused("source", file="/etc/passwd"), "not_found")
        name, traced = next((one["file"], one["functions"] > 0 and not one["sampled"]) for one in view.ask("source")["files"]
                            if one["file"].endswith("stommel.c"))
        source = view.ask("source", file=name)
        with open(name, encoding="utf-8") as file:
            self.assertEqual(source["lines"], file.read().splitlines())
        self.assertEqual("do_jacobi" in [one["function"] for one in source["functions"] if one["calls"]], traced)
        self.assertIn("MPI_Sendrecv", [one["function"] for one in source["sites"]])


class Alone(Program):
    def test_open(self):
        """Ranks that wait for another one are seen in their call while they do, as long as is known."""
        program, gate = compiled(self, f"view_alone_{self.mpi}", ALONE, mpitest.MPIS[self.mpi]["c"]), self.box.path("work", "gate")
        run = self.start_job(3, program, gate, options=["--mpi", "trace"])
        job = self.box.path("work", "job")

        def waiting():
            """{rank: since when it has been in MPI_Allreduce, and until when that is known}, of a second and more"""
            said = view.last_calls()
            ranks = {lane["lane"]: lane["rank"] for lane in view.ask("picture")["lanes"]}
            calls = [(ranks[lane], *call) for lane, depths in said.items() for call in depths.values()]
            return {rank: (begin, end) for rank, name, begin, end, is_open in calls
                    if name == "MPI_Allreduce" and is_open and end > begin + 10 ** 9}

        scrytest.wait_until(lambda: os.path.exists(os.path.join(job, "job.json")), 60, "the job did not begin")
        with View(self.box, job) as view:
            scrytest.wait_until(lambda: {1, 2} <= set(waiting()), 60, "the ranks were not seen to wait")
            first = waiting()
            self.assertEqual(set(first), {1, 2})
            scrytest.wait_until(lambda: all(waiting()[rank][1] > until for rank, (_, until) in first.items()), 60, "nothing more was seen")
            self.assertEqual({rank: begin for rank, (begin, _) in waiting().items()}, {rank: begin for rank, (begin, _) in first.items()})
            picture = view.ask("picture")
            self.assertTrue(all(until <= picture["until_ns"] <= picture["to_ns"] for _, until in first.values()))
            with open(gate, "wb"):
                pass
            self.assertEqual(run.wait(60 * scrytest.SCALE), 0)
            scrytest.wait_until(lambda: not view.ask("picture")["running"], 60, "the end was not seen")
            view.picture()
            self.assertFalse([lane for lane in view.ask("tiles", level=0, index=0)["lanes"] if "open" in lane])


class Many(Program):
    @scrytest.thorough
    def test_scales(self):
        program = compiled(self, f"view_many_{self.mpi}", MANY, mpitest.MPIS[self.mpi]["c"])
        job = self.traced(2, program)
        with View(self.box, job) as view:
            picture = view.picture()
            self.same_as_report(view, job)
            self.check_scales(view, picture["lanes"][0], picture, picture["functions"])


class Plain(jobtest.JobCase):
    """Without MPI."""
    case_seconds = 240

    def run_job(self, *words, status=0):
        job = self.box.path("work", "job")
        done = self.box.run(self.box.scry("run", "-q", "-o", job, *words))
        self.assertEqual(done.returncode, status, done.stderr)
        return job

    def threads(self):
        program = compiled(self, "view_threads", THREADS, "cc")
        return self.run_job("--trace", "fn:*", "--", program)

    def test_threads(self):
        job = self.threads()
        with View(self.box, job) as view:
            picture = view.picture()
            self.assertEqual([lane["calls"] for lane in picture["lanes"]], [2, 11, 11, 11])
            self.assertEqual({lane["rank"] for lane in picture["lanes"]}, {None})
            self.assertEqual(picture["clock_bound_ns"], 0)
            self.assertEqual(view.ask("search", function="work")["calls"][0]["depth"], 1)
            self.assertEqual(view.refused("volume"), "no_trace")
            self.assertEqual(view.refused("call", lane=0, at=-5), "not_found")

    def test_questions(self):
        """What is wrong is refused, and the next one is answered."""
        with View(self.box, self.threads()) as view:
            for wrong in ({"level": 40}, {"level": -1}, {"level": "x"}, {"index": 1}, {"lanes": "3-1"}, {"lanes": 5}, {"more": 1},
                          {"level": 1.5}, {"level": " 1"}, {"lanes": "1,"}, {"lanes": "-"}):
                self.assertEqual(view.refused("tiles", **{"level": 0, "index": 0, **wrong}), "bad_question", wrong)
            self.assertEqual(view.refused("selection", **{"from": 5, "to": 5}), "bad_question")
            self.assertEqual(view.refused("tiles"), "bad_question")
            self.assertEqual(view.refused("nothing"), "bad_question")
            self.assertEqual(len(view.ask("tiles", level="0", index="0", lanes="1-2,900")["lanes"]), 2)
            for line in ("[]", "{", "x" * 70000, '{"id":"a","ask":"picture"}', '{"id":1}', '{"id":1,"id":2,"ask":"picture"}', "\0"):
                view.process.stdin.write(line + "\n")
                view.process.stdin.flush()
                self.assertEqual(json.loads(view.process.stdout.readline())["error"]["kind"], "bad_question", line[:50])
            view.picture()

    def test_waits(self):
        """A thread without a processor waits: of a call, and of any part, as the report has it."""
        job = self.run_job("--trace", "fn:*", "--", compiled(self, "view_doze", DOZE, "cc"))
        report = {one["name"]: one for one in json.loads(self.box.run(self.box.scry("report", "--json", job)).stdout)["functions"]}
        known = report["doze"]["self_waiting_ns"] is not None
        with View(self.box, job) as view:
            picture = view.picture()
            names = {function["name"]: function["id"] for function in picture["functions"]}
            doze, = view.ask("search", function="doze")["calls"]
            call = view.ask("call", lane=0, at=doze["begin"], depth=doze["depth"])
            self.assertEqual(call["function"], names["doze"])
            if not known:
                self.skipTest("the kernel does not tell when threads have a processor")
            for kind in "cpu", "waiting", "preempted":
                self.assertAlmostEqual(call[f"{kind}_ns"], report["doze"][f"self_{kind}_ns"], delta=2000)
            self.assertGreater(call["waiting_ns"], 149 * 10 ** 6)

            def classes(**part):
                return {one["class"]: one["total_ns"] for one in view.ask("selection", **part)["classes"]}
            waiting = sum(one["self_waiting_ns"] for one in report.values())
            self.assertAlmostEqual(classes()["wait"], waiting, delta=10 ** 6)
            self.assertAlmostEqual(sum(classes().values()), picture["to_ns"] - picture["from_ns"], delta=10 ** 6)
            inside = classes(**{"from": doze["begin"] + 10 ** 7, "to": doze["begin"] + 6 * 10 ** 7})
            self.assertGreater(inside["wait"], 49 * 10 ** 6)
            self.assertLess(inside.get("compute", 0), 10 ** 6)

    def said(self, job):
        """All that a picture has, once it is complete. Before the second question is answered, it is kept."""
        with View(self.box, job) as view:
            picture = view.picture()
            deep = picture["levels"] - 1
            return (picture, view.ask("tiles", level=0, index=0), view.ask("tiles", level=3, index=5),
                    view.ask("tiles", level=deep, index=(1 << deep) // 2), view.ask("selection"), view.ask("search", function="w*"))

    def test_kept(self):
        """The traces of a job that is over are read once; what was kept is gone with the job, and only used if it is whole."""
        job = self.run_job("--trace", "fn:*", "--overflow", "wait", "--", compiled(self, "view_long", LONG, "cc"))
        first = self.said(job)
        path, = glob.glob(self.box.path("home", ".cache", "scry", "pictures", "*"))

        def is_used():
            """Nothing was kept anew."""
            before = os.stat(path)
            self.assertEqual(self.said(job), first)
            after = os.stat(path)
            return (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)

        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertTrue(is_used())
        with open(path, "rb") as file:
            whole = file.read()
        for at in (0, 10, 40, 60, len(whole) // 2, len(whole) - 1):
            self.damage(path, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
            self.assertFalse(is_used(), at)
        for damaged in (b"", whole[:30], whole[:-1], whole + b"x", b"x" * len(whole)):
            self.damage(path, damaged)
            self.assertFalse(is_used(), len(damaged))
        self.assertTrue(is_used())
        stream, = glob.glob(os.path.join(job, "trace", "*", "*", "stream-*"))
        os.utime(stream)  # not the file that was read
        self.assertFalse(is_used())
        self.box.run(self.box.scry("rm", "-q", job))
        self.assertFalse(os.path.exists(job) or os.path.exists(path))
        self.damage(path, whole)
        with View(self.box, self.run_job("--", "true"), "0"):  # scry serve --keep-pictures 0
            scrytest.wait_until(lambda: not os.path.exists(path), 60, "what was kept goes")

    @scrytest.thorough
    def test_answers_about_all_of_it_are_kept(self):
        """What was asked of a whole job once is answered from what was kept, as it was; parts are read again."""
        job = self.run_job("--trace", "fn:*", "--overflow", "wait", "--", compiled(self, "view_long", LONG, "cc"))
        size = sum(os.path.getsize(path) for path in glob.glob(os.path.join(job, "trace", "*", "*", "stream-*")))
        questions = [("profile", {}), ("tree", {}), ("tree", {"limit": 3}), ("selection", {})]

        def answers():
            """And how many bytes were read for them."""
            with View(self.box, job) as view:
                view.picture()
                before = self.bytes_read(view.process.pid)
                return [view.ask(question, **members) for question, members in questions], self.bytes_read(view.process.pid) - before
        first, read = answers()
        self.assertGreater(read, size / 2)
        again, read = answers()
        self.assertEqual(again, first)
        self.assertLess(read, size / 2)
        with View(self.box, job) as view:
            self.assertEqual(view.ask("profile"), first[0])
            picture = view.ask("picture")
            part = view.ask("selection", to=(picture["from_ns"] + picture["to_ns"]) // 2)
            self.assertLess(sum(each["calls"] for each in part["functions"]), sum(each["calls"] for each in first[3]["functions"]))

    def test_questions_are_forgotten(self):
        """Who waits no longer makes no work: neither what waits is read nor the rest of what is being read; each question has one answer."""
        job = self.run_job("--trace", "fn:*", "--overflow", "wait", "--", compiled(self, "view_long", LONG, "cc"))
        with View(self.box, job) as view:
            first = view.picture()["from_ns"]

            def send(*lines):
                view.process.stdin.write("".join(json.dumps(line) + "\n" for line in lines))
                view.process.stdin.flush()

            def answers(count):
                return [json.loads(view.process.stdout.readline()) for _ in range(count)]
            send(*({"id": 1000 + i, "ask": "selection", "from": first + i} for i in range(40)))
            seen = answers(1)  # others are being read
            send(*({"id": 1000 + i, "ask": "forget"} for i in range(40)), {"id": 1, "ask": "forget"}, {"id": 2000, "ask": "picture"})
            seen += answers(40)
            said = {one["id"]: one.get("error", {}).get("kind", "ok") for one in seen}
            self.assertEqual(sorted(said), [*range(1000, 1040), 2000])
            self.assertEqual(set(said.values()), {"ok", "forgotten"})
            self.assertGreater(list(said.values()).count("forgotten"), 30)
            self.assertIn("functions", view.ask("selection", to=first + 10 ** 9))

    @scrytest.thorough
    def test_who_goes_away_is_forgotten(self):
        """A browser that moves on leaves no work behind in scry serve."""
        job = self.run_job("--trace", "fn:*", "--overflow", "wait", "--", compiled(self, "view_long", LONG, "cc"))
        size = sum(os.path.getsize(path) for path in glob.glob(os.path.join(job, "trace", "*", "*", "stream-*")))
        server = servetest.Server(self.box, "--jobs", os.path.dirname(job))
        server.log_in()
        path = f"api/jobs/{os.path.basename(job)}"
        picture = scrytest.wait_until(lambda: [said for said in [server.ask(f"{path}/picture").json] if said["complete"]], 60, "a picture")[0]
        pid, = [pid for pid in self.box.processes() if self.name_of(pid) == "scry-view"]
        os.kill(pid, signal.SIGSTOP)
        asked = []
        for number in range(1, 21):
            asked.append(server.connect())
            asked[-1].request("GET", f"/{path}/selection?from={picture['from_ns'] + number}", headers={"host": server.host, "cookie": server.cookie})
        self.assertEqual(server.ask("api/session").status, 200)
        before = self.bytes_read(pid)
        for connection in asked:
            connection.close()
        scrytest.wait_until(lambda: self.connections(server.port) == 0, 60, "the server has seen that they are gone")
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(server.ask(f"{path}/tiles/1/1").status, 200)
        self.assertEqual(server.ask(f"{path}/selection?from={picture['to_ns'] - 1}").status, 200)
        self.assertLess(self.bytes_read(pid) - before, 10 * size)

    @staticmethod
    def name_of(pid):
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return ""

    @staticmethod
    def connections(port):
        with open("/proc/net/tcp", encoding="ascii") as file:
            rows = [line.split() for line in file]
        return sum(1 for row in rows if row[1].endswith(f":{port:04X}") and row[3] in ("01", "08"))

    @staticmethod
    def bytes_read(pid):
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            return int(file.readline().split()[1])

    def test_not_kept(self):
        """Where nothing may be written (ulimit -f), nothing is kept, and all is answered."""
        job = self.run_job("--trace", "fn:*", "--overflow", "wait", "--", compiled(self, "view_long", LONG, "cc"))
        with View(self.box, job) as view:
            resource.prlimit(view.process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
            view.picture()
            functions = view.ask("selection")
            scrytest.wait_until(lambda: os.path.isdir(self.box.path("home", ".cache", "scry", "pictures")), 60, "it is not tried")
            for _ in range(3):
                self.assertEqual(view.ask("selection"), functions)
        self.assertEqual(os.listdir(self.box.path("home", ".cache", "scry", "pictures")), [])

    def damage(self, path, data):
        with open(path + ".new", "wb") as file:
            file.write(data)
        os.rename(path + ".new", path)

    def test_python(self):
        """Functions of Python are there with the figures of the report, without and beside those that are traced."""
        text = "def leaf(n):\n    return sum(range(n))\ndef work():\n    for i in range(200):\n        leaf(i)\nwork()\n"
        job = self.run_job("--script", "calls", "--", sys.executable, self.script(text, "work.py"))
        wanted = json.loads(self.box.run(self.box.scry("report", "--json", job)).stdout)["scripts"]["python_functions"]
        if not wanted:
            self.skipTest("this Python is not understood")
        with View(self.box, job) as view:
            self.assertEqual(view.ask("profile")["python_functions"], wanted)
            nodes = view.ask("tree")["nodes"]
            self.assertEqual([(node["function"], node["parent"]) for node in nodes],
                             [("(Python)", None)] + [(one["function"], 0) for one in wanted])
            self.assertEqual(nodes[0]["total_ns"], sum(one["self_ns"] for one in wanted))
            self.assertEqual([(node["file"], node["line"], node["calls"], node["total_ns"], node["self_ns"]) for node in nodes[1:]],
                             [(one["file"], one["line"], one["calls"], one["self_ns"], one["self_ns"]) for one in wanted])

    def test_no_trace(self):
        with View(self.box, self.run_job("--", "true")) as view:
            picture = view.picture()
            self.assertEqual((picture["lanes"], view.ask("profile")["functions"]), ([], []))
            self.assertEqual(picture["notes"], ["the job has no trace: no single calls were recorded"])
            self.assertEqual(view.ask("tiles", level=0, index=0)["lanes"], [])
            self.assertEqual(view.refused("samples"), "no_trace")

    def test_samples(self):
        """The profile: its figures are those of the report, of a program and a process those of the process; its files are sources."""
        command = f"{jobtest.target('profiled')} plain 0.4; {jobtest.target('profiled_pointers')} waits 0.5; {jobtest.target('profiled_static')} threads 0.4"
        job = self.run_job("--profile", "500", "--", "sh", "-c", command)
        report = self.report(job)["profile"]
        with View(self.box, job) as view:
            whole = view.ask("samples")
            self.assertEqual((whole["samples"], whole["hz"]), (report["samples"], report["hz"]))
            known = {(row["name"], row["module"]): (row["self_seconds"], row["total_seconds"], row["waiting_seconds"]) for row in report["functions"]}
            for row in whole["functions"]:
                for ours, theirs in zip((row["self_ns"], row["total_ns"], row["waiting_ns"]), known[row["name"], row["module"]]):
                    self.assertAlmostEqual(ours / 1e9, theirs, delta=1e-6)
            roots = {node[1]: node for node in whole["nodes"] if node[0] < 0}
            self.assertAlmostEqual(sum(node[3] for node in roots.values()), whole["self_ns"], delta=len(roots))
            one = view.ask("samples", program="profiled")
            self.assertAlmostEqual(one["self_ns"], roots["profiled"][3], delta=2)
            self.assertEqual([row["name"] for row in one["functions"][:2]], ["first", "second"])
            spans = whole["spans"]
            self.assertAlmostEqual(sum(span[0] for span in spans), whole["self_ns"], delta=len(spans))
            self.assertAlmostEqual(sum(span[1] for span in spans), whole["waiting_ns"], delta=0.02e9)
            part = [view.ask("samples", program="profiled", **{"from": start * whole["span_ns"], "to": (start + 2) * whole["span_ns"]})
                    for start in range(0, len(spans), 2)]
            self.assertAlmostEqual(sum(each["self_ns"] for each in part), one["self_ns"], delta=len(part))
            times = {each["functions"][0]["name"]: each["self_ns"] for each in reversed(part) if each["functions"]}
            self.assertIn("first", times)
            self.assertLess(times["first"], 1.2 * 2 * whole["span_ns"])
            key, = (row["key"] for row in whole["processes"] if row["name"] == "profiled")
            self.assertEqual(view.ask("samples", process=key)["nodes"], one["nodes"])
            thread = max(whole["threads"], key=lambda row: row["self_ns"])
            its = view.ask("samples", thread=thread["key"])
            self.assertEqual((thread["name"], its["spans"]), ("half", []))
            self.assertEqual(its["self_ns"], thread["self_ns"])
            self.assertEqual((its["functions"][0]["name"], its["nodes"][0][1]), ("first", "profiled_static"))
            self.assertEqual(sum(node[2] for node in its["nodes"]), thread["self_ns"])
            self.assertEqual(view.refused("samples", thread=thread["key"], program="profiled"), "bad_question")
            waits = {row["name"]: row["waits"] for row in whole["functions"]}
            self.assertGreater(waits["naps"]["sleep"], 0.3e9)
            file = next(row["file"] for row in view.ask("source")["files"] if row["file"].endswith("profiled.c"))
            source = view.ask("source", file=file)
            first = next(row for row in source["functions"] if row["function"] == "first")
            self.assertIn("first", source["lines"][first["line"] - 1])
            self.assertGreater(first["self_ns"], 0.1e9)
            self.assertEqual(view.refused("source", file="/etc/passwd"), "not_found")

    def test_running(self):
        """What is there by now; and what has come since."""
        program = compiled(self, "view_loop", LOOP, "cc")
        job = self.box.path("work", "job")
        run = self.box.start(self.box.scry("run", "-q", "-o", job, "--trace", "fn:*", "--", program), stdin=subprocess.PIPE)

        def go(steps):
            run.stdin.write("y" * steps)
            run.stdin.flush()
            for _ in range(steps):
                self.assertEqual(run.stdout.readline(), "x\n")

        def calls():
            return sum(one["calls"] for one in view.ask("selection")["functions"] if one["name"] == "step")

        go(3)
        with View(self.box, job) as view:
            scrytest.wait_until(lambda: calls() >= 3, 60, "no call was seen")
            self.assertTrue(view.ask("picture")["running"])
            go(40)
            scrytest.wait_until(lambda: calls() >= 43, 60, "nothing more was seen")
            run.stdin.close()
            run.wait(60 * scrytest.SCALE)
            scrytest.wait_until(lambda: not view.ask("picture")["running"], 60, "the end was not seen")
            self.assertEqual(view.picture()["lanes"][0]["calls"], 45)

    def test_open(self):
        """Of a call that does not end, as much is drawn as is known: with many calls before it, and few."""
        program = compiled(self, "view_loop", LOOP, "cc")
        job = self.box.path("work", "job")
        run = self.box.start(self.box.scry("run", "-q", "-o", job, "--trace", "fn:*", "--", program), stdin=subprocess.PIPE)

        def go(steps):
            for _ in range(steps):
                run.stdin.write("y")
                run.stdin.flush()
                self.assertEqual(run.stdout.readline(), "x\n")

        def steps():
            lanes = view.ask("picture")["lanes"]
            return lanes[0]["calls"] - 1 if lanes else 0

        def single():
            """The open ones, if there are single calls: for a second and more, which is longer than any step before."""
            calls = view.last_calls().get(0, {})
            return [call[0] for call in calls.values() if call[3] and call[2] > call[1] + 10 ** 9]

        def columns():
            """The functions of the last column; it is a second behind the last call that has ended."""
            tile, picture = view.ask("tiles", level=0, index=0), view.ask("picture")
            lane, names = tile["lanes"][0], [function["name"] for function in picture["functions"]]
            cells, depth = lane.get("columns", []), lane.get("depth", 1)
            end = tile["from_ns"] + (tile["to_ns"] - tile["from_ns"]) * (len(cells) // 2 // depth) // picture["columns"]
            if not cells or end < view.ask("search", function="step")["calls"][-1]["begin"] + 10 ** 9:
                return []
            return [names[function] for function in cells[-2 * depth::2] if function >= 0]

        go(3)
        with View(self.box, job) as view:
            scrytest.wait_until(lambda: steps() == 4 and single() == ["main", "step"], 60, "the open calls were not seen")
            go(600)
            scrytest.wait_until(lambda: steps() == 604 and columns() == ["main", "step"], 60, "the open calls were not seen after many")
            run.stdin.close()
            run.wait(60 * scrytest.SCALE)

    def test_crash(self):
        job = self.run_job("--trace", "fn:*", "--", compiled(self, "view_crash", CRASH, "cc"), status=134)
        with View(self.box, job) as view:
            names = [function["name"] for function in view.picture()["functions"]]
            lane, = view.ask("tiles", level=0, index=0)["lanes"]
            self.assertEqual(([names[function] for function in lane["calls"][2::4]], lane["open"]), (["main", "fail"], [0, 1]))

    def test_damaged(self):
        """Whatever the files are, it answers or says why not."""
        job = self.threads()
        streams = sorted(glob.glob(os.path.join(job, "trace", "*", "*", "*"))) + \
            sorted(glob.glob(os.path.join(job, "trace", "*", "*", ".*")))
        for path in (path for path in streams if os.path.isfile(path)):
            with open(path, "rb") as file:
                whole = file.read()
            for damaged in (b"", whole[:len(whole) // 2], bytes(byte ^ 0x5a for byte in whole), whole[1:], whole * 2):
                with open(path, "wb") as file:
                    file.write(damaged)
                with View(self.box, job) as view:
                    view.picture()
                    for question, members in (("tiles", {"level": 0, "index": 0}), ("selection", {}), ("profile", {}),
                                              ("search", {"function": "*"}), ("tree", {}), ("source", {})):
                        line = view.answer(question, **members)
                        self.assertTrue("ok" in line or line["error"]["text"], line)
            with open(path, "wb") as file:
                file.write(whole)

    @unittest.skipUnless(os.geteuid() == 0, "only root can give files away")
    def test_sources_of_others(self):
        """A job of another user shows no file that is closed to that user, whatever it names as its source."""
        source, program, job = (self.box.path("work", name) for name in ("secret.c", "secret", "job"))
        with open(source, "w", encoding="ascii") as file:
            file.write("void f(void);\n__attribute__((noinline)) void f(void) { __asm__ volatile(\"\"); }\nint main(void) { f(); return 0; }\n")
        self.box.run(["gcc", "-g", "-O1", "-finstrument-functions", "-o", program, source])
        self.box.run(self.box.scry("run", "-q", "--trace", "fn:*", "-o", job, "--", program))

        def lines():
            with View(self.box, job) as view:
                name, = [one["file"] for one in view.ask("source")["files"]]
                return len(view.ask("source", file=name)["lines"])
        os.chmod(source, 0o600)
        self.assertEqual(lines(), 3)
        os.chown(job, 65534, 65534)
        self.assertEqual(lines(), 0)
        os.chown(source, 65534, 65534)
        self.assertEqual(lines(), 3)

    @scrytest.thorough
    def test_hidden_sources(self):
        """The files of a task lie below ~/.local and are shown; what is hidden elsewhere is not."""
        def lines(where, job):
            os.makedirs(where)
            source, program = os.path.join(where, "quiet.c"), os.path.join(where, "quiet")
            with open(source, "w", encoding="ascii") as file:
                file.write("int main(void) { return 0; }\n")
            self.box.run(["gcc", "-g", "-finstrument-functions", "-o", program, source])
            self.box.run(self.box.scry("run", "-q", "--trace", "fn:*", "-o", job, "--", program))
            with View(self.box, job) as view:
                name, = [one["file"] for one in view.ask("source")["files"]]
                return len(view.ask("source", file=name)["lines"])
        task = self.box.path("work", ".local", "tasks", "1")
        os.symlink(self.box.path("work"), self.box.path("home", "here"))
        os.makedirs(f"{task}/runs")
        self.assertEqual(lines(f"{task}/files", f"{task}/runs/1"), 1)
        self.assertEqual(lines(self.box.path("home", "here", ".local", "tasks", "1", "more"), f"{task}/runs/2"), 1)
        self.assertEqual(lines(f"{task}/files/.git", f"{task}/runs/3"), 0)
        self.assertEqual(lines(self.box.path("work", ".ssh"), f"{task}/runs/4"), 0)
        self.assertEqual(lines(self.box.path("work", ".config"), self.box.path("work", "job")), 0)

    def test_foreign(self):
        for make in (lambda path: None, os.mkdir, lambda path: open(path, "wb").close()):
            path = self.box.path("work", "foreign")
            make(path)
            done = self.box.run([self.box.path("libexec", "scry-view"), path], input='{"id":1,"ask":"picture"}\n')
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(path, done.stderr)
            if os.path.isdir(path):
                os.rmdir(path)


for each in (Alone, Stommel, Many):
    mpitest.for_each_mpi(each, globals())
del each, Program
scrytest.main()
