# SPDX-License-Identifier: Apache-2.0
#
# suite.sh NAME build|list|run [TEST...]: what suites.py does with the suite NAME, whose functions are in NAME.sh. The
# current directory is that of its source. `run` leaves in $OUT a file for each test: what it said, and its status. A test
# has a $TMPDIR of its own.
RECIPES=$(cd "$(dirname "$0")" && pwd)
name=$1
what=$2
shift 2
at_once=1       # so many tests run beside each other
before() { :; } # what is to be done once for all tests that are then run
. "$RECIPES/$name.sh"
case $what in
build) set -e && build ;;
list) list ;;
run)
    before "$@" >/dev/null 2>&1 </dev/null
    printf '%s\n' "$@" | xargs -n 1 -P $at_once sh "$RECIPES/suite.sh" "$name" one
    ;;
one)
    export TMPDIR="$TMPDIR/$1"
    mkdir "$TMPDIR"
    (run "$1") >"$OUT/$1" 2>&1 </dev/null
    echo "status $?" >>"$OUT/$1"
    rm -rf "$TMPDIR"
    ;;
esac
