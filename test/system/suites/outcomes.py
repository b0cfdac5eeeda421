# SPDX-License-Identifier: Apache-2.0
"""outcomes.py NAME: runs tests of CPython, and prints each with its outcome; what they themselves print is no part of it."""

import os
import sys
import unittest

OUT = os.fdopen(os.dup(1), "w")
os.set_inheritable(OUT.fileno(), False)
os.dup2(2, 1)


class Outcomes(unittest.TextTestResult):
    def note(self, test, what):
        print(test.id(), what, file=OUT, flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "ok")

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, f"error {err[1]!r}")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, f"failed {err[1]!r}")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, f"skipped {reason}")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.note(subtest, f"failed {err[1]!r}")


if __name__ == "__main__":
    unittest.TextTestRunner(verbosity=0, resultclass=Outcomes).run(unittest.defaultTestLoader.loadTestsFromName(sys.argv[1]))
