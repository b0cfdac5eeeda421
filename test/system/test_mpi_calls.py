# SPDX-License-Identifier: Apache-2.0
"""Statistics of MPI programs whose every call is known: counts, bytes, peers, call sites; in C and all styles of Fortran,
under both MPIs."""

import json
import os
import re
import unittest

import mpitest
import scrytest
from mpitest import calls_of, matrix_of, received_of

RANKS = 4
CLASSES = ("blocking", "nonblocking", "collective", "communicators", "onesided", "files")
# How often a test is repeated until it is true, or how many are done at a time, is up to the library.
VARYING = ("MPI_Testall", "MPI_Waitsome")
LENGTH = 8  # of a double


class Calls(mpitest.MpiCase):
    def expected(self):
        return [json.loads(self.read(f"expect.{rank}")) for rank in range(RANKS)]

    def read(self, name):
        with open(self.box.path("work", name), encoding="utf-8") as file:
            return file.read()

    def run_class(self, *classes):
        done = self.job(RANKS, self.target("calls.c", "-Wno-stringop-overflow"), *classes)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.mpi_report(), self.expected()

    def check(self, mpi, expected):
        self.assertEqual([rank["rank"] for rank in mpi["ranks"]], list(range(RANKS)))
        sent, got = {}, {}
        for rank, said in zip(mpi["ranks"], expected):
            calls = calls_of(rank)
            seen = {name: row["calls"] for name, row in calls.items() if name not in
                    ("MPI_Init", "MPI_Finalize", "MPI_Abort")}
            wanted = {name: count for name, (count, _) in said["calls"].items()}
            for name in VARYING:
                self.assertEqual(name in seen, name in wanted)
            self.assertEqual({**seen, **dict.fromkeys(VARYING)}, {**wanted, **dict.fromkeys(VARYING)}, f"rank {rank['rank']}")
            for name, (_, size) in said["calls"].items():
                self.assertEqual(calls[name]["bytes"], size, f"{name} of rank {rank['rank']}")
            for name in ("sent", "got"):
                for peer, (count, size) in said[name].items():
                    pair = (said["rank"], int(peer)) if name == "sent" else (int(peer), said["rank"])
                    (sent if name == "sent" else got)[pair] = (count, size)
            self.assertEqual((rank["state"], rank["omitted"], rank["fault"]), ("ended", 0, None))
        self.assertEqual(matrix_of(mpi), sent)
        self.assertEqual(received_of(mpi), got)
        self.check_times(mpi)
        self.check_sites(mpi, expected)

    def check_times(self, mpi):
        """Every nanosecond of a rank is computation or communication."""
        for rank in mpi["ranks"]:
            for clock in (rank["time"], rank["blocking"]):
                self.assertEqual(clock["computation_ns"] + clock["communication_ns"], clock["total_ns"])
            inside = sum(row["total_ns"] for row in rank["calls"] if row["name"] not in ("MPI_Init", "MPI_Finalize"))
            self.assertAlmostEqual(inside, rank["communication_ns"], delta=max(2000, inside / 1000))
            self.assertLessEqual(rank["blocking"]["communication_ns"], rank["communication_ns"])
            for row in rank["calls"]:
                self.assertLessEqual(row["min_ns"] * row["calls"], row["total_ns"] + row["calls"])
                self.assertGreaterEqual(row["max_ns"] * row["calls"] + row["calls"], row["total_ns"])

    def check_sites(self, mpi, expected):
        """The lines that the program says it makes each call on; calls that only are counted have no sites."""
        lines = {}
        for said in expected:
            for name, numbers in said["lines"].items():
                lines.setdefault(name, set()).update(numbers)
        seen, counts = {}, {}
        for site in mpi["sites"]:
            if site["name"] in ("MPI_Init", "MPI_Finalize"):
                continue
            self.assertTrue(site["file"] and site["file"].endswith("calls.c"), site)
            seen.setdefault(site["name"], set()).add(site["line"])
            counts[site["name"]] = counts.get(site["name"], 0) + site["calls"]
        for name, numbers in seen.items():
            self.assertLessEqual(numbers, spread(lines[name]), name)
        for row in mpi["calls"]:
            if row["name"] in counts:
                self.assertEqual(counts[row["name"]], row["calls"], row["name"])
        self.assertTrue(set(seen) >= {name for name in lines if re.search("Send|Recv|Wait|Allreduce|Bcast", name) and
                                      not name.endswith("_init")})

    def test_blocking(self):
        self.check(*self.run_class("blocking"))

    def test_nonblocking(self):
        mpi, expected = self.run_class("nonblocking")
        self.check(mpi, expected)
        spans = {row["name"]: row for row in mpi["spans"]}
        self.assertGreater(spans["MPI_Irecv"]["total_ns"], 0)
        begun = {name: sum(said["calls"][name][0] for said in expected) for name in ("MPI_Issend",)}
        self.assertEqual(spans["MPI_Issend"]["calls"], begun["MPI_Issend"])

    def test_collective(self):
        mpi, expected = self.run_class("collective")
        self.check(mpi, expected)
        n, rows = RANKS, {row["name"]: row for row in mpi["calls"]}
        # transferred, over all ranks: block x how often (the first numbers of each rule are those of the root)
        transferred = {"MPI_Barrier": (0, 0), "MPI_Bcast": (n * 5, n * 5), "MPI_Gather": (n * 2, n * 2),
                       "MPI_Gatherv": (10, 10), "MPI_Scatter": (n * 3, n * 3), "MPI_Scatterv": (10, 10),
                       "MPI_Allgather": (n * n * 2, n * n * 2), "MPI_Alltoall": (n * n, n * n),
                       "MPI_Reduce": (n * 4, n * 4), "MPI_Scan": (4 + 3 + 2 + 1, 1 + 2 + 3 + 4),
                       "MPI_Exscan": (3 + 2 + 1, 1 + 2 + 3), "MPI_Reduce_scatter_block": (n * n * 2, n * n * 2),
                       "MPI_Allreduce": (n * n * 4 + n * (n - 1) * 4, n * n * 4 + n * (n - 1) * 4),
                       "MPI_Iallreduce": (n * n * 3, n * n * 3)}
        for name, (sent, got) in transferred.items():
            self.assertEqual((rows[name]["sent_bytes"], rows[name]["received_bytes"]), (sent * LENGTH, got * LENGTH), name)
        self.assertEqual(matrix_of(mpi), {})

    def test_communicators(self):
        mpi, expected = self.run_class("communicators")
        self.check(mpi, expected)
        comms = {comm["name"]: comm for comm in mpi["communicators"]}
        self.assertEqual((comms["odd"]["ranks"], comms["even"]["ranks"]), ([3, 1], [2, 0]))
        self.assertEqual((comms["odd"]["messages"], comms["odd"]["bytes"]), (2, 2 * 2 * LENGTH))
        self.assertEqual({comm["kind"] for comm in mpi["communicators"]} & {"intra", "inter"}, {"intra", "inter"})

    def test_onesided(self):
        mpi, expected = self.run_class("onesided")
        self.check(mpi, expected)
        pairs = {(cell["from"], cell["to"]): cell["one_sided"] for cell in mpi["matrix"] if cell["one_sided"]}
        self.assertEqual(pairs, {**{(rank, (rank + 1) % RANKS): 3 for rank in range(RANKS)},
                                 **{(rank, (rank - 1) % RANKS): 1 for rank in range(RANKS)}})
        cells = [cell for cell in mpi["matrix"] if cell["one_sided"]]
        self.assertEqual(sum(comm["one_sided_bytes"] for comm in mpi["communicators"]),
                         sum(cell["one_sided_bytes"] for cell in cells))
        self.assertGreater(sum(cell["one_sided_bytes"] for cell in cells), 0)

    def test_files(self):
        mpi, expected = self.run_class("files")
        self.check(mpi, expected)
        rows = {row["name"]: row for row in mpi["calls"]}
        self.assertEqual(rows["MPI_File_write_at"]["bytes"], RANKS * 4 * LENGTH)

    @mpitest.both
    def test_all_of_them(self):
        mpi, expected = self.run_class(*CLASSES)
        self.check(mpi, expected)


