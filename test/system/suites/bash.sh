# SPDX-License-Identifier: Apache-2.0
# See ../suites.py. Not run: run-ifs-posix, which is 7000 times the same fork; run-posixpipe, which expects programs to take
# less than 5 ms.
build() {
    ./configure --without-bash-malloc --disable-nls CFLAGS="-O1 $HOOKS"
    make bash recho zecho printenv xcase
    cp recho zecho printenv xcase tests
}

list() {
    echo run-jobs
    (cd tests && ls run-*) | grep -v -e '-all$' -e '-minimal$' -e '-gprof$' -e run-ifs-posix -e run-posixpipe -e run-jobs
}

at_once=3 # many sleep

# What a test said stays in $BASH_TSTOUT if it is not what was expected.
run() {
    export THIS_SH=$PWD/bash BUILD_DIR=$PWD BASH_TSTOUT=$TMPDIR/said
    cd tests || exit
    PATH=.:$PATH sh "./$1" >/dev/null 2>&1
    set -- $? "$1"
    [ ! -f "$BASH_TSTOUT" ] || cat "$BASH_TSTOUT"
    return "$1"
}
