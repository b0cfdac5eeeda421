# SPDX-License-Identifier: Apache-2.0
# See ../suites.py. The parts that have to do with processes, threads, files, locks, signals, memory that is missing, and
# some about everything else.
build() {
    mkdir bld
    cd bld
    ../configure --disable-shared CFLAGS="-O1 $HOOKS"
    make testfixture
}

list() {
    printf '%s\n' alter backup busy crash2 exclusive expr func insert ioerr json101 lock lock2 lock4 mmap1 mmap2 \
        oserror pager1 printf rollback savepoint select1 shared symlink syscall tempdb thread001 thread1 \
        trigger1 unixexcl vacuum wal window1
}

at_once=2
run() {
    source=$PWD
    cd "$TMPDIR" && "$source/bld/testfixture" "$source/test/$1.test"
}