def spread(lines):
    """A call over several lines has any of them."""
    return {line + more for line in lines for more in range(-1, 3)}


class Fortran(mpitest.MpiCase):
    def check_style(self, source):
        program = self.target(source)
        plain = self.plain(RANKS, program)
        done = self.job(RANKS, program)
        self.assertEqual((done.returncode, done.stdout), (plain.returncode, plain.stdout), done.stderr)
        mpi = self.mpi_report()
        self.assertEqual(len(mpi["ranks"]), RANKS)
        for rank in mpi["ranks"]:
            seen = {name: (row["calls"], row["bytes"]) for name, row in calls_of(rank).items()}
            self.assertEqual(seen.pop("MPI_Init", (1, 0))[0], 1)
            seen.pop("MPI_Finalize", None)
            self.assertEqual(seen, {
                "MPI_Comm_rank": (1, 0), "MPI_Comm_size": (1, 0), "MPI_Sendrecv": (3, 3 * 4 * LENGTH),
                "MPI_Irecv": (1, 10 * LENGTH), "MPI_Isend": (1, 5 * LENGTH), "MPI_Waitall": (1, 0),
                "MPI_Allreduce": (1, 2 * LENGTH), "MPI_Bcast": (1, 10 * LENGTH), "MPI_Comm_split": (1, 0),
                "MPI_Barrier": (1, 0), "MPI_Comm_free": (1, 0), "MPI_Send": (1, 3 * LENGTH)})
        expected = {}
        for rank in range(RANKS):
            expected[rank, (rank + 1) % RANKS] = (3, 3 * 4 * LENGTH)
            expected[rank, (rank - 1) % RANKS] = (1, 5 * LENGTH)
        self.assertEqual(matrix_of(mpi), expected)
        self.assertEqual(received_of(mpi), expected)
        rows = {row["name"]: row for row in mpi["calls"]}
        reduced = RANKS * (RANKS - 1) * 2 * LENGTH  # in place
        self.assertEqual((rows["MPI_Allreduce"]["sent_bytes"], rows["MPI_Allreduce"]["received_bytes"]), (reduced, reduced))
        self.check_lines(mpi, source)

    def check_lines(self, mpi, source):
        with open(os.path.join(mpitest.TARGETS, source), encoding="utf-8") as file:
            text = file.read().upper().splitlines()
        for site in mpi["sites"]:
            if site["name"] in ("MPI_Init", "MPI_Finalize"):
                continue
            self.assertTrue(site["file"] and site["file"].endswith(source), site)
            if text[site["line"] - 1].startswith("PROGRAM"):
                continue  # gfortran 12 gives some calls no line of their own but their function's
            near = "".join(text[max(0, site["line"] - 4):site["line"]])
            self.assertIn(site["name"].upper(), near, site)

    @scrytest.thorough
    def test_mpif(self):
        self.check_style("calls_mpif.f")

    @scrytest.thorough
    def test_use_mpi(self):
        self.check_style("calls_use.f90")

    def test_use_mpi_f08(self):
        self.check_style("calls_f08.f90")


mpitest.for_each_mpi(Calls, globals())
mpitest.for_each_mpi(Fortran, globals())
scrytest.main()
