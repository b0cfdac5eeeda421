# SPDX-License-Identifier: Apache-2.0
"""For tests that ask scry-view: a program that is kept, and its answers."""

import itertools
import json
import subprocess

import scrytest


class View:
    """scry-view of a job directory; a context manager."""

    def __init__(self, box, job, *more):
        self.ids = itertools.count(1)
        self.process = box.start([box.path("libexec", "scry-view"), job, *more], stdin=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.wait(60 * scrytest.SCALE)
        self.process.stdout.close()

    def answer(self, question, **members):
        """The whole answer."""
        number = next(self.ids)
        self.process.stdin.write(json.dumps({"id": number, "ask": question, **members}) + "\n")
        self.process.stdin.flush()
        line = json.loads(self.process.stdout.readline())
        assert line["id"] == number, line
        return line

    def ask(self, question, **members):
        line = self.answer(question, **members)
        assert "ok" in line, line
        return line["ok"]

    def refused(self, question, **members):
        """The kind of the error."""
        return self.answer(question, **members)["error"]["kind"]

    def picture(self):
        """When the traces have been read."""
        scrytest.wait_until(lambda: self.ask("picture")["complete"], 60, "the traces were not read")
        return self.ask("picture")

    def calls(self, lane, level, index):
        """Of a lane in a tile, by begin: (begin, end, function, depth); None: there are too many."""
        found, = self.ask("tiles", level=level, index=index, lanes=str(lane))["lanes"]
        flat = found["calls"]
        return None if "columns" in found else sorted(zip(flat[0::4], flat[1::4], flat[2::4], flat[3::4]))

    def all_calls(self, lane, level=0, index=0):
        """Of all tiles that are deep enough to say them one by one, each once. A tile cuts a call off at its end."""
        here = self.calls(lane, level, index)
        if here is not None:
            return here
        ends = {}
        for half in (2 * index, 2 * index + 1):
            for begin, end, function, depth in self.all_calls(lane, level + 1, half):
                ends[begin, depth, function] = max(end, ends.get((begin, depth, function), end))
        return [(begin, end, function, depth) for (begin, depth, function), end in ends.items()]

    def last_calls(self, level=0, index=0):
        """Of each lane of a tile the last call at each depth: {lane: {depth: (name, begin, end, open)}}. Columns say no single ones.
        The name is None if the job was opened anew meanwhile."""
        lanes = self.ask("tiles", level=level, index=index)["lanes"]
        names = dict(enumerate(function["name"] for function in self.ask("picture")["functions"]))
        return {lane["lane"]: {depth: (names.get(function), begin, end, depth in lane.get("open", [])) for begin, end, function, depth in
                               zip(*(lane["calls"][i::4] for i in range(4)))} for lane in lanes if "columns" not in lane}


def key(function):
    return function["name"], function["file"], function["line"]
