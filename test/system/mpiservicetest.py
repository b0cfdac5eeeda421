# SPDX-License-Identifier: Apache-2.0
"""What the tests of services on MPI programs share: ranks of a job that is followed, without scry run."""

import re

import mpitest
from servicetest import *

RANK_COLUMNS = ("token", "namespace", "rank", "size", "host", "pid", "library", "state", "exe", "job")


class RanksTest(FollowedJob):
    def environment(self):
        return {**super().environment(), "SCRY_MPI_DIR": self.box.path("lib")}

    def rank_rows(self, job=None):
        """What mpi_get_ranks says: its note, and a dictionary for each rank."""
        note, rows = '""', []
        for entry in self.ask(f': mpi_get_ranks("{self.jobdir if job is None else job}")').services[1]:  # of each node
            note, text = entry["result"].split(",[", 1)
            # tokens are no strings
            rows += value("[" + re.sub(r"(^|,)([a-z](?:_\d+)+),", r'\1"\2",', text))[0]
        width = len(RANK_COLUMNS)
        self.assertEqual(len(rows) % width, 0, rows)
        rows = [dict(zip(RANK_COLUMNS, rows[i:i + width])) for i in range(0, len(rows), width)]
        if hasattr(self.box, "host_of"):  # hosts of a lab whose processes have the same numbers see each other's
            rows = [row for row in rows if row["host"] == self.box.host_of(row["pid"])]
        return note, rows

    def all_ranks(self, count, states=("running",)):
        """The rows by rank, when that many are in one of these states; before, None."""
        rows = {row["rank"]: row for row in self.rank_rows()[1]}
        there = sorted(rows) == list(range(count)) and all(row["state"] in states for row in rows.values())
        return dict(sorted(rows.items())) if there else None


class EachMpiTest(RanksTest):
    """Cases for each MPI: mpitest.for_each_mpi."""

    mpi = None

    def setUp(self):
        mpitest.need(self)
        super().setUp()

    def launch_ranks(self, count, *command, env=None):
        """Starts the command under the MPI's launcher; its ranks, by rank, when all of them run: self.process."""
        self.process = self.box.start([*mpitest.MPIS[self.mpi]["run"], "-n", str(count), *command],
                                      env={**mpitest.QUIET, **self.environment(), **(env or {})})
        return scrytest.wait_until(lambda: self.all_ranks(count), 60)
