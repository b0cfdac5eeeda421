# SPDX-License-Identifier: Apache-2.0
# See ../test_suites.py: tests of the interpreter $PYTHON itself, which are in test/. Those of what it offers to tracers,
# profilers and debuggers, of frames, generators, threads, exceptions, of what lives how long. Not run: test_monitoring,
# which wants that there is no tool but its own; in 3.13.0 test_pdb, for pdb.set_trace() stops one line later there
# beside any tool of sys.monitoring.
list() {
    version=$("$PYTHON" -c 'import platform; print(platform.python_version())')
    for each in test_subprocess test_threading test_asyncgen test_atexit test_audit test_bdb test_call \
        test_code test_contextlib test_coroutines test_cprofile test_dis test_except_star test_exception_group \
        test_exceptions test_frame test_gc test_generators test_inspect test_opcache test_pdb test_profile \
        test_raise test_repl test_scope test_sys test_sys_setprofile test_sys_settrace test_threading_local \
        test_trace test_traceback test_weakref test_with test_yield_from; do
        [ "$version $each" != "3.13.0 test_pdb" ] || continue
        [ ! -e "test/$each.py" ] && [ ! -d "test/$each" ] || echo $each
    done
}

at_once=4 # many sleep
run() {
    source=$PWD
    cd "$TMPDIR" && "$PYTHON" "$source/outcomes.py" "test.$1" 2>/dev/null
}
