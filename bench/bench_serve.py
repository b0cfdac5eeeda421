# SPDX-License-Identifier: Apache-2.0
"""What it costs to be looked at: records of running jobs as server-sent events.

    bench_serve.py [SECONDS]

First 500 viewers of one job with 100 records a second, then 100 viewers of 50 jobs with 100 records a second each. Of both: how
long a record takes from the file to the viewer (some viewers are read closely), the share of a processor that scry serve takes,
its memory, how many records it takes each time that it wakes up (the fewer, the more an event costs), and the processor time
for an event to a viewer, against a write of as many bytes to a socket in this program. The same then from a peer, the barest server there can be (`Peer`), in the same run."""

import json
import os
import re
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from benchlib import BUILD

RATE = 100
CLOSELY = 20


def cpu_seconds(pid):
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0]) / 1e9


def write_floor(size, count=20000):
    """Processor seconds of a write of so many bytes to a socket."""
    one, other = socket.socketpair()
    block = b"x" * size
    start = time.process_time()
    for _ in range(count):
        one.send(block)
        other.recv(size)
    return (time.process_time() - start) / count / 2


def status_number(pid, name):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(rf"^{name}:\s+(\d+)", file.read(), re.MULTILINE).group(1))


def wake_ups(pid):
    return status_number(pid, "voluntary_ctxt_switches")


PEER = r"""
import re, socket, sys, time
folder = sys.argv[1]
listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
listener.setblocking(False)
print(listener.getsockname()[1], flush=True)
files, rests, viewers = {}, {}, {}
while True:
    try:
        while True:
            sock, _ = listener.accept()
            job = re.match(rb"GET /api/jobs/([^/]*)/", sock.recv(65536)).group(1).decode()
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            viewers.setdefault(job, []).append(sock)
            if job not in files:
                files[job] = open(f"{folder}/{job}/spool/records.jsonl", "rb")
    except BlockingIOError:
        pass
    for job, file in files.items():
        *lines, rests[job] = (rests.get(job, b"") + file.read()).split(b"\n")
        if lines:
            at = str(file.tell()).encode()
            text = b"".join(b"event: record\ndata: %s\nid: %s\n\n" % (line, at) for line in lines)
            for sock in viewers[job]:
                sock.send(text)
    time.sleep(0.04)
"""


