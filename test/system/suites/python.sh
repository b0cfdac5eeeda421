# SPDX-License-Identifier: Apache-2.0
# See ../suites.py. The parts that have to do with processes, threads, signals, descriptors and waiting.
# Without the interpreter itself, which calls ten million functions before a program of Python begins.
build() {
    HOOKS="$HOOKS -finstrument-functions-exclude-file-list=Include/,Objects/,Parser/,Python/,gcmodule.c,_sre"
    mkdir bld
    cd bld
    ../configure --without-ensurepip --without-static-libpython CFLAGS="$HOOKS" OPT='-O1 -DNDEBUG'
    make
}

list() {
    printf '%s\n' test_fork1 test_popen test_pty test_select test_signal.PosixTests test_signal.WakeupFDTests \
        test_signal.WakeupSignalTests test_signal.WakeupSocketSignalTests test_signal.ItimerTest \
        test_signal.PendingSignalsTests test_signal.StressTest test_signal.RaiseSignalTest \
        test_signal.PidfdSignalTest test_subprocess.ProcessTestCase test_subprocess.POSIXProcessTestCase \
        test_subprocess.RunFuncTestCase test_subprocess.ContextManagerTests test_thread \
        test_threading.ThreadTests test_threading.ThreadJoinOnShutdown test_threading.TimerTests \
        test_threadsignals test_wait3 test_wait4 test_faulthandler test_os.SpawnTests test_os.ExecTests \
        test_os.ForkTests test_posix.PosixTester test_posix.TestPosixSpawn test_mmap test_resource \
        test_asyncio.test_unix_events
}

at_once=4 # many sleep
run() {
    source=$PWD
    cd "$TMPDIR" && "$source/bld/python" "$RECIPES/outcomes.py" "test.$1" 2>/dev/null
}
