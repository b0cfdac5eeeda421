# SPDX-License-Identifier: Apache-2.0
"""Runs unittest's cases and prints TAP: a line a case, as it ends. A case that hangs is ended, with a traceback of where
it waits; SCRY_TEST_ONLY says which are to run again (tools/run-tests)."""

import os
import signal
import sys
import traceback
import unittest

# After which a case is taken for hanging; `case_seconds` of its class, where ranks that spin take turns.
CASE_SECONDS = 120
# No test gives up waiting for what is to come before so many seconds: a machine where all is slow is no fault. What must be
# quick is said as such, by an assertion of its own (scrytest.room).
TIMEOUT = 40
# Sanitized builds are slower; ./check --sanitize stretches all limits on waiting.
SCALE = float(os.environ.get("SCRY_TEST_SCALE") or 1)


class Hangs(Exception):
    """A case is not over in CASE_SECONDS: raised where it waits, so that its traceback says what for."""


def _too_long(_sig, _frame):
    raise Hangs("the case is not over: see CASE_SECONDS")


scale = 1.0  # of all limits


def _seconds(test):
    return getattr(test, "case_seconds", CASE_SECONDS) * scale


def _name(test):
    return test.id().replace("__main__.", "").replace("#", "_")


class _Tap(unittest.TestResult):
    """Prints `ok N - name`, skips with their reason, failures with their traceback as comments; ends a case that hangs."""

    def __init__(self):
        super().__init__()
        self.count = 0
        self.subtest_failed = False

    def _line(self, test, ok, note=""):
        self.count += 1
        print(f"{'ok' if ok else 'not ok'} {self.count} - {_name(test)}{note}", flush=True)

    def _comment(self, error):
        for line in "".join(traceback.format_exception(*error)).splitlines():
            print(f"# {line}", flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.subtest_failed = False
        # Again and again: what cleans up behind the case may hang, too.
        signal.setitimer(signal.ITIMER_REAL, _seconds(test), _seconds(test) / 4)

    def stopTest(self, test):
        signal.setitimer(signal.ITIMER_REAL, 0)
        super().stopTest(test)

    def addSuccess(self, test):
        super().addSuccess(test)
        self._line(test, True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._line(test, False)
        self._comment(err)

    def addError(self, test, err):
        super().addError(test, err)
        self._line(test, False)
        self._comment(err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._line(test, True, " # SKIP " + " ".join(reason.split()))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._line(subtest, False)
            self._comment(err)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self._line(test, True)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._line(test, False)


def _cases(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _cases(test)
        else:
            yield test


def _is_thorough(test):
    return any(getattr(each, "thorough", False) for each in (type(test), getattr(test, getattr(test, "_testMethodName", ""), None)))


def _suite(every, words, thorough):
    """What is to run of all cases. In a run that repeats what failed: SCRY_TEST_ONLY has what was printed of each on a line of its
    own, a subtest's name behind that of its case. Else what a person asks for, by parts of names. Else all, without those for
    thorough runs unless this is one."""
    only = os.environ.get("SCRY_TEST_ONLY", "").splitlines()
    if again := [test for test in every if any(f"{line} ".startswith(f"{_name(test)} ") for line in only)]:
        return again
    if words:
        found = [test for test in every if any(word in _name(test) for word in words)]
        return found or sys.exit(f"no case is named like {' or '.join(words)}; there are {', '.join(map(_name, every))}")
    return [test for test in every if thorough or not _is_thorough(test)]


def run(module, limits_scale, when_ended, thorough):
    """Runs a module's tests, or those that an argument is a part of whose name, prints TAP, and exits. `limits_scale` stretches the limits of
    the cases; `when_ended` is called if SIGTERM ends the run; `thorough`: those marked so (scrytest.thorough), too."""
    global scale
    scale = limits_scale
    loader = unittest.TestLoader()
    names = [name for name in sys.argv[1:] if not name.startswith("-")]
    suite = unittest.TestSuite(_suite(list(_cases(loader.loadTestsFromModule(module))), names, thorough))
    result = _Tap()
    signal.signal(signal.SIGTERM, when_ended)
    signal.signal(signal.SIGALRM, _too_long)
    print("TAP version 13", flush=True)
    suite.run(result)
    print(f"1..{result.count}", flush=True)
    sys.exit(0 if result.wasSuccessful() and result.count else 1)