class Bench:
    """A server, of scry or a peer: that one reads the same files as often, and sends what it read as it is, all at once, without parsing, sessions,
    limits, or regard for who is slow."""

    def __init__(self, jobs, peer):
        self.folder = tempfile.mkdtemp(prefix="scry-bench-")
        programs = f"{self.folder}/libexec"
        os.mkdir(programs)
        for room, name in (("daemon", "scry-monitor"), ("web/serve", "scry-serve"), ("web/view", "scry-view")):
            os.symlink(f"{BUILD}/src/{room}/{name}", f"{programs}/{name}")
        self.env = dict(os.environ, XDG_STATE_HOME=f"{self.folder}/state", SCRY_RUNTIME_DIR=f"{self.folder}/run", SCRY_LIBEXEC=programs)
        self.env.pop("SCRY_STATE_DIR", None)
        os.makedirs(f"{self.folder}/run", mode=0o700)
        scry = f"{BUILD}/src/cli/scry"
        self.job = subprocess.Popen([scry, "run", "-q", "-o", f"{self.folder}/base", "--", "sleep", "1000"], env=self.env)
        while not os.path.exists(f"{self.folder}/base/job.json") or '"root"' not in open(f"{self.folder}/base/job.json", encoding="utf-8").read():
            time.sleep(0.05)
        time.sleep(0.5)
        self.ids = [f"20260101T000000-bench-{number}-aa" for number in range(1, jobs + 1)]
        for job in self.ids:  # all of them run as long as that one
            os.makedirs(f"{self.folder}/jobs/{job}/spool")
            shutil.copy(f"{self.folder}/base/job.json", f"{self.folder}/jobs/{job}/job.json")
            with open(f"{self.folder}/base/spool/records.jsonl", encoding="utf-8") as file:
                first = file.readline()
            with open(f"{self.folder}/jobs/{job}/spool/records.jsonl", "w", encoding="utf-8") as file:
                file.write(first)
        self.over = False
        self.written = 0
        self.token = None
        if peer:
            self.server = subprocess.Popen([sys.executable, "-c", PEER, f"{self.folder}/jobs"], stdout=subprocess.PIPE, text=True)
            self.port = int(self.server.stdout.readline())
            return
        self.server = subprocess.Popen([scry, "serve", "--jobs", f"{self.folder}/jobs"], env=self.env, stdout=subprocess.PIPE, text=True)
        self.port = int(re.search(r":(\d+)/", self.server.stdout.readline()).group(1))
        done = subprocess.run([scry, "serve", "--bearer"], env=self.env, stdout=subprocess.PIPE, text=True, check=True)
        self.token = done.stdout.strip()

    def done(self):
        self.over = True
        self.server.send_signal(signal.SIGTERM)
        self.server.wait()
        self.job.send_signal(signal.SIGTERM)
        self.job.wait()
        subprocess.run([f"{BUILD}/src/cli/scry", "monitor", "--state"], env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def look(self, job):
        sock = socket.create_connection(("127.0.0.1", self.port))
        sock.sendall(f"GET /api/jobs/{job}/records HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.token}\r\n\r\n".encode())
        return sock

    def write(self):
        files = [open(f"{self.folder}/jobs/{job}/spool/records.jsonl", "a", encoding="utf-8") for job in self.ids]
        start, seq = time.monotonic(), 0
        while not self.over:
            seq += 1
            for file in files:
                file.write(json.dumps({"seq": seq, "t": seq / RATE, "type": "bench", "sent": time.monotonic(), "text": "x" * 120}) + "\n")
                file.flush()
            self.written = seq
            time.sleep(max(0, start + seq / RATE - time.monotonic()))


def run(name, jobs, viewers, seconds, peer=False):
    """Processor seconds of an event to a viewer."""
    bench = Bench(jobs, peer)
    socks = {}
    poll = select.epoll()
    try:
        for number in range(viewers):
            sock = bench.look(bench.ids[number % jobs])
            socks[sock.fileno()] = [sock, number < CLOSELY, b"", 0]
            poll.register(sock, select.EPOLLIN)
        writer = threading.Thread(target=bench.write, daemon=True)
        writer.start()
        delays, count, size = [], 0, 0
        start, begun, cpu, written, woken = time.monotonic(), 0, 0, 0, 0
        while not begun or time.monotonic() < begun + seconds:
            if not begun and time.monotonic() > start + 3:
                delays, count, size = [], 0, 0
                begun, cpu, written, woken = time.monotonic(), cpu_seconds(bench.server.pid), bench.written, wake_ups(bench.server.pid)
            for fd, _ in poll.poll(0.2):
                viewer = socks[fd]
                data = viewer[0].recv(1 << 18)
                now = time.monotonic()
                size += len(data)
                count += data.count(b"\nid: ")
                if viewer[1]:
                    *lines, viewer[2] = (viewer[2] + data).split(b"\n")
                    for line in lines:
                        if line.startswith(b"data: {") and b'"sent"' in line:
                            delays.append(now - json.loads(line[6:])["sent"])
        took = time.monotonic() - begun
        cpu = cpu_seconds(bench.server.pid) - cpu
        woken = wake_ups(bench.server.pid) - woken
        due = (bench.written - written) * viewers
        delays.sort()
        each = cpu / max(count, 1)
        floor = statistics.median(write_floor(size // max(count, 1)) for _ in range(5))
        print(f"{name}: {count} of {due} events in {took:.1f} s; delay p50 {1e3 * delays[len(delays) // 2]:.0f} ms, "
              f"p99 {1e3 * delays[len(delays) * 99 // 100]:.0f} ms; {100 * cpu / took:.0f} % of a processor; "
              f"{status_number(bench.server.pid, 'VmHWM') * 1024 / 1e6:.0f} MB; {due / viewers * jobs / max(woken, 1):.1f} records a wake-up; {1e6 * each:.1f} us an event, {each / floor:.2f} of a write")
        return each
    finally:
        bench.done()
        for sock, *_ in socks.values():
            sock.close()


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    for name, jobs, viewers in (("500 viewers of 1 job", 1, 500), ("100 viewers of 50 jobs", 50, 100)):
        each = run(name, jobs, viewers, seconds)
        floor = run(f"{name}, peer", jobs, viewers, seconds, peer=True)
        print(f"{name}: {each / floor:.2f} of the peer")


if __name__ == "__main__":
    main()
