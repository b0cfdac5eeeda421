# SPDX-License-Identifier: Apache-2.0
"""How long `scry report` takes for the statistics of many MPI ranks, which are generated from those of a real run:

    bench_mpi_report.py [RANKS]

Each rank has 200 call sites, messages with 64 other ranks and 16 communicators, more than most programs. Goal: a report
of 1024 ranks in less than 2 s.
"""

import copy
import glob
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

from benchlib import BUILD

SCRY = os.path.join(BUILD, "src", "cli", "scry")
SITES, PEERS, COMMUNICATORS, RANKS_A_NODE = 200, 64, 16, 32


def grow(table, count, change):
    """Rows that differ by what change(row, index) does, from those that are there."""
    at = {name: i for i, name in enumerate(table["columns"])}
    rows = table["rows"]
    if not rows:
        return
    more = []
    for i in range(count):
        row = list(rows[i % len(rows)])
        change(row, at, i)
        more.append(row)
    table["rows"] = more


def rank_of(base, rank, ranks):
    stats = copy.deepcopy(base)
    stats.update(rank=rank, pid=10000 + rank, world_size=ranks, node=f"node{rank // RANKS_A_NODE}")

    def site(row, at, i):
        row[at["offset"]] += 16 * (i // 8)

    def peer(row, at, i):
        row[at["call"]] = None
        row[at["comm"]] = 0
        row[at["peer"]] = (rank + (i // 2 + 1) * (1 if i % 2 else -1) * (1 + i // 8)) % ranks

    def communicator(row, at, i):
        row[at["number"]] = i
        row[at["parent"]] = 0 if i > 1 else None
        row[at["ordinal"]] = i
        row[at["size"]] = ranks if i == 0 else 1 if i == 1 else 32
        row[at["ranks"]] = None if i == 0 else [rank] if i == 1 else [(rank + k) % ranks for k in range(32)]

    grow(stats["sites"], SITES, site)
    grow(stats["peers"], PEERS, peer)
    grow(stats["communicators"], COMMUNICATORS, communicator)
    return stats


def generate(job, into, ranks):
    shutil.copytree(job, into, ignore=shutil.ignore_patterns("stats", "trace"))
    (path, *_) = sorted(glob.glob(f"{job}/stats/*/*-*.json"))
    with open(path, encoding="utf-8") as file:
        base = json.load(file)
    for rank in range(ranks):
        folder = f"{into}/stats/node{rank // RANKS_A_NODE}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/{10000 + rank}-0.json", "w", encoding="utf-8") as file:
            json.dump(rank_of(base, rank, ranks), file)


def seconds_of(*command):
    """The least of five: by the clock, and of the processor, which is nearly the same where nothing else runs."""
    clock, processor = [], []
    for _ in range(5):
        begin, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        clock.append(time.monotonic() - begin)
        processor.append(after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime)
    return min(clock), min(processor)


def main():
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    for library, options in (("openmpi", ["--oversubscribe"]), ("mpich", [])):
        program = os.path.join(BUILD, "examples", "stommel" if library == "openmpi" else "stommel_mpich")
        if shutil.which(f"mpirun.{library}") and os.path.exists(program):
            break
    else:
        sys.exit("no MPI is installed, or the examples are not built")
    with tempfile.TemporaryDirectory(prefix="scry-bench-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        os.environ.update(SCRY_RUNTIME_DIR=f"{folder}/run", SCRY_STATE_DIR=f"{folder}/state", OMPI_ALLOW_RUN_AS_ROOT="1",
                          XDG_CACHE_HOME=f"{folder}/cache", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        os.mkdir(f"{folder}/run", 0o700)
        subprocess.run([SCRY, "run", "-q", "-o", f"{folder}/job", "--trace", "off", "--", f"mpirun.{library}", *options, "-n",
                        "2", program, "60", "60", "100"], check=True, stdout=subprocess.DEVNULL, timeout=120)
        generate(f"{folder}/job", f"{folder}/many", ranks)
        size = sum(os.path.getsize(path) for path in glob.glob(f"{folder}/many/stats/*/*.json"))
        print(f"{ranks} ranks, {size / 1e6:.1f} MB of statistics")
        for name, command in (("report", ["report"]), ("report --json", ["report", "--json"]), ("why", ["why"])):
            clock, processor = seconds_of(SCRY, *command, f"{folder}/many")
            print(f"  scry {name:<15} {clock:6.2f} s, {processor:6.2f} s of the processor")


if __name__ == "__main__":
    main()
