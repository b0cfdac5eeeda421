# SPDX-License-Identifier: Apache-2.0
"""MPI programs as tools see them: the services of the extension mpi, on a program whose every message
is known (targets/mpi_served.c)."""

import json
import os
import shutil
import signal

import mpitest
import scrytest
from mpiservicetest import RanksTest
from jobtest import SHARED_FILES
from scrytest import wait_until
from servicetest import *

RANKS, MESSAGES, BYTES, SUMS = 3, 10, 100, 5


def ancestors(pid):
    found = []
    while pid > 1 and (status := scrytest.process_status(pid)):
        pid = int(status["PPid"])
        found.append(pid)
    return found


def calls_of(stats):
    columns = stats["calls"]["columns"]
    return {row[0]: dict(zip(columns, row)) for row in stats["calls"]["rows"]}


class Served(RanksTest):
    mpi = None

    def setUp(self):
        mpitest.need(self)
        super().setUp()

    def built(self):
        return scrytest.built("test", "system", "targets", "mpi_served" if self.mpi == "openmpi" else "mpi_served_mpich")

    def launch(self, *arguments, env=None, program=None):
        return self.box.start([*mpitest.MPIS[self.mpi]["run"], "-n", str(RANKS), program or self.built(), *arguments],
                              env=self.environment() if env is None else env)

    def ranks(self, job=None, launcher=None):
        """By rank: what mpi_get_ranks says of it. `launcher`: only those below that process, for there may be ranks of
        others on this machine."""
        note, found = self.rank_rows(job)
        self.assertEqual(note, '""')
        return {row["rank"]: row for row in found if not launcher or launcher.pid in ancestors(row["pid"])}

    def started(self, states=("running",)):
        """When all ranks are known, attached."""
        ranks = wait_until(lambda: self.all_ranks(RANKS, states), 60)
        for row in ranks.values():
            self.ask(f": proc_attach([{row['token']}])")
        return ranks

    def state(self, token):
        """Of its one thread."""
        names = ("tid", "main", "call", "age", "peer", "tag", "source", "source_tag", "comm", "comm_name", "bytes",
                 "waiting", "module", "offset", "compute", "communicate")
        *head, threads = value(self.ask(f": mpi_get_state([{token}])").result())
        (thread,) = [dict(zip(names, threads[i:i + len(names)])) for i in range(0, len(threads), len(names))]
        return head, thread

    def blocked(self):
        """The program where it waits for the file: (its Popen, ranks, the file)."""
        release = self.box.path("work", "release")
        process = self.launch(release)
        ranks = self.started()
        wait_until(lambda: self.state(ranks[0]["token"])[1]["call"] == "MPI_Recv", 60)
        wait_until(lambda: self.state(ranks[2]["token"])[1]["call"] == "MPI_Barrier", 60)
        wait_until(lambda: self.stats(ranks[1]["token"], "MPI_Allreduce").get("MPI_Allreduce", [0])[0] == SUMS, 60)
        wait_until(lambda: self.state(ranks[1]["token"])[1]["call"] == "", 60)
        return process, ranks, release

    def activity(self):
        """What mpi_get_activity says, by rank; no rank is ever missing."""
        names = ("job", "namespace", "rank", "size", "host", "pid", "library", "state", "spawned", "call", "since", "peer",
                 "tag", "text", "compute", "communicate", "fault", "details")
        (flat,) = value(self.ask(f': mpi_get_activity("{self.jobdir}")').result())
        self.assertEqual(len(flat) % len(names), 0, flat)
        rows = [dict(zip(names, flat[i:i + len(names)])) for i in range(0, len(flat), len(names))]
        self.assertEqual(sorted(row["rank"] for row in rows), list(range(RANKS)))
        return {row["rank"]: row for row in rows}

    def stats(self, token, *primitives, metrics=("count", "bytes", "sent", "received")):
        chosen = ", ".join(f'"{name}"' for name in primitives)
        named = ", ".join(f'"{name}"' for name in metrics)
        columns, rows = value(self.ask(f": mpi_get_stats([{token}], [{chosen}], [{named}])").result())
        self.assertEqual(tuple(columns), tuple(metrics))
        width = 1 + len(metrics)
        return {rows[i]: rows[i + 1:i + width] for i in range(0, len(rows), width)}

    def finish(self, process, release):
        with open(release, "w", encoding="ascii"):
            pass
        out, _ = process.communicate(timeout=60 * scrytest.SCALE)
        self.assertEqual((process.returncode, out), (0, "sum 2\n"))

    def written(self):
        """The statistics in the job directory by rank."""
        found = {}
        for folder, _, names in os.walk(os.path.join(self.jobdir, "stats")):
            for name in names:
                if name.endswith(".json") and name[0].isdigit():
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        stats = json.load(file)
                    self.assertNotIn(stats["rank"], found)
                    found[stats["rank"]] = stats
        return found

    def drained(self):
        """When no process of the job is watched any more, and all is on disk."""
        wait_until(lambda: numbers(self.ask(f': job_trace_info("{self.jobdir}")').result())[:2] == [0, 0], 30)

    def check_schema(self, stats):
        """Every member and every column is in doc/reference/mpi-stats.schema.json, and nothing else is; `look`, `last` and
        `seen` are not always there."""
        with open(os.path.join(scrytest.SOURCE, "doc", "reference", "mpi-stats.schema.json"), encoding="utf-8") as file:
            schema = json.load(file)
        self.assertEqual(list(stats), [name for name in schema["properties"] if name != "seen" or stats["looked"]])
        for name, rule in schema["properties"].items():
            if rule.get("type") == "object" and name in stats:
                columns = rule["properties"]["columns"]["const"]
                self.assertEqual(stats[name]["columns"], columns)
                self.assertTrue(all(len(row) == len(columns) for row in stats[name]["rows"]))
        thread = schema["properties"]["threads"]["items"]["properties"]
        for told in stats["threads"]:
            self.assertEqual("look" in told, stats["looked"])
            self.assertEqual(list(told), [name for name in thread if name in told or name not in ("look", "last")])
            for part in {"outermost", "blocking", "now", "look"} & set(told):
                self.assertEqual(list(told[part]), list(thread[part]["properties"]))


