#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every reading command says of a dozen recorded jobs, byte by byte.

golden.py outputs FILE    writes what the build in $SCRY_BUILD says of the jobs in jobs.tar.xz: one line a command, with a hash,
                          and the texts of reports whole
golden.py record          records those jobs anew, for new kinds of records: of a job directory that exists nothing is ever changed

As a test it compares with expected.txt. A change that means to change nothing leaves that file as it is; one that changes texts
writes it anew (`SCRY_BUILD=build/check test/golden/golden.py outputs test/golden/expected.txt`), and the commit shows which.
So it is also held that what this version recorded stays readable."""

import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "system"))

import scrytest  # noqa: E402

JOBS = os.path.join(HERE, "jobs.tar.xz")
EXPECTED = os.path.join(HERE, "expected.txt")
EXAMPLES = os.path.join(scrytest.SOURCE, "examples")

# Their programs are compiled where they run: what is recorded names no other place.
HOOKS = ["-finstrument-functions", "-fno-optimize-sibling-calls"]
PROGRAMS = {
    "crash": ["gcc", "-g", "-pthread", "crash.c"],
    "newton": ["gcc", "-g", "-O2", *HOOKS, "newton.c", "-lm"],
    "two": ["gcc", "-g", "-O2", *HOOKS, "-pthread", "two.c"],
    "stommel": ["mpicc.openmpi", "-g", "-O2", *HOOKS, "stommel.c", "-lm"],
    "stommel-mpich": ["mpicc.mpich", "-g", "-O2", "stommel.c", "-lm"],
    "straggler": ["mpicc.openmpi", "-g", "-O2", "mpi_straggler.c", "-lm"],
    "deadlock": ["mpicc.openmpi", "-g", "-O2", "mpi_deadlock.c", "-lm"],
}
THREADS = """#include <pthread.h>
struct point { double x, y; };
__attribute__((noinline)) double step(int i, const char *name, struct point p) { return i * p.x + p.y + name[0]; }
static void *work(void *name)
{
    for (int i = 0; i < 20; i++)
        step(i, name, (struct point){i, 0.5});
    return name;
}
int main(void)
{
    pthread_t one, two;
    pthread_create(&one, 0, work, "one");
    pthread_create(&two, 0, work, "two");
    pthread_join(one, 0);
    return pthread_join(two, 0);
}
"""
KEYERROR = """import sys
def count(rows):
    total = {}
    for row in rows:
        total[row["kind"]] = total.get(row["kind"], 0) + 1
    return total
