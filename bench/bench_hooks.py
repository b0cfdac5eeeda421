# SPDX-License-Identifier: Apache-2.0
"""What a compiled-in function call costs under scry, beside an empty hook library, the floor of recording, uftrace and
LTTng-UST, in one run.

    bench_hooks.py [ROUNDS]

Each round runs every variant once, one after the other (interleaved); printed are the medians over the rounds in
nanoseconds a call (entry and exit), and the ratios with the 95 % interval of their median. Goals: off or another function
selected at most 1.1 x the empty library; recorded at most 1.15 x the floor and 3 x faster than uftrace; counted not more
than recorded; captured arguments with their result at most GOALS x recorded; a lowered action at most 40 ns more than
a call that is off. Peers that are not installed are left out, and said to be.
"""

import ctypes
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from benchlib import BUILD, interval, stop_monitor

CALLS = "25000"
# The target's functions with arguments: what they are, and the goal.
GOALS = {"two": ("two int", 1.3), "seven": ("seven int", 2), "real": ("double", 2), "single": ("float", 2),
         "pointed": ("int *", 2), "pointed_double": ("double *", 2), "text": ("char *", 3), "structure": ("struct *", 3)}


class Bench:
    def __init__(self, folder):
        self.folder = folder
        # in memory, as a user's runtime directory is; where the folder is on a disk, writing back slows all that write there
        self.runtime = tempfile.mkdtemp(prefix="scry-bench-", dir="/dev/shm" if os.path.isdir("/dev/shm") else folder)
        self.env = dict(os.environ, XDG_STATE_HOME=f"{folder}/state", XDG_CACHE_HOME=f"{folder}/cache",
                        SCRY_RUNTIME_DIR=self.runtime, LTTNG_HOME=f"{folder}/lttng", NO_COLOR="1")
        os.makedirs(f"{folder}/lttng")
        bench = os.path.join(BUILD, "bench")
        self.target = os.path.join(bench, "hooks_target")
        self.empty = os.path.join(bench, "libhooks_empty.so")
        self.floor = os.path.join(bench, "libhooks_floor.so")
        self.scry = os.path.join(BUILD, "src", "cli", "scry")
        self.session = self.tool = None

    def run(self, prefix, extra=None):
        done = subprocess.run([*prefix, self.target, "1", CALLS], env=dict(self.env, **(extra or {})), check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        words = done.stdout.split()
        return {words[i]: float(words[i + 1]) for i in range(0, len(words) - 1, 2)}

    def scry_run(self, *options):
        shutil.rmtree(f"{self.folder}/job", ignore_errors=True)
        return self.run([self.scry, "run", "-q", "-o", f"{self.folder}/job", "--sample", "60", *options, "--"])

    def uftrace(self, *options):
        shutil.rmtree(f"{self.folder}/uftrace", ignore_errors=True)
        return self.run(["uftrace", "record", "--no-pager", "-d", f"{self.folder}/uftrace", *options])

    def lttng_start(self):
        def lttng(*args):
            subprocess.run(["lttng", "-n", *args], env=self.env, check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
        pidfile = f"{self.folder}/lttng/sessiond.pid"
        # in the background: it returns when the daemon is ready
        subprocess.run(["lttng-sessiond", "--no-kernel", "--background", "--pidfile", pidfile], env=self.env, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(pidfile, encoding="ascii") as file:
            self.session = int(file.read())
        lttng("create", "hooks", "-o", f"{self.folder}/lttng-trace")
        lttng("enable-channel", "-u", "--overwrite", "hooks")
        lttng("enable-event", "-u", "-c", "hooks", "lttng_ust_cyg_profile*")
        lttng("start")

    def lttng_stop(self):
        if self.session:
            subprocess.run(["lttng", "-n", "destroy", "hooks"], env=self.env, check=False, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            os.kill(self.session, signal.SIGTERM)


class Reply(ctypes.Structure):
    _fields_ = [("objects", ctypes.c_char_p), ("status", ctypes.c_int), ("result", ctypes.c_char_p)]


class Tool:
    """A tool of the bench's own, for requests with flags: only those that return no OK are lowered."""
    WAIT, NO_OK, NO_EN_DIS = 1, 2, 4
    CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)

    def __init__(self, bench):
        os.environ.update({name: bench.env[name] for name in ("SCRY_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CACHE_HOME")})
        self.library = ctypes.CDLL(os.path.join(BUILD, "src", "client", "libomis.so"))
        self.library.omis_request.restype = ctypes.POINTER(ctypes.POINTER(Reply))
        self.library.omis_request.argtypes = [ctypes.c_char_p, self.CALLBACK, ctypes.c_void_p, ctypes.c_uint]
        self.quiet = self.CALLBACK(lambda reply, context: None)
        if self.library.omis_init(None, None, None, None) != 0:
            raise RuntimeError("no monitor")
        self.node = None

    def ask(self, request, conditional=False):
        flags = self.WAIT | self.NO_OK | self.NO_EN_DIS if conditional else self.WAIT
        reply = self.library.omis_request(request.encode(), self.quiet if conditional else self.CALLBACK(), None, flags)
        found, i = [], 0
        while reply and reply[i]:
            element = reply[i][0]
            if element.status >= 16:
                raise RuntimeError(f"{request}: {element.result}")
            found.append((element.result or b"").decode())
            i += 1
        return found

    def attach(self, pid):
        if not self.node:
            self.node = self.ask(': node_attach2("")')
        return self.ask(f': proc_attach3([n_1], {pid}, "")')[1]


def figures(process, wanted, rounds):
    """The best of so many rounds of a target that runs."""
    least = math.inf
    while rounds:
        name, number = process.stdout.readline().split()
        if name == wanted:
            least = min(least, float(number))
            rounds -= 1
    return least


def action_cost(bench, event):
    """Nanoseconds that a lowered counter adds to a call of a function that was off, in one process, one after the
    other. `event`: the function and its condition."""
    function = event.split('"')[1]
    shutil.rmtree(f"{bench.folder}/job", ignore_errors=True)
    run = subprocess.Popen([bench.scry, "run", "-q", "-o", f"{bench.folder}/job", "--sample", "60", "--trace", "fn:main", "--",
                            bench.target, "1000000", "10000"], env=bench.env, stdout=subprocess.PIPE, text=True)
    target = None
    try:
        figures(run, function, 1)
        with open(f"/proc/{run.pid}/task/{run.pid}/children", encoding="ascii") as file:
            target = next(int(pid) for pid in file.read().split()
                          if os.readlink(f"/proc/{pid}/exe") == os.path.realpath(bench.target))
        off = figures(run, function, 5)
        tool = bench.tool = bench.tool or Tool(bench)
        process = tool.attach(target)
        counter = tool.ask(": pa_counter_create()")[1]
        csr = tool.ask(f"ct_function_called([{process}], {event}) : pa_counter_add([{counter}], 1)", conditional=True)[0]
        tool.ask(f": csr_enable([{csr}])")

        def count():
            return int(tool.ask(f": pa_counter_read([{counter}])")[1])

        end = time.monotonic() + 30
        while not count() and time.monotonic() < end:
            figures(run, function, 1)
        before = count()
        # what was written before it was in place is still in the pipe
        figures(run, function, 100)
        acting = figures(run, function, 5)
        if count() == before:
            raise RuntimeError("the action was not run")
        tool.ask(f": csr_delete([{csr}])")
        return acting - off
    finally:
        if target:
            os.kill(target, signal.SIGTERM)
        run.stdout.close()
        run.wait()


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    folder = tempfile.mkdtemp(prefix="scry-bench-")
    bench = Bench(folder)
    traced = [word for function in ("leaf", *GOALS) for word in ("--trace", f"fn:{function}")]
    # name: how to run it, and which of the target's functions are looked at
    variants = {
        "no library": (lambda: bench.run([]), "leaf"),
        "empty library": (lambda: bench.run([], {"LD_PRELOAD": bench.empty}), "leaf"),
        "floor": (lambda: bench.run([], {"LD_PRELOAD": bench.floor}), "leaf"),
        "scry: another function": (lambda: bench.scry_run("--trace", "fn:main"), "leaf"),
        "scry: recorded": (lambda: bench.scry_run(*traced), "leaf", *GOALS),
        "scry: arguments": (lambda: bench.scry_run(*traced, "--args"), *GOALS),
        "scry: counted": (lambda: bench.scry_run(*traced, "--count-only"), "leaf"),
        "scry: flight recorder": (lambda: bench.scry_run("--trace", "fn:leaf", "--overflow", "flight"), "leaf"),
    }
    if shutil.which("uftrace"):
        variants["uftrace"] = (bench.uftrace, "leaf")
        variants["uftrace: arguments"] = (lambda: bench.uftrace("--auto-args"), *GOALS)
        variants["uftrace: filtered out"] = (lambda: bench.uftrace("-F", "main"), "leaf")
    else:
        print("uftrace is not installed: left out")
    lttng = next((path for path in ("/usr/lib/x86_64-linux-gnu/liblttng-ust-cyg-profile-fast.so",)
                  if os.path.exists(path) and shutil.which("lttng-sessiond")), None)
    if lttng:
        bench.lttng_start()
        variants["LTTng-UST, fast"] = (lambda: bench.run([], {"LD_PRELOAD": lttng}), "leaf")
    else:
        print("LTTng-UST is not installed: left out")
    times = {(name, function): [] for name, (_, *functions) in variants.items() for function in functions}
    actions = {'"leaf", ""': [], '"two", "a >= 0"': []}
    try:
        for _ in range(rounds):
            for name, (run, *functions) in variants.items():
                found = run()
                for function in functions:
                    times[name, function].append(found[function])
            for event, costs in actions.items():
                costs.append(action_cost(bench, event))
    finally:
        bench.lttng_stop()
        stop_monitor(bench.runtime)
        shutil.rmtree(bench.runtime, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
    for (name, function), values in times.items():
        low, high = interval(values)
        print(f"{name + ', ' + function:34} {statistics.median(values):8.2f} [{low:.2f} .. {high:.2f}] ns a call, least {min(values):.2f}")

    def ratio(what, a, b, goal, function="leaf"):
        a, b = (a, function), (b, function)
        if a in times and b in times:
            ratios = [x / y for x, y in zip(times[a], times[b])]
            low, high = interval(ratios)
            print(f"{what:52} {statistics.median(ratios):6.2f} [{low:.2f} .. {high:.2f}]  goal {goal}")

    ratio("another function / empty library", "scry: another function", "empty library", "<= 1.1")
    ratio("recorded / floor", "scry: recorded", "floor", "<= 1.15")
    ratio("counted / recorded", "scry: counted", "scry: recorded", "<= 1")
    ratio("uftrace / recorded", "uftrace", "scry: recorded", ">= 3")
    ratio("LTTng-UST / recorded", "LTTng-UST, fast", "scry: recorded", "-")
    for function, (what, goal) in GOALS.items():
        ratio(f"{what}, captured / recorded", "scry: arguments", "scry: recorded", f"<= {goal}", function)
        ratio(f"{what}, uftrace's automatic arguments / captured", "uftrace: arguments", "scry: arguments", "> 1", function)
    for event, costs in actions.items():
        low, high = interval(costs)
        print(f"{'a lowered action adds, ' + event:52} {statistics.median(costs):6.2f} [{low:.2f} .. {high:.2f}] ns  goal <= 40")
    ratio("uftrace filtered out / another function", "uftrace: filtered out", "scry: another function", "-")
    return 0


if __name__ == "__main__":
    sys.exit(main())
