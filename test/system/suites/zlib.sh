# SPDX-License-Identifier: Apache-2.0
# See ../suites.py.
build() {
    CFLAGS="-O1 $HOOKS" ./configure
    make all
}

list() {
    printf '%s\n' example examplesh example64 minigzip minigzipsh minigzip64
}

# Each program packs, in memory or through a pipe; what it packs into is looked at, too.
run() {
    case $1 in
    example*) LD_LIBRARY_PATH=. "./$1" "$TMPDIR/packed" && cksum <"$TMPDIR/packed" ;;
    minigzip*)
        echo hello world | LD_LIBRARY_PATH=. "./$1" | LD_LIBRARY_PATH=. "./$1" -d
        for level in 1 6 9; do
            cat ./*.c | LD_LIBRARY_PATH=. "./$1" -$level | tee "$TMPDIR/packed" | cksum
            LD_LIBRARY_PATH=. "./$1" -d <"$TMPDIR/packed" | cksum
        done
        ;;
    esac
}