class Services(Served):
    spread = True

    def test_what_goes_on(self):
        process, ranks, release = self.blocked()
        (state, rank, size, library, fault), thread = self.state(ranks[0]["token"])
        self.assertEqual((state, rank, size, library, fault), ("running", 0, RANKS, ranks[0]["library"], ""))
        self.assertEqual((thread["main"], thread["peer"], thread["tag"], thread["bytes"]), (1, 1, 9, 1))
        self.assertEqual((thread["comm"], thread["comm_name"], thread["tid"]), (0, "MPI_COMM_WORLD", ranks[0]["pid"]))
        self.assertEqual(os.path.realpath(thread["module"]), os.path.realpath(self.built()))
        self.assertGreater(thread["offset"], 0x1000)
        again = self.state(ranks[0]["token"])[1] # it waits, and only waits
        self.assertLessEqual(abs(again["compute"] - thread["compute"]), 1)
        self.assertGreater(again["communicate"], thread["communicate"])
        self.assertEqual(self.state(ranks[1]["token"])[1]["call"], "")
        (pending,) = table(self.ask(f": mpi_get_pending([{ranks[0]['token']}])").result(), 9)
        self.assertEqual(pending[1:8], ["MPI_Irecv", "receive", "active", -1, 7, 0, 64])
        self.assertEqual(self.ask(f": mpi_get_pending([{ranks[1]['token']}])").result(), "[]")
        self.finish(process, release)

    def test_statistics(self):
        process, ranks, release = self.blocked()
        for rank, row in ranks.items():
            stats = self.stats(row["token"], "MPI_S*", "MPI_Allreduce")
            self.assertEqual(stats["MPI_Sendrecv"], [MESSAGES, *[MESSAGES * BYTES] * 3])
            members = 1 if rank == 1 else 2
            self.assertEqual(stats["MPI_Allreduce"][:2], [SUMS, SUMS * 8])
            self.assertEqual(stats["MPI_Allreduce"][2:], [SUMS * 8 * members] * 2)
            clock = self.stats(row["token"], "comp*", "comm*", metrics=("total", "min", "max", "average", "count"))
            self.assertEqual(sorted(clock), ["communication", "computation"])
            for total, least, most, average, count in clock.values():
                self.assertLessEqual(least, average)
                self.assertLessEqual(average, most if count else 0)
            unit, total, buckets = value(self.ask(
                f': mpi_get_distribution([{row["token"]}], "MPI_Sendrecv.size")').result())
            self.assertEqual((unit, total, buckets[2]), ("bytes", MESSAGES * BYTES, MESSAGES))
            self.assertTrue(buckets[0] <= BYTES < buckets[1])
            sites = table(self.ask(f": mpi_get_sites([{row['token']}], 100)").result(), 8)
            self.assertEqual([site[3] for site in sites if site[0] == "MPI_Sendrecv"], [MESSAGES])
        self.assertEqual(len(table(self.ask(f": mpi_get_sites([{ranks[0]['token']}], 1)").result(), 8)), 1)
        everything = self.ask(f": mpi_get_stats([{ranks[0]['token']}])").result()
        self.assertEqual(len(value(everything)[0]), 13)
        self.refused(f": mpi_get_stats([{ranks[0]['token']}], [], [\"speed\"])", PARAMETER_ERROR, "completion_average")
        self.refused(f": mpi_get_stats([{ranks[0]['token']}], [\"comp*\", \"MPI_Alreduce\"])", PARAMETER_ERROR,
                     'primitives: MPI has no call "MPI_Alreduce": is it MPI_')
        self.refused(f": mpi_get_distribution([{ranks[0]['token']}], \"MPI_Nothing.size\")", PARAMETER_ERROR, "latency")
        self.finish(process, release)

    @scrytest.thorough
    def test_matrix_and_communicators(self):
        process, ranks, release = self.blocked()
        for rank, row in ranks.items():
            own, rows = value(self.ask(f": mpi_get_matrix([{row['token']}])").result())
            self.assertEqual(own, rank)
            rows = {(peer, comm, call): rest for peer, comm, call, *rest in
                    (rows[i:i + 8] for i in range(0, len(rows), 8))}
            sent = rows[(rank + 1) % RANKS, 0, ""]
            got = rows[(rank - 1) % RANKS, 0, ""]
            self.assertEqual(sent[:4], [MESSAGES, MESSAGES * BYTES, 0, 0])
            self.assertEqual(got[:4], [0, 0, MESSAGES, MESSAGES * BYTES])
            comms = table(self.ask(f": mpi_comm_get_info([{row['token']}])").result(), 11)
            world = next(comm for comm in comms if comm[2] == "MPI_COMM_WORLD")
            half = next(comm for comm in comms if comm[2] == "half")
            self.assertEqual((world[1], world[3], world[4], world[5]), ("intra", RANKS, rank, -1))
            self.assertEqual((half[1], half[5], half[6], half[7]), ("intra", world[0], "MPI_Comm_split", 0))
            self.assertEqual(half[9], [1] if rank == 1 else [0, 2])
            self.assertEqual(half[8], SUMS)
            self.assertIn((-3, half[0], "MPI_Allreduce"), rows)
        self.finish(process, release)

    @scrytest.thorough
    def test_reset(self):
        """Each thread starts again with its next call: the current waits of ranks 0 and 2 are not counted."""
        process, ranks, release = self.blocked()
        tokens = ", ".join(row["token"] for row in ranks.values())
        self.ask(f": mpi_reset([{tokens}])")
        self.finish(process, release)
        self.drained()
        for rank, stats in self.written().items():
            calls = calls_of(stats)
            expected = {0: {"MPI_Wait": 1, "MPI_Barrier": 1}, 1: {"MPI_Send": 2, "MPI_Barrier": 1}, 2: {}}[rank]
            self.assertEqual({name: call["count"] for name, call in calls.items()}, {**expected, "MPI_Finalize": 1})

    @scrytest.thorough
    def test_switched_off(self):
        self.ask(f': job_set("{self.jobdir}", "mpi", "off")')
        release = self.box.path("work", "release")
        process = self.launch(release)
        self.started(("loaded", "running"))
        self.finish(process, release)
        self.drained()
        for stats in self.written().values():
            self.assertEqual((stats["calls"]["rows"], stats["peers"]["rows"]), ([], []))


