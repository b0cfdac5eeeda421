# SPDX-License-Identifier: Apache-2.0
"""What the tests of MPI share: both MPIs, programs of test/system/targets/mpi compiled with their compilers, and jobs
under their launchers. A test class names its MPI:

    class Calls(mpitest.MpiCase):
        def test_x(self): ...                  # with the one or the other, in turns

        @mpitest.both                          # where they differ in what scry does
        def test_y(self): ...

        @mpitest.only("openmpi")               # where the other has no such thing
        def test_z(self): ...

    mpitest.for_each_mpi(Calls, globals())     # makes Calls_openmpi and Calls_mpich of it

The interposer's own tests (src/mpi/test) are for both libraries. A thorough run (scrytest.THOROUGH), and one of cases that
are named on the command line, has all of them with both.
"""

import json
import os
import shutil
import sys

import schematest
import scrytest
from jobtest import JobCase

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
TARGETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "targets", "mpi")
# compilers, launcher, and what it needs on a machine with fewer processors than ranks
MPIS = {
    "openmpi": {"c": "mpicc.openmpi", "fortran": "mpifort.openmpi", "run": ["mpirun.openmpi", "--oversubscribe"]},
    "mpich": {"c": "mpicc.mpich", "fortran": "mpifort.mpich", "run": ["mpirun.mpich"]},
}
# Polling for messages, ranks take the processor from each other: then it is better to give it away.
QUIET = {"OMPI_MCA_mpi_yield_when_idle": "1"}

_turn = 0


def available(mpi):
    """The MPI's compiler and launcher are there, and scry was built with the library for it."""
    library = os.path.join(scrytest.BUILD, "src", "mpi", f"libscry-mpi-{mpi}.so")
    return shutil.which(MPIS[mpi]["c"]) and shutil.which(MPIS[mpi]["run"][0]) and os.path.exists(library)


def compile_program(mpi, source, *options, name=None):
    """The path of a compiled target. None: there is no such compiler (of Fortran)."""
    fortran = not source.endswith(".c")
    compiler = MPIS[mpi]["fortran" if fortran else "c"] if mpi else "cc"
    if not shutil.which(compiler):
        return None
    rest = [] if not mpi or scrytest.THOROUGH or "-shared" in options else ["-Wl,--no-as-needed", compiled_rest()]
    program = f"{name or os.path.splitext(os.path.basename(source))[0]}.{mpi or 'plain'}" + (".so" if "-shared" in options else "")
    flags = ["-g", "-O0" if fortran else "-O1", "-fno-optimize-sibling-calls", *options]
    source = os.path.join(TARGETS, source)
    return scrytest.compiled(program, [compiler, *flags, source, *rest, "-lpthread", "-ldl"], source)


def compiled_rest():
    """The library with which ranks that wait leave the processor to others; not in a thorough run, nor in examples/."""
    source = os.path.join(TARGETS, "rest.c")
    return scrytest.compiled("rest.so", ["cc", "-O1", "-fPIC", "-shared", "-D_GNU_SOURCE", source, "-ldl"], source)


def example(name, mpi):
    """A program of examples/, whose ranks leave the processor to others; in a thorough run as it is built for users."""
    if scrytest.THOROUGH:
        return scrytest.example(name if mpi == "openmpi" else f"{name}_mpich")
    return compile_program(mpi, os.path.join(EXAMPLES, f"{name}.c"), "-O2")


def over_hosts(mpi, source, *hosts):
    """A program of one source that runs over hosts of a lab (labtest.py), and what starts one rank on each, first words first."""
    words = [MPIS[mpi]["c"], "-O1", "-g", source, "-lm"]
    if mpi == "mpich":
        words += ["-D_GNU_SOURCE", "-rdynamic", os.path.join(TARGETS, "settle.c")]
    options = {"openmpi": ["--host", ",".join(hosts), "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0"],
               "mpich": ["-hosts", ",".join(hosts)]}[mpi]
    program = scrytest.compiled(f"{os.path.splitext(os.path.basename(source))[0]}.hosts-{mpi}", words, source)
    return [*MPIS[mpi]["run"], *options, "-n", len(hosts), program]