print("reading", file=sys.stderr)
print(count([{"kind": "a"}, {"kid": "b"}]))
"""
RUNS = {
    "exit": ["sh", "-c", "echo 'error: cannot open in.dat: No such file or directory' >&2; exit 3"],
    "pipeline": ["--script", "calls", "bash", "-c", "set -o pipefail\nsort nothing-here | wc -l\n"],
    "python": ["python3", "keyerror.py"],
    "crash": ["./crash"],
    "forks": ["sh", "-c", "for i in 1 2 3 4 5; do /bin/true; done; head -c 1000000 /dev/zero | cksum; kill -TERM $$"],
    "functions": ["--trace", "all", "--args", "./newton"],
    "threads": ["--trace", "all", "--args", "./two"],
    "openmpi": ["--trace", "all", "--mpi", "trace", "mpirun.openmpi", "--oversubscribe", "-n", "4", "./stommel", "24", "24", "3"],
    "mpich": ["mpirun.mpich", "-n", "2", "./stommel-mpich", "24", "24", "3"],
    "straggler": ["--mpi", "trace", "mpirun.openmpi", "--oversubscribe", "-n", "3", "./straggler", "3", "0.5"],
    "deadlock": ["timeout", "4", "mpirun.openmpi", "--oversubscribe", "-n", "2", "./deadlock"],
    "full": ["--trace", "all", "--max-size", "64K", "./newton", "20000"],
}
FORMATS = ("chrome", "folded", "folded-cpu", "folded-waiting", "csv", "messages", "spacetime")
COMMANDS = [("report",), ("report", "--json"), ("top", "--once"), ("watch",), ("replay",), ("replay", "--json"), ("why",),
            ("why", "--json"), ("ranks",),
            *(("export", "-o", "-", "--format", each) for each in FORMATS)]




def record():
    """By a scry that is installed: what is recorded names no build. The whole is below /tmp/golden while that lasts."""
    root = "/tmp/golden"
    os.mkdir(root, 0o700)
    try:
        installed, work, jobs = (os.path.join(root, name) for name in ("installed", "programs", "jobs"))
        subprocess.run(["meson", "install", "--no-rebuild", "--quiet", "--destdir", installed], cwd=scrytest.BUILD, check=True)
        shutil.copytree(EXAMPLES, work)
        for name, text in (("keyerror.py", KEYERROR), ("two.c", THREADS)):
            with open(os.path.join(work, name), "w", encoding="ascii") as file:
                file.write(text)
        for name, command in PROGRAMS.items():
            subprocess.run([*command, "-o", name], cwd=work, check=True)
        for name in ("run", "home"):
            os.mkdir(os.path.join(root, name), 0o700)
        os.mkdir(jobs)
        prefix = os.path.join(installed, "usr", "local")
        environment = {"PATH": f"{prefix}/bin:/usr/bin:/bin", "HOME": f"{root}/home", "SCRY_RUNTIME_DIR": f"{root}/run", "LANG": "C.UTF-8",
                       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TMPDIR": f"{root}/home",
                       "SCRY_LIBEXEC": f"{prefix}/libexec/scry", "SCRY_AGENT_LIB": glob.glob(f"{prefix}/lib/**/libscry-agent.so", recursive=True)[0]}
        for name, words in RUNS.items():
            out = os.path.join(work, f"{name}.out")
            with open(out, "wb") as file:
                subprocess.run(["scry", "run", "--name", name, "-o", os.path.join(jobs, name), *words], cwd=work, env=environment,
                               stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False)
        with tarfile.open(JOBS, "w:xz") as tar:
            tar.add(jobs, "jobs")
    finally:
        shutil.rmtree(root)


def outputs():
    """[(command, what it writes)], which is the same on each machine."""
    box = scrytest.Sandbox()
    box.env.update(TZ="UTC", LANG="C.UTF-8", COLUMNS="120")
    try:
        with tarfile.open(JOBS) as tar:
            tar.extractall(box.path("work"))
        found = []
        for job in RUNS:
            for words in COMMANDS:
                command = [*words, f"jobs/{job}"]
                done = box.run(box.scry(*command))
                text = f"{done.stdout}{done.stderr}exit status {done.returncode}\n".replace(box.root, "/box")
                found.append((" ".join(command), text))
        for columns in (60, 80, 120):  # the list of all of them
            text = box.run(box.scry("ps", "--all"), env={"SCRY_STATE_DIR": box.path("work", "jobs"), "COLUMNS": str(columns)}).stdout
            found.append((f"ps --all, {columns} columns", text))
        text = box.run(box.scry("ps", "--all", "--json"), env={"SCRY_STATE_DIR": box.path("work", "jobs")}).stdout
        found.append(("ps --all --json: the causes", "".join(f"{job['name']}: {job['cause']}\n" for job in json.loads(text)["jobs"])))
        return found
    finally:
        box.close()


def written(found):
    """Texts of reports and pictures whole, of the rest a hash."""
    out = []
    for command, text in found:
        whole = command.startswith(("report jobs", "why jobs", "top", "ps"))
        out.append(f"== {command}\n" + (text if whole else hashlib.sha256(text.encode()).hexdigest() + "\n"))
    return "".join(out)


class Golden(scrytest.TestCase):
    maxDiff = 4000

    def test_outputs(self):
        with open(EXPECTED, encoding="utf-8") as file:
            self.assertEqual(written(outputs()), file.read())


if __name__ == "__main__":
    if sys.argv[1:2] == ["record"]:
        record()
    elif sys.argv[1:2] == ["outputs"]:
        with open(sys.argv[2], "w", encoding="utf-8") as target:
            target.write(written(outputs()))
    else:
        scrytest.main()