class Here(Served):
    """What is about the machine beside the tool: its files, its monitor, what one reply has of it."""

    @scrytest.thorough
    def test_activity(self):
        """What the ranks are in, all at once; also of those that have ended."""
        process, ranks, release = self.blocked()
        activity = self.activity
        found = activity()
        for rank, row in found.items():
            self.assertEqual((row["job"], row["size"], row["pid"], row["namespace"], row["library"], row["spawned"],
                              row["fault"]), (self.jobdir, RANKS, ranks[rank]["pid"], ranks[rank]["namespace"],
                                              ranks[rank]["library"], 0, ""))
        self.assertEqual([found[rank]["state"] for rank in range(3)], ["in_call", "computing", "in_call"])
        self.assertEqual((found[0]["call"], found[0]["peer"], found[0]["tag"], found[0]["text"]),
                         ("MPI_Recv", 1, 9, "MPI_Recv of 1 B from rank 1, tag 9 on MPI_COMM_WORLD"))
        self.assertEqual((found[1]["call"], found[2]["call"]), ("", "MPI_Barrier"))
        again = activity()
        self.assertGreater(again[0]["since"], found[0]["since"])
        self.assertAlmostEqual(again[0]["compute"], found[0]["compute"], delta=2)  # rounded to nanoseconds
        self.assertGreater(again[0]["communicate"], found[0]["communicate"])
        self.assertAlmostEqual(again[1]["communicate"], found[1]["communicate"], delta=2)
        self.finish(process, release)
        wait_until(lambda: [row["state"] for row in activity().values()] == ["ended"] * 3, 30)

    def test_ranks(self):
        process, ranks, release = self.blocked()
        self.assertEqual(len({row["namespace"] for row in ranks.values()}), 1)
        self.assertNotEqual(ranks[0]["namespace"], "")
        for row in ranks.values():
            self.assertEqual((row["size"], row["job"]), (RANKS, self.jobdir))
            self.assertEqual(row["exe"], os.path.realpath(self.built()))
            self.assertEqual(row["library"], self.mpi)
            self.assertEqual(os.readlink(f"/proc/{row['pid']}/exe"), row["exe"])
        self.assertEqual(self.ranks("", process), ranks)
        self.assertEqual(self.ranks(os.path.basename(self.jobdir)), ranks)
        self.refused(': mpi_get_ranks("no such job")', PARAMETER_ERROR, "no job")
        self.finish(process, release)
        wait_until(lambda: not self.ranks(), 30)

    def test_wait_graph(self):
        process, ranks, release = self.blocked()
        def graph():
            graph, _, where = self.ask(f': mpi_get_wait_graph("{self.jobdir}")').result().rpartition(",[")
            self.assertRegex(where, rf'^n_1,"[^"]+",{RANKS},\d+,""\]$')
            still, *lists, text = value(graph)
            rows = [table(f"[{','.join(map(repr, part))}]", width) for part, width in zip(lists, (7, 8, 4))]
            # the ranks come to their calls one after the other: both that wait have to be there
            return (rows, text) if {row[0] for row in rows[1]} >= {0, 2} and rows[2] else None
        (nodes, waits, findings), text = wait_until(graph, 30)
        self.assertEqual([row[2] for row in nodes], list(range(RANKS)))
        self.assertEqual([row[3] for row in nodes], [ranks[rank]["pid"] for rank in range(RANKS)])
        self.assertEqual([(row[0], row[2], row[3], row[4], row[5], row[7]) for row in waits if row[0] == 0],
                         [(0, "send", "MPI_Recv", 1, 9, [1])])
        self.assertEqual(findings[0][0], "straggler")
        self.assertEqual((findings[0][1], sorted(findings[0][2])), ([1], [0, 2]))
        self.assertIn("rank 1", text)
        self.finish(process, release)

    @scrytest.thorough
    def test_stall(self):
        """Told once, with the reason; not while calls come and go."""
        number, _ = self.enable(f'mpi_job_has_stalled("{self.jobdir}", 0.5): print([$job, $seconds, $ranks, $text, $finding])')
        process, ranks, release = self.blocked()
        told = [0, 0, 0, "", ""]
        while "2 ranks wait for rank 1" not in told[3]:  # on a busy machine, they also waited for each other before
            told = value(self.triggered(number, timeout=60).result())[1]
        self.assertEqual((told[0], told[2]), (self.jobdir, RANKS))
        self.assertGreaterEqual(told[1], 0.5)
        self.assertIn("MPI_Recv", told[3])
        self.assertEqual(told[4], told[3].split("\n")[0])
        self.omis.quiet(number, 1.2)
        self.finish(process, release)
        self.drained()
        self.refused(f'mpi_job_has_stalled("{self.jobdir}", 0): print([])', PARAMETER_ERROR, "seconds")

    def test_files(self):
        process, ranks, release = self.blocked()
        self.ask(f': mpi_flush("{self.jobdir}") mpi_get_wait_graph("{self.jobdir}", 1)')
        files = self.written()
        self.assertEqual(sorted(files), list(range(RANKS)))
        self.assertTrue(all(stats["running"] and stats["state"] == "running" for stats in files.values()))
        self.assertEqual(files[0]["threads"][0]["now"]["call"], "MPI_Recv")
        self.check_schema(files[0])
        self.finish(process, release)
        self.drained()
        files = self.written()
        for rank, stats in files.items():
            self.assertEqual((stats["running"], stats["state"]), (False, "ended"))
            self.assertEqual(stats["pid"], ranks[rank]["pid"])
            calls = calls_of(stats)
            self.assertEqual((calls["MPI_Sendrecv"]["count"], calls["MPI_Barrier"]["count"]), (MESSAGES, 1))
            for clock in ("outermost", "blocking"):
                clock = stats["threads"][0][clock]
                self.assertEqual(clock["compute_ns"] + clock["communicate_ns"], clock["total_ns"])
            self.assertGreaterEqual(calls["MPI_Barrier"]["total_ns"], 0)
        self.assertEqual(calls_of(files[0])["MPI_Irecv"]["count"], 1)
        self.assertEqual(set(os.listdir(self.box.path("run", "rings"))), SHARED_FILES)
        for stats in files.values():
            self.check_schema(stats)

    @scrytest.thorough
    def test_killed(self):
        """What was counted is there, although nothing in the program ended as it should."""
        process, ranks, _ = self.blocked()
        for row in ranks.values():
            os.kill(row["pid"], signal.SIGKILL)
        wait_until(lambda: [row["state"] for row in self.activity().values()] == ["died"] * 3, 30)
        process.communicate(timeout=60 * scrytest.SCALE)
        self.drained()
        files = self.written()
        self.assertEqual(sorted(files), list(range(RANKS)))
        for stats in files.values():
            self.assertEqual((stats["running"], stats["state"]), (False, "running"))
            self.assertEqual(calls_of(stats)["MPI_Sendrecv"]["got_bytes"], MESSAGES * BYTES)
        self.assertEqual(files[0]["threads"][0]["now"]["call"], "MPI_Recv")
        communicated = files[0]["threads"][0]["outermost"]["communicate_ns"]
        self.assertGreater(communicated, files[0]["threads"][0]["now"]["age_ns"])

    @scrytest.thorough
    def test_monitor_killed(self):
        """Another monitor continues with what the first one left, and loses nothing."""
        process, ranks, release = self.blocked()
        monitor = self.box.monitor_pid()
        os.kill(monitor, signal.SIGKILL)
        wait_until(lambda: scrytest.process_state(monitor) in (None, "Z"))
        self.omis = self.tool()
        self.assertEqual({rank: row["pid"] for rank, row in self.started().items()},
                         {rank: row["pid"] for rank, row in ranks.items()})
        self.ask(f': job_create("{self.jobdir}", {os.getpid()})')
        self.finish(process, release)
        self.drained()
        files = self.written()
        self.assertEqual(sorted(files), list(range(RANKS)))
        for stats in files.values():
            self.assertEqual((stats["state"], calls_of(stats)["MPI_Sendrecv"]["count"]), ("ended", MESSAGES))

    @scrytest.thorough
    def test_directory_made_again(self):
        """Ranks of a job whose directory was removed are not those of the next one that has it."""
        process, ranks, release = self.blocked()
        self.ask(f': mpi_flush("{self.jobdir}")')  # it is written every few seconds, too, if there is more
        self.omis.close()
        self.omis = self.tool()
        shutil.rmtree(self.jobdir)
        os.mkdir(self.jobdir, 0o700)
        self.ask(f': job_create("{self.jobdir}", {os.getpid()})')
        self.assertEqual(self.rank_rows()[1], [])
        other = self.box.path("work", "release-2")
        second = self.launch(other)
        pids = {rank: row["pid"] for rank, row in self.started().items()}
        self.assertFalse(set(pids.values()) & {row["pid"] for row in ranks.values()})
        self.finish(process, release)
        self.assertEqual({rank: row["pid"] for rank, row in self.ranks().items()}, pids)
        self.finish(second, other)
        self.drained()
        self.assertEqual({rank: stats["pid"] for rank, stats in self.written().items()}, pids)

    @scrytest.thorough
    @mpitest.both
    def test_without_agent(self):
        """Ranks that were started without us are found, and nothing else is known of them."""
        release = self.box.path("work", "release")
        process = self.launch(release, env={})
        ranks = wait_until(lambda: (found := self.ranks("", process)) and len(found) == RANKS and
                           all(row["library"] for row in found.values()) and found, 60)
        for rank, row in ranks.items():
            self.assertEqual((row["rank"], row["size"], row["state"], row["job"]), (rank, RANKS, "found", ""))
            self.assertEqual(row["exe"], os.path.realpath(self.built()))
            self.assertEqual(scrytest.process_status(row["pid"])["State"][0] in "RS", True)
        self.assertEqual(len({row["namespace"] for row in ranks.values()}), 1)
        token = ranks[0]["token"]
        self.ask(f": proc_attach([{token}])")
        self.refused(f": mpi_get_state([{token}])", UNSUPPORTED_SERVICE, "scry run")
        self.assertEqual(self.ranks(), {})
        self.finish(process, release)


mpitest.for_each_mpi(Services, globals())
mpitest.for_each_mpi(Here, globals())
scrytest.main()
