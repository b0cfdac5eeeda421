# SPDX-License-Identifier: Apache-2.0
"""What the profile of `scry run` costs, and whether it is right: against the same without it, and against `perf record`.

    bench_profile.py [ROUNDS]

Each round runs each program without a profile (--profile 0), with the one that each job has, and below perf record at the same
rate with whole stacks (--call-graph dwarf). Printed are ratios of processor time of the job itself, medians of the rounds with
their 95 % interval; what scry-profile took itself, as a share of it; and, of one more run at 997 samples a second, the greatest
difference of a function's own share between scry and perf record (without stacks), in points.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from benchlib import BUILD, interval, stop_monitor

SORTS = """
#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>
__attribute__((noinline)) static double thrown(int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        try { if (i % 3 == 0) throw std::runtime_error("no"); sum += i; } catch (const std::exception &) { sum -= 1; }
    return sum;
}
__attribute__((noinline)) static size_t sorted(int n)
{
    std::vector<std::string> list;
    for (int i = 0; i < n; i++) list.push_back(std::to_string(i * 7919 % 1000003));
    std::sort(list.begin(), list.end());
    return list[0].size();
}
int main() { double sum = 0; for (int i = 0; i < 8; i++) sum += thrown(150000) + sorted(120000); return sum == 1; }
"""
HEAT = """
program heat
  real(8), allocatable :: a(:,:), b(:,:)
  integer k
  allocate(a(500,500), b(500,500)); a = 1; b = 0
  do k = 1, 300
    call step(a, b, 500); call step(b, a, 500)
    if (mod(k, 10) == 0) call power(a, 500)
  end do
  print *, a(3,3)
contains
  subroutine step(a, b, n)
    integer n, i, j
    real(8) a(n,n), b(n,n)
    do j = 2, n - 1
      do i = 2, n - 1
        b(i,j) = 0.25d0 * (a(i-1,j) + a(i+1,j) + a(i,j-1) + a(i,j+1))
      end do
    end do
  end subroutine
  subroutine power(a, n)
    integer n, i, j
    real(8) a(n,n)
    do j = 1, n
      do i = 1, n
        a(i,j) = abs(a(i,j)) ** 0.99d0
      end do
    end do
  end subroutine
end program
"""
THREADS = """
#include <pthread.h>
static void *work(void *x) { volatile double sum = 0; for (long i = 0; i < 3000000; i++) sum += i; return x; }
int main(void)
{
    pthread_t threads[500];
    for (int i = 0; i < 500; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 500; i++) pthread_join(threads[i], 0);
}
"""
SQUARES = """
def squares(n):
    return sum(i * i for i in range(n))
def table(n):
    return sorted((i * 7919) % 1000003 for i in range(n))
for _ in range(12):
    squares(400000)
    table(200000)
