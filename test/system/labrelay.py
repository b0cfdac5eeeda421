# SPDX-License-Identifier: Apache-2.0
"""A bad wire between two interfaces: labrelay.py ONE OTHER. Each line on standard input says how bad it is from now on, "MS
LOSS", the delay in milliseconds of each way and the share of frames that are lost, and is answered with "ok". It ends with
its standard input.

The kernel's own means, tc netem, is in few kernels of containers and virtual machines; this needs nothing but raw sockets."""

import collections
import random
import select
import socket
import sys
import time

# linux/if_packet.h, if_ether.h. With the header of virtio in front, frames that the kernel has not cut or summed up yet pass.
SOL_PACKET, PACKET_VNET_HDR, PACKET_OUTGOING, ETH_P_ALL = 263, 15, 4, 3
LARGEST = 1 << 17


def end(name):
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    made.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    made.bind((name, ETH_P_ALL))
    made.setblocking(False)
    return made


def receive(source, target, under_way, seconds, loss):
    """Takes in what has arrived at one end."""
    while True:
        try:
            frame, address = source.recvfrom(LARGEST)
        except OSError:  # nothing more, or the host at this end is gone
            return
        if address[2] != PACKET_OUTGOING and random.random() >= loss:
            under_way.append((time.monotonic() + seconds, target, frame))


def deliver(under_way):
    """Sends on what was under way long enough; the seconds until the next one, None without one."""
    while under_way:
        left = under_way[0][0] - time.monotonic()
        if left > 0:
            return left
        _, target, frame = under_way.popleft()
        try:
            target.send(frame)
        except OSError:  # the wire is full or cut: lost, as on any wire
            pass
    return None


def relay(one, other):
    ends = {one: other, other: one}
    ways = {each: collections.deque() for each in ends}
    seconds, loss = 0.0, 0.0
    while True:
        waits = [left for left in map(deliver, ways.values()) if left is not None]
        ready, _, _ = select.select([*ends, sys.stdin], [], [], min(waits) if waits else None)
        for each in ready:
            if each is sys.stdin:
                line = sys.stdin.readline()
                if not line:
                    return
                milliseconds, loss = map(float, line.split())
                seconds = milliseconds / 1000
                print("ok", flush=True)
            else:
                receive(each, ends[each], ways[each], seconds, loss)


if __name__ == "__main__":
    relay(*map(end, sys.argv[1:3]))
