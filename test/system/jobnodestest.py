# SPDX-License-Identifier: Apache-2.0
"""What the tests of jobs over several nodes share: MPI programs on four hosts, started by the launchers of Open MPI and MPICH by
ssh. What comes of them is what comes without scry, and all ranks are in one report, with exact counts.

Over TCP, MPICH 4.0 with UCX may hang in MPI_Finalize, with and without scry. So its ranks exchange nothing with each other."""

import json
import os
import re

import labtest
import mpitest
import scrytest

HOSTS = ("n1", "n2", "n3", "n4")
LAUNCH = {
    "openmpi": ["mpirun.openmpi", "--oversubscribe", "--host", ",".join(HOSTS), "--mca", "btl_tcp_if_include", "10.77.0.0/16"],
    "mpich": ["mpirun.mpich", "-hosts", ",".join(HOSTS)],
}
STEPS = 100
SELF_MESSAGES = 10


def sorted_lines(text):
    """What a program says, without the times of stommel; lines of ranks come in any order."""
    return sorted(re.sub(r" +\d+\.\d+ s$", "", text, flags=re.MULTILINE).splitlines())


class Nodes(labtest.LabCase):
    mpi = None
    hosts = HOSTS
    one_lab = True

    def setUp(self):
        mpitest.need(self)
        super().setUp()
        self.over_hosts = mpitest.target(self, "over_hosts.c")
        self.job = self.lab.here("work", "job")

    def launch(self, *program):
        return [*LAUNCH[self.mpi], "-n", str(len(HOSTS)), *map(str, program)]

    def plain(self, *program):
        return self.box.run(self.launch(*program), env=mpitest.QUIET)

    def run_job(self, *program, options=()):
        return self.box.run(self.box.scry("run", "-o", self.job, *options, "--", *self.launch(*program)), env=mpitest.QUIET)

    def until_unwatched(self, program):
        """The program, which on n1 does not end before it is known of which node nothing comes: at its end scry run waits for that
        3 s, and a busy machine may take longer."""
        return ["sh", "-c", f"""{program}; status=$?
[ "$OMPI_COMM_WORLD_RANK$PMI_RANK" = 0 ] && for look in $(seq 600); do [ -s {self.job}/parts/.unwatched ] && break; sleep 0.1; done
exit $status"""]

    def start_job(self, *program, options=()):
        return self.box.start(self.box.scry("run", "-q", "-o", self.job, *options, "--", *self.launch(*program)),
                              env=mpitest.QUIET)

    def start_job_when_told(self, command):
        return self.box.start(self.box.scry("run", "-q", "-o", self.job, "--", "sh", "-c",
                                            f"until [ -e {self.lab.here('work', 'go')} ]; do sleep 0.05; done; exec {command}"),
                              env=mpitest.QUIET)

    def set_and_go(self, *settings):
        scrytest.wait_until(lambda: self.box.run(self.box.scry("set", self.job, *settings)).returncode == 0, 60, "scry set")
        changed = self.box.path("work", "job", "parts", ".options")
        scrytest.wait_until(lambda: os.path.exists(changed), 60, "the job has the setting")
        with open(self.box.path("work", "go"), "w", encoding="ascii"):
            pass

    def report(self):
        done = self.box.run(self.box.scry("report", "--json", self.job))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check_whole(self, report, program, calls):
        """Four ranks on four nodes, each process known to its end, with these calls of MPI."""
        mpi = report["mpi"]
        self.assertEqual([(rank["rank"], rank["node"]) for rank in mpi["ranks"]], list(enumerate(HOSTS)))
        self.assertEqual([part["name"] for part in report["parts"]], list(HOSTS[1:]))
        for part in report["parts"]:
            self.assertIsNone(part["incomplete"])
            self.assertEqual(part["job"]["id"], report["id"])
            self.assertTrue(part["health"]["curves"])
            process, = (each for each in part["processes"] if each["name"] == program[:15])
            self.assertEqual((process["node"], process["exit_code"]), (part["name"], 0))
        counted = {row["name"]: row["calls"] for row in mpi["calls"]}
        self.assertEqual({name: counted[name] for name in calls}, calls)
        self.assertEqual(report["left_running"], 0)
