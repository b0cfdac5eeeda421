# SPDX-License-Identifier: Apache-2.0
# See ../suites.py. Some of the tests run sed under memcheck, if valgrind is there.
build() {
    ./configure --disable-dependency-tracking CFLAGS="-O1 $HOOKS"
    make
    make check SUBDIRS=. TESTS=
}

list() {
    make -s --eval='names: ; @printf "%s\n" $(TESTS)' names | sed 's|^testsuite/||'
}

before() {
    for test; do
        rm -f "testsuite/${test%.sh}.log" "testsuite/${test%.sh}.trs"
        set -- "$@" "testsuite/$test"
        shift
    done
    make -k check-TESTS SUBDIRS=. TESTS="$*"
}

run() {
    cat "testsuite/${1%.sh}.log" "testsuite/${1%.sh}.trs"
}
