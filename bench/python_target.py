# SPDX-License-Identifier: Apache-2.0
"""What bench_python.py measures: a tight loop, calls of a small function, and tasks that run each other as in Richards'
benchmark. Prints ns for each line, each call, and each step of a task.

    python_target.py [LIBRARY LEVEL]    with the floor's tracer
"""

import ctypes
import sys
import time


def loop(count):
    total = i = 0
    while i < count:
        total += i & 3
        i += 1
    return total


def small(x):
    return x


def calls(count):
    for i in range(count):
        small(i)


class Packet:
    def __init__(self, link, kind):
        self.link, self.kind, self.data = link, kind, [0] * 4

    def append_to(self, queue):
        self.link = None
        if queue is None:
            return self
        last = queue
        while last.link is not None:
            last = last.link
        last.link = self
        return queue


class Task:
    def __init__(self, scheduler, identity, next_task):
        self.scheduler, self.identity, self.next_task = scheduler, identity, next_task
        self.queue, self.count, self.holding = None, 0, False

    def add(self, packet):
        self.queue = packet.append_to(self.queue)
        return self.next_task

    def take(self):
        packet = self.queue
        if packet is not None:
            self.queue = packet.link
        return packet


class Worker(Task):
    def run(self):
        packet = self.take()
        if packet is None:
            return self.next_task
        for i in range(len(packet.data)):
            self.count += 1
            if self.count > 26:
                self.count = 1
            packet.data[i] = self.count + ord("A")
        self.scheduler.steps += 1
        return self.next_task.add(packet)


class Scheduler:
    def __init__(self, tasks):
        self.steps, first = 0, None
        last = task = first = Worker(self, 0, None)
        for identity in range(1, tasks):
            task = Worker(self, identity, task)
        last.next_task = self.first = task
        for kind in range(3):
            first.add(Packet(None, kind))

    def run(self, steps):
        task = self.first
        while self.steps < steps:
            task = task.run()


def measure(work, count):
    start = time.perf_counter()
    work(count)
    return (time.perf_counter() - start) / count * 1e9


def main():
    if len(sys.argv) > 2:
        ctypes.PyDLL(sys.argv[1]).floor_start(int(sys.argv[2] == "lines"))
    print(measure(loop, 300000) / 3, measure(calls, 150000), measure(Scheduler(6).run, 40000))


if __name__ == "__main__":
    main()
