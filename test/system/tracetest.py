# SPDX-License-Identifier: Apache-2.0
"""What the tests of `scry run --trace` share."""

from jobtest import JobCase, calls_said, target


class TraceCase(JobCase):
    def traced(self, *arguments, options=(), **keywords):
        """Runs the traced program; what it did, and what scry counted of that."""
        done = self.scry_run(*options, "--", target(), *arguments, **keywords)
        return done, calls_said(done.stdout)
