# SPDX-License-Identifier: Apache-2.0
"""What scry's hot paths cost, in counted instructions, system calls, atomic operations and written cache lines, against
test/costs/costs.table; no clock. test/costs/counter.c steps through the calls and says what counts.

SCRY_COSTS=print prints the table as it is measured, SCRY_COSTS=functions each path's instructions by function as well."""

import collections
import glob
import os
import re
import shutil
import subprocess

import mpitest
import scrytest
from jobtest import JobCase, trace_process, traces_of
from scrytest import wait_until
from servicetest import *

TABLE = os.path.join(scrytest.SOURCE, "test", "costs", "costs.table")
COLUMNS = {"instructions": "instructions", "system_calls": "system calls", "atomics": "atomic operations",
           "lines": "cache lines written"}
ROOM = 0.03  # compilers of one version differ by less; of system calls not one more
WIDTHS = (15, 14, 9, 7)  # as in the table
TIMES = 5  # of what is done several times, the least counts
PRINT = os.environ.get("SCRY_COSTS", "")
KINDS = ("seven", "double", "int *", "char *", "struct *")  # of calls.c, besides "two"

# Of calls of mpi_calls.c: what is wanted of each, and by which command it holds.
ACTIONS = [
    ("another call", {"Wait": ""}, {"": "count 0"}),
    ("counter", {"Iprobe": "", "Allreduce": "", "Sendrecv": "", "Isend": "", "Wait": ""}, {"": "count 0"}),
    ("condition", {"Iprobe": "tag == 7", "Allreduce": "count == 1", "Sendrecv": "sendcount == 1", "Isend": "count == 1", "Wait": ""},
     {" true": "count 0", " false": "count 1"}),
]

AGAIN = "Iprobe, again"  # does without a time stamp, which only plain statistics can


def table_read():
    """{path: {column: number}}"""
    found = {}
    with open(TABLE, encoding="ascii") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                path, *numbers = line.rsplit(None, len(COLUMNS))
                found[path] = {column: int(number) for column, number in zip(COLUMNS, numbers) if number != "-"}
    return found


class Cost:
    """Of one call: a number for each column, instructions by function, and system calls."""

    def __init__(self, line):
        self.path, numbers = line.removeprefix("call ").split(" instructions=")
        self.numbers = {name: int(number) for name, number in (word.split("=") for word in f"instructions={numbers}".split())}
        self.functions, self.system_calls = collections.Counter(), []

    def add(self, line):
        words = line.split(None, 2)
        if words[0] == "system":
            self.system_calls.append(words[2])
        else:
            self.functions[f"{words[2]} ({words[1]})"] += int(words[0])

    def text(self, most=None):
        """Where the instructions are, the most first."""
        found = [f"{count:6} {name}" for name, count in self.functions.most_common(most)]
        return "\n".join(found + [f"       system call {call}" for call in self.system_calls])


def costs_read(lines):
    found = []
    for line in lines:
        if line.startswith("call "):
            found.append(Cost(line))
        elif line.startswith(" "):
            found[-1].add(line)
    return found


def sum_of(path, costs):
    """Of what was done in several parts."""
    whole = Cost(f"call {path} instructions=0")
    for cost in costs:
        whole.numbers = {name: whole.numbers.get(name, 0) + number for name, number in cost.numbers.items()}
        whole.functions += cost.functions
        whole.system_calls += cost.system_calls
    return whole


def least(costs):
    """{path: the call with the fewest instructions (system calls)}, which has the least of the other columns, too: what a
    call does now and then (a packet is full) is left out."""
    found = {}
    for cost in costs:
        found.setdefault(cost.path, []).append(cost)
    for path, calls in found.items():
        best = min(calls, key=lambda cost: tuple(cost.numbers.values()))
        best.numbers.update((column, min(cost.numbers[column] for cost in calls)) for column in best.numbers)
        found[path] = best
    return found


# How many of these there are says how quickly others are, too.
TIMED = {"accept4", "access", "close", "clock_gettime", "epoll_ctl", "epoll_wait", "exit_group", "fstatfs", "getpid", "ioctl", "poll", "read",
         "kill", "recvfrom", "recvmmsg", "restart_syscall", "sendto", "timerfd_settime", "wait4", "write"}
# How many files there are for a control group is the machine's matter, how many folders are above a file, and how many
# processors have rings.
OF_MACHINE = re.compile(r'"/sys/|^(?:mkdir|readlink|perf_event_open|mmap|munmap|madvise|brk)\(')
OF_WAITING = re.compile(r'"/proc/\d+/stat"')  # who waits for a process looks there again and again
# How often the observer asks for the node before it is told that the job is over is a matter of time.
OF_NODE = re.compile(r'"/proc/(?!self)[a-z]')


