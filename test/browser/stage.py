# SPDX-License-Identifier: Apache-2.0
"""Holds a sandbox of the system tests for the tests of pages, which are JavaScript: prints its environment as a line of JSON, and
takes it down when standard input ends."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import scrytest  # noqa: E402

with scrytest.Sandbox() as box:
    print(json.dumps({"root": box.root, "work": box.path("work"), "env": box.env}), flush=True)
    sys.stdin.read()
