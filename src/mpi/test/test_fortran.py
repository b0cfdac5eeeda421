#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_fortran.py AGENT INTERPOSERS SOURCE PROGRAM...: which calls of Fortran programs are seen, and from which line.

PROGRAM is SOURCE compiled with a real MPI, and calls what its lines say; INTERPOSERS is the folder of those that log
(test_guest.c). Prints TAP.
"""

import os
import re
import subprocess
import sys
import tempfile


def expected(source):
    """(call, line) of each call statement; a function's line is not looked at."""
    calls = []
    with open(source, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.lstrip().startswith("!") and (found := re.search(r"\b(MPI_[A-Z]\w+)\(.*\)", line)):
                if line.strip().startswith("call ") or found[1] == "MPI_Wtime":
                    calls.append((found[1], number))
    return calls


def lines_of(program, addresses):
    output = subprocess.run(
        ["addr2line", "-e", program] + addresses, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return [int(re.sub(r"\s.*", "", line.rpartition(":")[2]).replace("?", "0") or 0) for line in output]


def seen(agent, interposers, program):
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        env = dict(os.environ, LD_PRELOAD=agent, SCRY_MPI_DIR=interposers, TEST_GUEST_LOG=log)
        env.update(SCRY_AGENT_SOCKET=os.path.join(folder, "none"), TMPDIR=folder)
        env.pop("LD_LIBRARY_PATH", None)  # leads to the stand-ins that are built beside
        result = subprocess.run([program], env=env, capture_output=True, text=True, timeout=60, check=False)
        if result.returncode:
            return result.stdout + result.stderr, []
        with open(log, encoding="utf-8") as file:
            rows = [line.split() for line in file]
    here = [row for row in rows if row[1] != "-" and os.path.samefile(row[1], program)]
    lines = lines_of(program, [hex(int(row[2], 16) - 1) for row in here]) if here else []
    where = {id(row): line for row, line in zip(here, lines)}
    return "", [(row[0], where.get(id(row), -1), row[1]) for row in rows]


def difference(wanted, calls):
    if [call[0] for call in calls] != [call[0] for call in wanted]:
        return "seen: " + " ".join(call[0] for call in calls)
    exact = 0
    for (name, line), (_, at, file) in zip(wanted, calls):
        if file == "-":  # only counted: has no site
            continue
        exact += at == line
        # gfortran gives some calls with few arguments the line at which the program begins
        if at != line and at >= wanted[0][1]:
            return f"{name} of line {line} was seen at line {at} of {file}"
        if at <= 0:
            return f"{name} of line {line} was seen in {file}"
    return "" if exact >= 8 else f"only {exact} lines are right"


def main():
    agent, interposers, source, *programs = map(os.path.abspath, sys.argv[1:])
    wanted = expected(source)
    for number, program in enumerate(programs, 1):
        why, calls = seen(agent, interposers, program)
        why = why or difference(wanted, calls)
        print(f"{'not ' if why else ''}ok {number} - {os.path.basename(program)}: {len(calls)} calls")
        if why:
            print("# " + why.replace("\n", "\n# "))
    print(f"1..{len(programs)}")


if __name__ == "__main__":
    main()
