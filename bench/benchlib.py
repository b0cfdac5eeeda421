# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks share."""

import math
import os
import signal

BUILD = os.environ.get("SCRY_BUILD") or os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build")


def stop_monitor(runtime):
    try:
        with open(f"{runtime}/monitor.pid", encoding="ascii") as file:
            os.kill(int(file.read()), signal.SIGTERM)
    except (OSError, ValueError):
        pass  # it ended by itself


def interval(values):
    """The 95 % interval of the median."""
    values = sorted(values)
    reach = 1.96 * math.sqrt(len(values)) / 2
    low = max(0, math.floor(len(values) / 2 - reach))
    high = min(len(values) - 1, math.ceil(len(values) / 2 + reach) - 1)
    return values[low], values[high]