def need(case):
    """Skips a case that is none of an MPI, or whose MPI is not there."""
    if not case.mpi:
        case.skipTest("the cases are run for each MPI")
    if not available(case.mpi):
        case.skipTest(f"needs {case.mpi}: {MPIS[case.mpi]['c']}, {MPIS[case.mpi]['run'][0]}")


def target(case, source, *options, **keywords):
    """As compile_program, for the case's MPI, which is skipped if there is no compiler."""
    path = compile_program(case.mpi, source, *options, **keywords)
    if not path:
        case.skipTest(f"{source}: no compiler of Fortran for {case.mpi}")
    return path


def last_words(done):
    """Why a program failed, for a person; a launcher may end without a word."""
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}, and not a word"


class MpiCase(JobCase):
    mpi = None

    def setUp(self):
        need(self)
        super().setUp()

    def command(self, ranks, *program):
        return [*MPIS[self.mpi]["run"], "-n", ranks, *program]

    def target(self, source, *options, **keywords):
        return target(self, source, *options, **keywords)

    def plain(self, ranks, *program, **keywords):
        """The same without scry."""
        return self.box.run(self.command(ranks, *program), env=QUIET, **keywords)

    def job(self, ranks, *program, options=(), env=None, timeout=60, **keywords):
        return self.box.run(self.box.scry("run", *options, "--", *self.command(ranks, *program)),
                            env={**QUIET, **(env or {})}, timeout=timeout, **keywords)

    def start_job(self, ranks, *program, options=(), env=None, **keywords):
        return self.box.start(self.box.scry("run", "-q", "-o", self.box.path("work", "job"), *options, "--",
                                            *self.command(ranks, *program)), env={**QUIET, **(env or {})}, **keywords)

    def report(self, job="@last"):
        return self.valid("report", super().report(job))

    def valid(self, name, value):
        with open(os.path.join(scrytest.SOURCE, "doc", "reference", f"{name}.schema.json"), encoding="utf-8") as file:
            self.assertEqual(list(schematest.violations(value, json.load(file))), [])
        return value

    def mpi_report(self, job="@last"):
        mpi = self.report(job)["mpi"]
        self.assertIsNotNone(mpi, "there are no statistics of MPI")
        return mpi

    def why(self, job=None):
        done = self.box.run(self.box.scry("why", "--json", job or self.box.path("work", "job")))
        self.assertIn(done.returncode, (0, 3), done.stderr)
        return self.valid("why", json.loads(done.stdout)), done.returncode


def calls_of(rank):
    return {row["name"]: row for row in rank["calls"]}


def matrix_of(mpi):
    """{(from, to): (messages, bytes)} as the senders counted."""
    return {(cell["from"], cell["to"]): (cell["messages"], cell["bytes"]) for cell in mpi["matrix"] if cell["messages"]}


def received_of(mpi):
    return {(cell["from"], cell["to"]): (cell["received_messages"], cell["received_bytes"]) for cell in mpi["matrix"]
            if cell["received_messages"]}


def both(test):
    """A case that is run with both MPIs."""
    test.mpis = tuple(MPIS)
    return test


def only(mpi):
    """A case that is run with this MPI, with the other one at most in a thorough run."""
    def mark(test):
        test.mpis = (mpi,)
        return test
    return mark


def _in_turns(tests):
    """{name: the MPIs that the test is run with}"""
    global _turn
    there = [mpi for mpi in MPIS if available(mpi)] or list(MPIS)
    chosen = {}
    for name, test in sorted(tests.items()):
        chosen[name] = getattr(test, "mpis", None)
        if not chosen[name]:
            chosen[name] = (there[_turn % len(there)],)
            _turn += 1
    return chosen


def for_each_mpi(case, names):
    """Makes a class for each MPI of one whose `mpi` is None."""
    tests = {name: getattr(case, name) for name in dir(case) if name.startswith("test")}
    chosen = _in_turns(tests)
    if scrytest.THOROUGH or sys.argv[1:]:
        chosen = {name: tuple(MPIS) for name in tests}
    for mpi in MPIS:
        others = {name: None for name in tests if mpi not in chosen[name]}  # what cannot be called is no test
        if len(others) < len(tests):
            name = f"{case.__name__}_{mpi}"
            names[name] = type(name, (case,), {"mpi": mpi, "__module__": names["__name__"], "__doc__": case.__doc__, **others})
    names.pop(case.__name__)
