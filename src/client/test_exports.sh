#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# libomis.so exports the six procedures of <omis.h> and nothing else.
set -eu
expected="omis_fd omis_finalize omis_handler omis_init omis_reply_free omis_request"
found=$(nm --dynamic --defined-only --format=posix "$1" | cut -d' ' -f1 | LC_ALL=C sort | tr '\n' ' ')
if [ "$found" != "$expected " ]; then
    echo "$1 exports: $found" >&2
    echo "expected: $expected" >&2
    exit 1
fi
