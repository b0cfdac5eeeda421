#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A batch job as people submit it: a shell script, which runs a Python program, which calls a library in C, and after that a
# program with MPI.
#
#     scry run -- ./job.sh >job.out 2>job.err
#     scry watch @last                          while it runs: all of these on one time line
#
# With the name of a failure, something goes wrong in one of the layers, and `scry report` says what and where:
#
#     ./job.sh command | exception | segfault | deadlock | disk | proxy
#
# WORK is the directory for its files, RANKS the number of MPI processes, MPIRUN their launcher, PROGRAMS where stommel and
# mpi_deadlock are.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fail=${1:-}
work=${WORK:-$(mktemp -d)}
programs=${PROGRAMS:-$here/..}
launch=("${MPIRUN:-mpirun}" -n "${RANKS:-2}")

prepare() {
    printf 'points=200\nhot=100\nrounds=200\n' >"$work/input"
    if [ "$fail" = command ]; then
        sort "$work/no-such-input" >"$work/sorted"
    fi
}

steer() {
    python3 "$here/steer.py" "$work/input" "$work/rod" "$fail"
}

# Ranks that send to each other, and never receive.
ocean() {
    if [ "$fail" = deadlock ]; then
        "${launch[@]}" "$programs/mpi_deadlock"
    else
        "${launch[@]}" "$programs/stommel" 60 60 200 >"$work/ocean"
    fi
}

pack() {
    if [ "$fail" = disk ]; then
        dd if=/dev/zero of="$work/dump" bs=64K count=1024 status=none
    fi
    tar -C "$work" -czf "$work/results.tar.gz" rod ocean
}

# As a client of a grid's storage would.
store() {
    local proxy=${X509_USER_PROXY:-}
    if [ -n "$proxy" ] && ! openssl x509 -in "$proxy" -noout -checkend 0 >/dev/null; then
        echo "store: the certificate of $proxy has expired" >&2
        exit 3
    fi
}

prepare
steer
ocean
pack
store
echo "results are in $work"