def traced_processes(prefix):
    """{name: system calls} of what `strace -ff -o PREFIX` has seen; of processes of the same name together."""
    lines, parents, found = {}, {}, collections.defaultdict(list)
    for path in glob.glob(f"{prefix}.*"):
        with open(path, encoding="utf-8", errors="replace") as file:
            lines[int(path.rpartition(".")[2])] = file.read().splitlines()
    for pid, calls in lines.items():
        parents.update((int(child), pid) for child in re.findall(r"^(?:clone3?|v?fork)\(.* = (\d+)$", "\n".join(calls), re.M))

    def name_of(pid):
        """As it has named itself last, or was started."""
        names = re.findall(r'^(?:execve\("(?:[^"]*/)?|prctl\(PR_SET_NAME, ")([^"/]*)".* = 0$', "\n".join(lines[pid]), re.M)
        return names[-1] if names else name_of(parents[pid])
    for pid, calls in lines.items():
        found[name_of(pid)] += calls
    return found


def counted_calls(name, lines):
    """The names of those that a process always makes, of the lines of strace."""
    calls = [line for line in lines if re.match(r"\w+\(", line) and not OF_MACHINE.search(line) and
             not (name == "scry" and OF_WAITING.search(line)) and not (name == "scry-monitor" and OF_NODE.search(line))]
    names = [line.partition("(")[0] for line in calls]
    return sorted(each for each in names if each not in TIMED)


def of_jobs(lines):
    """What the monitor does for each `scry run`, from its connection to the next one's."""
    begins = [i for i, line in enumerate(lines) if re.match(r"accept4\(.* = \d+$", line)]
    return [lines[begin:end] for begin, end in zip(begins, begins[1:])]


class Counter:
    """What steps through a process and counts. It writes to a file: nobody reads while it counts."""

    def __init__(self, box, *arguments):
        self.path = box.path("work", f"counted-{len(box.started)}")
        with open(self.path, "w", encoding="ascii") as file:
            self.process = box.start([scrytest.built("test", "costs", "cost_counter"), *map(str, arguments)], stdout=file)
        self.read = 0
        wait_until(lambda: self.lines() or self.process.poll() is not None)
        assert self.process.poll() is None, "nothing can be counted: see above"

    def lines(self):
        """Those that have come since."""
        with open(self.path, encoding="ascii") as file:
            file.seek(self.read)
            found = file.read()
        self.read += len(found)
        return found.splitlines()

    def ended(self):
        """All of what is counted, the process having ended."""
        assert self.process.wait() == 0, "the counting has failed: see above"
        return costs_read(self.lines())


class Counted:
    """A program of test/costs that runs in a job, and whose calls are counted."""

    def __init__(self, box, name, *options):
        self.box, self.job = box, box.path("work", f"job-{len(box.started)}")
        self.run = box.start(box.scry("run", "-q", "-o", self.job, "--sample", "60", *options,
                                      "--", scrytest.built("test", "costs", name)), stdin=subprocess.PIPE, env=mpitest.QUIET)
        self.pid = int(self.run.stdout.readline())

    def do(self, command):
        self.run.stdin.write(command + "\n")
        self.run.stdin.flush()
        assert self.run.stdout.readline() == "done\n", f"{command}: the program has ended"

    def count(self, *commands):
        """The costs of the calls, one dictionary for each command; the program ends."""
        counter = Counter(self.box, self.pid)
        for command in commands:
            self.do(command)
        self.run.stdin.close()
        costs = counter.ended()
        assert self.run.wait() == 0 and costs and len(costs) % len(commands) == 0
        each = len(costs) // len(commands)
        return [least(costs[i * each:(i + 1) * each]) for i in range(len(commands))]


