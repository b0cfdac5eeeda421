# SPDX-License-Identifier: Apache-2.0
"""For Python programs that tell scry about themselves. Copy this file to your own, or put its directory into PYTHONPATH: it needs
nothing, and without scry it does nothing.

    import scry
    scry.metric("loss", 0.12)     a number of the job, as `scry run --metric` follows those that are printed
"""
import ctypes
import struct

try:
    _say = ctypes.PyDLL(None).scry_metric_bits  # of the library that scry has loaded into the program
    _say.argtypes, _say.restype = (ctypes.c_char_p, ctypes.c_uint64), None
except (AttributeError, OSError, TypeError):
    _say = None


def metric(name, value):
    """Of each name the job has the last value about once a second, with the least and the greatest since, and how many they were. It
    takes about a microsecond, and never waits. What is infinite, or no number, is told as undefined."""
    if not _say:
        return
    try:
        _say(name.encode(), struct.unpack("=Q", struct.pack("=d", value))[0])
    except Exception:  # no program fails under scry that does not fail without
        pass
