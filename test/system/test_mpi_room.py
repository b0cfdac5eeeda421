# SPDX-License-Identifier: Apache-2.0
"""MPI programs with a limit of address space, which MPI itself nearly fills: scry leaves it to them, and says so."""

import mpitest
import scrytest

LIMITS_KB = (190000, 220000, 250000)


class Room(mpitest.MpiCase):
    def limited(self, limit_kb):
        return ["sh", "-c", f'ulimit -v {limit_kb}; exec "$@"', "sh", self.target("ending.c")]

    def check(self, *options):
        ran = 0
        for limit in LIMITS_KB:
            if self.plain(2, *self.limited(limit)).returncode:
                continue  # it is too little for MPI alone
            done = self.job(2, *self.limited(limit), options=options)
            self.assertEqual(done.returncode, 0, f"{limit} KB: {done.stdout}{done.stderr}")
            self.assertRegex(done.stderr, r"MPI calls of 2 processes were not counted: the limit of address space "
                                          r"\(ulimit -v\) leaves only \d+ MB")
            self.assertNotIn("linked statically", done.stderr)
            ran += 1
        self.assertGreater(ran, 0)

    @scrytest.thorough
    def test_counted(self):
        self.check()

    def test_traced(self):
        self.check("--mpi", "trace")

    def test_enough(self):
        done = self.job(2, *self.limited(2000000), options=["--mpi", "trace"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("not counted", done.stderr)
        self.assertEqual([rank["state"] for rank in self.mpi_report()["ranks"]], ["ended", "ended"])


mpitest.for_each_mpi(Room, globals())
scrytest.main()
