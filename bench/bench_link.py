# SPDX-License-Identifier: Apache-2.0
"""What a link (scry-link) carries: the round trip of 64 bytes and the throughput of 64 MB, through TLS on loopback, from a
tool's socket to a monitor's, which is a counter here. Beside it the same over one bare unix socket, and over one bare TLS 1.3
connection (OpenSSL), which has two processes and no queue that outlives it, where the link has four.

    bench_link.py [PAIRS]

Printed are the medians of the ratios of interleaved measurements with their 95 % interval. Nothing is pinned.
"""

import contextlib
import os
import shutil
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from benchlib import BUILD, interval

SMALL, TIMES, LARGE = 56, 400, 64 << 20
CHUNK = bytes(256 << 10)


def answer(sock):
    """A length, so many bytes, and one back, until it closes."""
    buffer, have = memoryview(bytearray(1 << 20)), 0
    left = None
    with contextlib.suppress(OSError):
        while True:
            got = sock.recv_into(buffer[have:] if left is None else buffer)
            if not got:
                return
            if left is None:
                have += got
                if have < 8:
                    continue
                left, have = struct.unpack_from("<Q", buffer)[0] - (have - 8), 0
            else:
                left -= got
            if left == 0:
                sock.sendall(b"x")
                left = None


def serve(listener, wrap=lambda sock: sock):
    """In a process of its own; its id."""
    pid = os.fork()
    if pid:
        listener.close()
        return pid
    while True:
        sock, _ = listener.accept()
        if not os.fork():
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            answer(wrap(sock))
            os._exit(0)


def round_trip(sock):
    message = struct.pack("<Q", SMALL) + bytes(SMALL)
    begin = time.perf_counter()
    for _ in range(TIMES):
        sock.sendall(message)
        sock.recv(1)
    return (time.perf_counter() - begin) / TIMES


def throughput(sock):
    begin = time.perf_counter()
    sock.sendall(struct.pack("<Q", LARGE))
    for _ in range(LARGE // len(CHUNK)):
        sock.sendall(CHUNK)
    sock.recv(1)
    return LARGE / (time.perf_counter() - begin)


def unix_listener(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(8)
    return listener


def unix(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    return sock


def bare_tls(key, started):
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(key)
    started.append(serve(listener, lambda sock: tls.wrap_socket(sock, server_side=True)))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    raw = socket.create_connection(("127.0.0.1", port))
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return tls.wrap_socket(raw)


def link(place, env):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = subprocess.Popen([f"{BUILD}/src/link/scry-link", "serve", "--listen", f"127.0.0.1:{port}"], env=env, stdout=subprocess.PIPE)
    if b"listens" not in server.stdout.readline():
        sys.exit("scry-link does not listen")
    ours, theirs = socket.socketpair()
    subprocess.run([f"{BUILD}/src/link/scry-link", "connect"], env=env, stdin=theirs, input=None, check=True, preexec_fn=lambda: ours.sendall(
        f"tls://127.0.0.1:{port}\n".encode()))
    theirs.close()
    return ours, server


def main():
    pairs, started = int(sys.argv[1]) if len(sys.argv) > 1 else 20, []
    place = tempfile.mkdtemp(prefix="scrybench", dir="/tmp")
    os.mkdir(f"{place}/run", 0o700)
    env = {**os.environ, "HOME": place, "XDG_CONFIG_HOME": f"{place}/config", "SCRY_RUNTIME_DIR": f"{place}/run"}
    server = None
    try:
        subprocess.run([f"{BUILD}/src/cli/scry-keys", "init"], env=env, check=True, stdout=subprocess.DEVNULL)
        started.append(serve(unix_listener(f"{place}/run/monitor.sock")))
        linked, server = link(place, env)
        ways = {"unix": unix(f"{place}/run/monitor.sock"), "tls": bare_tls(f"{place}/config/scry/keys/own.pem", started), "link": linked}
        for what, measure, unit, scale in (("round trip of 64 bytes", round_trip, "us", 1e6), ("throughput", throughput, "MB/s", 1e-6)):
            seen = {way: [] for way in ways}
            for sock in ways.values():
                measure(sock)
            for _ in range(pairs):
                for way, sock in ways.items():
                    seen[way].append(measure(sock))
            print(f"{what}: " + ", ".join(f"{way} {statistics.median(values) * scale:.0f} {unit}" for way, values in seen.items()))
            for peer in ("unix", "tls"):
                ratios = [a / b for a, b in zip(seen["link"], seen[peer])]
                low, high = interval(ratios)
                print(f"    link / {peer}: {statistics.median(ratios):.2f} [{low:.2f}, {high:.2f}]")
    finally:
        if server:
            server.terminate()
            server.wait()
        for pid in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        shutil.rmtree(place, ignore_errors=True)


main()