class Costs(JobCase):
    def setUp(self):
        if not os.path.exists(os.path.join(scrytest.BUILD, "test", "costs", "cost_counter")):
            self.skipTest("costs.table is of gcc 12 in the build of ./check: others have other instructions")
        super().setUp()
        self.table = table_read()

    def compare(self, costs):
        """`costs`: {path of the table: Cost}."""
        bad = []
        for path, cost in costs.items():
            if PRINT:
                print(f"# {path:39}" + "".join(f"{cost.numbers.get(column, '-'):>{width}}"
                                               for column, width in zip(COLUMNS, WIDTHS)), flush=True)
            if PRINT == "functions":
                print("#    " + cost.text().replace("\n", "\n#    "), flush=True)
            allowed = self.table.get(path)
            if not allowed:
                bad.append(f"{path}: is not in costs.table")
                continue
            for column, most in allowed.items():
                number = cost.numbers[column]
                # of a long record, where it lies in its buffer decides about a line
                room = most > 10 if column == "lines" else most * ROOM
                room = 0 if column == "system_calls" else room
                if number > most + room:
                    bad.append(f"{path}: {number} {COLUMNS[column]}, {most} allowed (costs.table)\n{cost.text(12)}")
                elif number < most - room:
                    print(f"# {path}: {number} {COLUMNS[column]}, {most} allowed: costs.table can be lowered", flush=True)
        if bad and PRINT != "print":
            self.fail("\n".join(bad))

    def hooks(self, name, options, level="O2", kinds=("two",)):
        """Calls of functions with hooks, under options of scry run."""
        counted = Counted(self.box, f"calls_{level}", *options)
        counted.do("warm 1")
        (costs,) = counted.count("count 1")
        self.compare({f"{name}: {kind}": costs[kind] for kind in kinds})

    def test_off(self):
        self.hooks("hook, off", ["--trace", "off"])

    def test_not_selected(self):
        self.hooks("hook, not selected", ["--trace", "fn:main"])

    def test_recorded(self):
        self.hooks("hook, recorded", ["--trace", "all"])

    def test_counted(self):
        self.hooks("hook, count only", ["--trace", "all", "--count-only"])

    def test_flight(self):
        self.hooks("hook, flight recorder", ["--trace", "all", "--overflow", "flight"])

    def test_behind_max_size(self):
        """Once nothing is kept any more, a call of what is often called is only counted, in the shortest way."""
        counted = Counted(self.box, "calls_O2", "--trace", "all", "--max-size", "256K")

        def is_full():
            counted.do("warm 100000")
            return any(trace_process(trace)["problem"] for trace in traces_of(counted.job))
        wait_until(is_full)
        counted.do("warm 3000000")
        (costs,) = counted.count("count 1")
        self.compare({"hook, behind --max-size: two": costs["two"]})

    def test_arguments_plain(self):
        self.hooks("arguments, -O0", ["--trace", "all", "--args"], "O0", ("two", *KINDS))

    def test_arguments_optimized(self):
        self.hooks("arguments, -O2", ["--trace", "all", "--args"], "O2", ("two", *KINDS))

    def test_patched(self):
        """Calls of functions without hooks, which have jumps to them."""
        self.hooks("patched, recorded", ["--trace", "fn:two"], "patched")

    def test_patched_arguments(self):
        self.hooks("patched, arguments", ["--trace", "fn:two fn:text", "--args"], "patched", ("two", "char *"))

    def test_action(self):
        """A list that runs in the program, where its condition holds and where not."""
        counted = Counted(self.box, "calls_O2", "--trace", "fn:main")
        tool = Flagged(self.box)
        process = tool.ask(f': node_attach2("") proc_attach3([n_1], {counted.pid}, "")')[2][0][2]
        counter = tool.ask(": pa_counter_create()")[1][0][2]
        tool.send(WAIT | NO_OK | NO_EN_DIS, f'ct_function_called([{process}], "two", "a == 1") : pa_counter_add([{counter}], 1)')
        tool.ask(f": csr_enable([{tool.replies.pop()[2][0][0][2]}])")

        def counter_now():
            counted.do("warm 1")
            return int(tool.ask(f": pa_counter_read([{counter}])")[1][0][2])
        wait_until(counter_now)
        costs = counted.count("count 1", "count 0")
        self.compare({f"action, condition {holds}: two": each["two"] for holds, each in zip(("true", "false"), costs)})

    def mpi(self, mpi, how):
        self.mpi_needed(mpi)
        counted = Counted(self.box, f"mpi_calls_{mpi}", "--mpi", how)
        counted.do("warm 0")
        (costs,) = counted.count("count 0")
        self.compare({f"{mpi}, {how}: {call}": cost for call, cost in costs.items() if how == "stats" or call != AGAIN})

    def mpi_action(self, mpi):
        """Lists that run in the program, at calls whose statistics are taken: a counter, a condition before it that holds or
        not (of MPI_Wait, which has none, the counter alone), and what they cost calls that are not meant."""
        self.mpi_needed(mpi)
        for name, conditions, commands in ACTIONS:
            counted = Counted(self.box, f"mpi_calls_{mpi}", "--trace", "off", "--mpi", "stats")
            tool = Flagged(self.box)
            process = tool.ask(f': node_attach2("") proc_attach3([n_1], {counted.pid}, "")')[2][0][2]
            counters = []
            for call, condition in conditions.items():
                counters.append(tool.ask(": pa_counter_create()")[1][0][2])
                meant = f'"MPI_{call}", "{condition}"' if condition else f'"MPI_{call}"'
                tool.send(WAIT | NO_OK | NO_EN_DIS,
                          f"thread_has_started_lib_call([{process}], {meant}) : pa_counter_add([{counters[-1]}], 1)")
                tool.ask(f": csr_enable([{tool.replies.pop()[2][0][0][2]}])")

            def all_count():
                counted.do("warm 0")
                return all(int(tool.ask(f": pa_counter_read([{counter}])")[1][0][2]) for counter in counters)
            wait_until(all_count)
            costs = counted.count(*commands.values())
            self.compare({f"{mpi}, {name}{holds}: {call}": cost for holds, each in zip(commands, costs) for call, cost in each.items()
                          if call not in ("Comm_rank", AGAIN) and not (call == "Isend + Wait" and name == "another call")})

    def mpi_needed(self, mpi):
        if not mpitest.available(mpi):
            self.skipTest(f"needs {mpi}")

    def test_openmpi_stats(self):
        self.mpi("openmpi", "stats")

    def test_openmpi_trace(self):
        self.mpi("openmpi", "trace")

    @scrytest.thorough
    def test_mpich_stats(self):
        self.mpi("mpich", "stats")

    @scrytest.thorough
    def test_mpich_trace(self):
        self.mpi("mpich", "trace")

    def test_openmpi_action(self):
        self.mpi_action("openmpi")

    @scrytest.thorough
    def test_mpich_action(self):
        self.mpi_action("mpich")

    def test_monitor(self):
        """A request's way through the monitor: all that it does from the request's arrival until it sleeps again."""
        with self.box.omis() as omis:
            omis.request(': node_attach2("")')
            for _ in range(20):
                omis.request(": node_get_info([n_1], 1)")
            monitor = self.box.monitor_pid()
            counter = Counter(self.box, "-w", monitor)

            def sleeps():
                return scrytest.process_state(monitor) == "S"
            costs = []
            for _ in range(TIMES):
                wait_until(sleeps)
                counter.lines()
                self.assertTrue(omis.request(": node_get_info([n_1], 1)").ok())
                wait_until(sleeps)
                costs.append(sum_of("node_get_info", costs_read(counter.lines())))
            self.compare({"monitor: node_get_info": least(costs)["node_get_info"]})

    def test_run(self):
        """What `scry run` does for the least of jobs, but for waiting. Of the observer, and of what takes samples for it, only that
        it is there: whether it looks between its first and its last time is a matter of time."""
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        costs = []
        for i in range(TIMES):
            prefix = self.box.path("work", f"traced-{i}")
            # -D: strace is nobody's parent, and goes when all are gone, the monitor, too
            run = self.box.start(["strace", "-D", "-ff", "-o", prefix, *self.box.scry("run", "-q", "true")],
                                 stdout=subprocess.DEVNULL)
            self.assertEqual(run.wait(), 0)
            monitor = self.box.monitor_pid()
            for _ in range(2):  # the first is counted, in a monitor that has learned; the second ends what is done for it
                self.assertEqual(self.box.run(self.box.scry("run", "-q", "true")).returncode, 0)
                wait_until(lambda: scrytest.process_state(monitor) == "S")
            self.box.stop_monitor()
            wait_until(lambda: not list(self.box.processes("strace")))
            processes = traced_processes(prefix)
            jobs = of_jobs(processes.pop("scry-monitor"))
            if len(jobs) < 2:  # on a busy machine strace may hold the monitor until `scry run` goes on without it
                continue
            for name, lines in [*processes.items(), ("scry-monitor", jobs[1])]:
                cost = Cost(f"call scry run true: {name} instructions=0")
                cost.system_calls = counted_calls(name, lines)
                cost.numbers = {"system_calls": len(cost.system_calls)}
                costs.append(cost)
        found = least(costs)
        self.assertEqual({path.rpartition(" ")[2] for path in found},
                         {"scry", "job-signals", "job-writer", "job-observer", "job-profile", "scry-monitor", "true"})
        self.compare({path: cost for path, cost in found.items() if not path.endswith(("job-observer", "job-profile"))})

    def test_synced(self):
        """job.json is brought to disk while a job lasts, and at its end."""
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        prefix = self.box.path("work", "synced")
        run = self.box.start(["strace", "-D", "-ff", "-y", "-e", "trace=fsync", "-o", prefix, *self.box.scry("run", "-q", "cat")],
                             stdin=subprocess.PIPE)

        def synced():
            found = []
            for path in glob.glob(f"{prefix}.*"):
                with open(path, encoding="utf-8", errors="replace") as file:
                    found += re.findall(r"^fsync\(.*job\.json.*= 0$", file.read(), re.M)
            return found
        wait_until(lambda: len(synced()) == 1)
        run.stdin.close()
        self.assertEqual(run.wait(), 0)
        self.box.stop_monitor()
        wait_until(lambda: not list(self.box.processes("strace")))
        self.assertEqual(len(synced()), 2)


scrytest.main()
