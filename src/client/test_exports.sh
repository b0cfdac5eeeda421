#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# libomis.so exports the procedures that its headers declare and nothing else: LIBRARY HEADER...
set -eu
library=$1
shift
expected=$(sed -n '/^[A-Za-z].*(/s/^.*[ *]\(omis_[a-z_]*\)(.*/\1/p' "$@" | LC_ALL=C sort | tr '\n' ' ')
found=$(nm --dynamic --defined-only --format=posix "$library" | cut -d' ' -f1 | LC_ALL=C sort | tr '\n' ' ')
if [ "$found" != "$expected" ]; then
    echo "$library exports: $found" >&2
    echo "its headers have: $expected" >&2
    exit 1
fi