"""
# 2000 processes, most of them shorter than a sample
SHELL = "for i in $(seq 1000); do /bin/true; /usr/bin/expr $i + 1 >/dev/null; done"


def make_programs(folder):
    def put(name, text):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def compiled(name, source, *command):
        program = os.path.join(folder, name)
        subprocess.run([*command, "-g", "-O2", "-o", program, put(source, {"sorts.cc": SORTS, "heat.f90": HEAT, "threads.c": THREADS}[source])],
                       check=True, cwd=folder)
        return [program]

    return {"C++, exceptions": compiled("sorts", "sorts.cc", "g++"), "Fortran": compiled("heat", "heat.f90", "gfortran"),
            "500 threads": compiled("threads", "threads.c", "gcc", "-pthread"), "Python": ["/usr/bin/python3", put("squares.py", SQUARES)],
            "2000 processes": ["bash", "-c", SHELL]}


class Runs:
    def __init__(self, folder):
        self.folder = folder
        self.scry = os.path.join(BUILD, "src", "cli", "scry")
        self.env = {**os.environ, "SCRY_RUNTIME_DIR": os.path.join(folder, "run"), "SCRY_STATE_DIR": os.path.join(folder, "jobs"),
                    "SCRY_CACHE_DIR": os.path.join(folder, "cache"), "SCRY_LIBEXEC": os.path.join(folder, "libexec")}
        os.mkdir(self.env["SCRY_LIBEXEC"])
        for room, name in ("daemon", "scry-monitor"), ("profile", "scry-profile"), ("symbols", "scry-symbols"):
            os.symlink(os.path.abspath(os.path.join(BUILD, "src", room, name)), os.path.join(self.env["SCRY_LIBEXEC"], name))
        for name in ("SCRY", "SCRY_CONFIG", "SCRY_PROFILE"):
            self.env.pop(name, None)

    def watched(self, command, hz):
        """Its report."""
        subprocess.run([self.scry, "run", "-q", "--profile", str(hz), "--", *command], env=self.env, check=True, stdout=subprocess.DEVNULL)
        done = subprocess.run([self.scry, "report", "--json", "@last"], env=self.env, check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout)

    def below_perf(self, command):
        """Processor time of the job, as scry knows it, with perf record inside."""
        data = os.path.join(self.folder, "perf.data")
        report = self.watched(["perf", "record", "-q", "-F", "49", "--call-graph", "dwarf,8192", "-o", data, "--", *command], 0)
        return report["cpu_seconds"]

    def shares(self, command):
        """Of functions by perf record: {name: percent}."""
        data = os.path.join(self.folder, "perf.data")
        subprocess.run(["perf", "record", "-q", "-F", "997", "-e", "cpu-clock", "-o", data, "--", *command], env=self.env, check=True,
                       stdout=subprocess.DEVNULL)
        done = subprocess.run(["perf", "report", "-i", data, "--stdio", "--no-children", "-F", "overhead,sym"], check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        shares = {}
        for line in done.stdout.splitlines():
            if "%" in line and not line.startswith("#"):
                percent, _, name = line.strip().partition("%")
                kind, _, name = name.strip().partition("] ")
                name = "kernel" if "k" in kind else name.split("@@")[0].split("(")[0].strip()
                shares[name] = shares.get(name, 0) + float(percent)
        return shares


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    has_perf = shutil.which("perf") is not None
    with tempfile.TemporaryDirectory(prefix="scry-bench") as folder:
        runs = Runs(folder)
        print(f"{'':18} processor time, with the profile / without        scry-profile       perf record / without     shares")
        for name, command in make_programs(folder).items():
            runs.watched(command, 49)  # warm caches, and indexes
            with_it, with_perf, own = [], [], []
            for _ in range(rounds):
                bare = runs.watched(command, 0)["cpu_seconds"]
                report = runs.watched(command, 49)
                with_it.append(report["cpu_seconds"] / bare)
                own.append((report["profile"] or {"cost_seconds": 0})["cost_seconds"] / report["cpu_seconds"])
                if has_perf:
                    with_perf.append(runs.below_perf(command) / bare)
            low, high = interval(with_it)
            text = f"{name:18} {statistics.median(with_it):8.4f} [{low:.4f}, {high:.4f}] goal < 1.01 {statistics.median(own):18.4f}"
            if has_perf:
                low, high = interval(with_perf)
                text += f" {statistics.median(with_perf):12.4f} [{low:.4f}, {high:.4f}]"
            if has_perf and name not in ("Python", "2000 processes"):
                profile = runs.watched(command, 997)["profile"]
                theirs, ours = runs.shares(command), {}
                for row in profile["functions"]:
                    ours[row["name"]] = ours.get(row["name"], 0) + 100 * row["self_samples"] / profile["samples"]
                same = {key: abs(theirs[key] - share) for key, share in ours.items() if key in theirs and theirs[key] > 1}
                text += f"   {max(same.values()):.1f} points of {len(same)} functions" if same else ""
            print(text, flush=True)
        stop_monitor(runs.env["SCRY_RUNTIME_DIR"])


if __name__ == "__main__":
    main()
