# SPDX-License-Identifier: Apache-2.0
"""What the connection to a broker (src/broker/link.h) carries: messages of 170 bytes to a mosquitto, each alone, against the
stock client (mosquitto_pub -l) on the same broker; and records of 170 bytes in batches of 64 KB, as jobs are published.

    bench_broker.py [PAIRS]

Printed are the medians of the ratios of interleaved pairs with their 95 % interval, and the processor time that 20 000
records a second take.
"""

import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from benchlib import BUILD, interval

LINKED = os.path.join(BUILD, "test", "system", "targets", "linked")
COUNT, BYTES, BATCH = 4000, 170, 64 << 10
RECORDS_A_BATCH = BATCH // BYTES
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"


def start_broker(place):
    program = shutil.which("mosquitto", path=f"{os.environ['PATH']}:{SBIN}")
    if not program or not shutil.which("mosquitto_pub"):
        sys.exit("needs mosquitto and its clients")
    config, path = f"{place}/conf", f"{place}/broker.sock"
    with open(config, "w", encoding="ascii") as file:
        file.write(f"listener 0 {path}\nallow_anonymous true\nmax_queued_messages 0\nlog_type error\n{'' if os.getuid() else 'user root'}\n")
    broker = subprocess.Popen([program, "-c", config])
    while True:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
                return broker, path
            except OSError:
                time.sleep(0.01)


def timed(command, **options):
    """Seconds by the clock, and of the processor."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300, **options)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def send(path, count, qos, size, rate=0):
    read, write = os.pipe()  # never ends
    try:
        return timed([LINKED, "send", f"unix:{path}", "bench/n", str(count), str(qos), str(size), str(rate)], stdin=read)
    finally:
        os.close(read)
        os.close(write)


def stock(path, lines, qos):
    with open(lines, "rb") as file:
        return timed(["mosquitto_pub", "--unix", path, "-t", "bench/n", "-l", "-q", str(qos)], stdin=file)[0]


def main():
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory(prefix="scry-bench-") as place:
        broker, path = start_broker(place)
        lines = f"{place}/lines"
        with open(lines, "w", encoding="ascii") as file:
            file.write(("x" * BYTES + "\n") * COUNT)
        try:
            for qos in (0, 1):
                ratios, ours = [], []
                for number in range(pairs):
                    seconds = {}
                    for client in ("link", "peer") if number % 2 else ("peer", "link"):
                        seconds[client] = send(path, COUNT, qos, BYTES)[0] if client == "link" else stock(path, lines, qos)
                    ours.append(COUNT / seconds["link"])
                    ratios.append(seconds["peer"] / seconds["link"])
                low, high = interval(ratios)
                print(f"QoS {qos}: {statistics.median(ours):7.0f} messages/s, {statistics.median(ratios):.2f} times mosquitto_pub "
                      f"[{low:.2f}, {high:.2f}]", flush=True)
            rates = [500 * RECORDS_A_BATCH / send(path, 500, 1, BATCH)[0] for _ in range(pairs)]
            low, high = interval(rates)
            print(f"records in batches of 64 KB, QoS 1: {statistics.median(rates):.0f}/s [{low:.0f}, {high:.0f}]")
            batches = 20000 / RECORDS_A_BATCH
            wall, used = send(path, int(5 * batches), 1, BATCH, batches)
            print(f"20000 records/s for {wall:.1f} s: {100 * used / wall:.2f} % of a processor")
        finally:
            broker.terminate()
            broker.wait()


if __name__ == "__main__":
    main()
