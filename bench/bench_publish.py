# SPDX-License-Identifier: Apache-2.0
"""What it costs to publish a job at a broker, a private mosquitto.

    bench_publish.py [RECORDS [PAIRS]]

First, records a second from a job directory (scry publish), against mosquitto_pub -l, which sends the same lines as a message
each, in turns with it: the median of the ratios with its 95 % interval. Then the processor time of publisher and scry run
while they follow a job of 50 processes that sleep."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from benchlib import BUILD, interval, stop_monitor


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def lengthen(job, records):
    """The records of a job again and again."""
    with open(f"{job}/spool/records.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    with open(f"{job}/spool/records.jsonl", "w", encoding="utf-8") as file:
        for seq in range(records):
            record = dict(lines[0] if not seq else lines[1 + seq % (len(lines) - 1)], seq=seq)
            file.write(json.dumps({"seq": seq, **record}, separators=(",", ":")) + "\n")


def timed(command, **options):
    start = time.monotonic()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, **options)
    return time.monotonic() - start


def child_named(parent, name):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                head, _, rest = file.read().rpartition(")")
            if head.endswith("(" + name) and int(rest.split()[1]) == parent:
                return int(pid)
        except OSError:
            pass
    return None


def main():
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 100000
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    folder = tempfile.mkdtemp(prefix="scry-bench-")
    env = dict(os.environ, XDG_STATE_HOME=f"{folder}/state", SCRY_RUNTIME_DIR=f"{folder}/run")
    scry, job, socket = os.path.join(BUILD, "src", "cli", "scry"), f"{folder}/job", f"{folder}/broker"
    with open(f"{folder}/conf", "w", encoding="ascii") as file:
        file.write(f"listener 0 {socket}\nallow_anonymous true\n" + ("user root\n" if os.getuid() == 0 else ""))
    broker = subprocess.Popen(["mosquitto", "-c", f"{folder}/conf"], stderr=subprocess.DEVNULL)
    try:
        while not os.path.exists(socket):
            time.sleep(0.01)
        subprocess.run([scry, "run", "-q", "-o", job, "--sample", "0.05", "--", "sh", "-c",
                        "for i in 1 2 3 4 5 6 7 8 9; do ls; sleep 0.1; done"], env=env, stdout=subprocess.DEVNULL, check=True)
        lengthen(job, records)
        ours, theirs = [], []
        for _ in range(pairs):
            # without the 0.3 s in which it stays for readers
            ours.append(records / (timed([scry, "publish", "--broker", f"unix:{socket}", job], env=env) - 0.3))
            with open(f"{job}/spool/records.jsonl", "rb") as lines:
                theirs.append(records / timed(["mosquitto_pub", "--unix", socket, "-t", "x", "-q", "0", "-l"], stdin=lines))
        ratios = [one / other for one, other in zip(ours, theirs)]
        low, high = interval(ratios)
        print(f"scry publish       {statistics.median(ours):10.0f} records/s")
        print(f"mosquitto_pub -l   {statistics.median(theirs):10.0f} lines/s")
        print(f"ratio              {statistics.median(ratios):10.2f}  ({low:.2f} to {high:.2f})")
        seconds = 10
        run = subprocess.Popen([scry, "run", "-q", "--broker", f"unix:{socket}", "--", "sh", "-c",
                                f"for i in $(seq 50); do sleep {seconds + 5} & done; wait"], env=env)
        time.sleep(2)  # the start
        publisher = child_named(run.pid, "job-publisher")
        before = cpu_seconds(publisher), cpu_seconds(run.pid)
        time.sleep(seconds)  # what is measured
        after = cpu_seconds(publisher), cpu_seconds(run.pid)
        print(f"50 processes       publisher {(after[0] - before[0]) / seconds:.2%}, "
              f"scry run {(after[1] - before[1]) / seconds:.2%} of a processor")
        run.wait()
    finally:
        broker.terminate()
        broker.wait()
        stop_monitor(f"{folder}/run")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
