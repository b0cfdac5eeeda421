#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_values_random.py COMPILE HOOKS HELPER: values captured by scry in random programs whose values are known.

What is shown must be right; what is not is said to be optimised out or not available, and counted. Where gdb shows a
wrong value, too, the compiler's debug information is wrong, and that is counted. Compilers and optimisations are
mixed; SCRY_TEST_THOROUGH=1 builds 96 programs instead of a few. SCRY_TEST_SEED=N is the first.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

import random_values
import test_values

LEVELS = ("-O0", "-O1", "-O2", "-O3")
# by its own way through the compilers' matrix, each at least once
FEW = (("gcc", "-O2"), ("clang", "-O1"), ("g++", "-O0"), ("clang", "-O2"), ("clang++", "-O3"), ("gcc", "-O0"))
# seeds that something was wrong with
KNOWN = (("gcc", "-O2", 1011),)  # arguments are pushed, so rsp moves between a slot's use and the call
THOROUGH_ROUNDS = 6
FLAGS = {"clang++": ["-finstrument-functions", "-std=c++17"], "g++": ["-finstrument-functions", "-std=c++17"]}
MISSING = r"<optimised out>|<not available>"
RESULT = " = "


def matches(text, values):
    """Whether what is shown is one of the values; each part of it may be missing."""
    for value in values:
        parts = re.split(r"(= [^,}]+)", value) if value.startswith("{") else ["", value]
        pattern = "".join("= (?:%s|%s)" % (re.escape(one[2:]), MISSING) if one.startswith("= ") else re.escape(one)
                          for one in parts)
        if re.fullmatch(pattern, text):
            return True
    return text in MISSING.split("|")


def ask_gdb(program, kind, hook_number, name):
    """What gdb says that a variable is at the n-th hook (^: of the caller); as scry writes it. Both hooks are one."""
    commands = ["set breakpoint pending on", "set style enabled off", "break __cyg_profile_func_enter",
                "ignore 1 %d" % hook_number, "run"]
    commands += ["finish", "frame function " + name.partition("_")[2]] if kind == "$" else ["up %d" % (1 + (kind == "^"))]
    commands.append("output " + name)
    run = subprocess.run(["gdb", "-nx", "-batch"] + [word for one in commands for word in ("-ex", one)] + [program],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=False)
    lines = run.stdout.decode(errors="replace").splitlines()
    return re.sub(r" '.*?'(?=[,}]|$)", "", lines[-1]).replace("optimized", "optimised") if lines else ""


def shape(text):
    """What of a value is there: garbage is not the same twice."""
    return re.sub(r"(?<= )[^{}<=,]+(?=[,}])|^[^{<]+$", "#", text)


def agrees(lie, text):
    """Whether gdb shows what was captured, but for what is missing there."""
    pattern = re.escape(shape(re.sub(MISSING, "<>", text))).replace("<>", "[^,}]+")
    return re.fullmatch(pattern, shape(lie)) is not None


class Count:
    def __init__(self, program):
        self.program = program
        self.hooks = 0
        self.lies = 0
        self.shown = dict.fromkeys(">^<=$", 0)
        self.missing = dict.fromkeys(">^<=$", 0)
        self.inlined = 0
        self.wrong = []

    def value(self, kind, where, text, values):
        if kind == "=" and text == "<optimised out>":
            self.inlined += 1
        elif text is None or any(word in text for word in MISSING.split("|")):
            self.missing[kind] += 1
        else:
            self.shown[kind] += 1
        if text is None or matches(text, values):
            return
        lie = kind in "<^$>" and shutil.which("gdb") and \
            ask_gdb(self.program, kind, self.hooks, where.rpartition(" ")[2])
        if lie and not matches(lie, values) and agrees(lie, text):
            self.lies += 1
        else:
            self.wrong.append("%s is %s, captured %s, gdb says %s" %
                              (where, " or ".join(sorted(values)) or "not set", text, lie or "nothing"))

    def event(self, event, line):
        kind, function, values, result = event
        captured = {}
        for one in test_values.parse(("> x(%s)" % line[2:]) if kind == "^" else line)[2]:
            name, _, text = one.partition(" = ")
            captured[name] = text
        for name, known in values.items():
            self.value(kind, "%s %s: %s" % (kind, function, name), captured.get(name), known)
        if result is not None:
            self.value("=", "result of %s" % function, captured.get(""), {result})

    def share(self, kind):
        total = self.shown[kind] + self.missing[kind]
        return "%d/%d" % (self.shown[kind], total)


def compare(program, lines, events):
    count = Count(program)
    at = 0
    caller = name = None
    frames = {}
    for line in lines:
        if line[:2] == "$ ":
            variable, _, text = line[2:].partition(" = ")
            frames[variable] = text
            continue
        if line[:2] == "@ ":
            name = line[2:].partition("(")[0]
        if line[:2] == "^ ":
            caller = line
            continue
        if line[:2] not in ("> ", "< "):
            continue
        if at < len(events) and events[at][0] == "^":
            if caller and name != events[at][1]:
                count.wrong.append("%s is called by %s, captured %s" % (line, events[at][1], name))
            elif caller:
                count.event(events[at], caller)
            at += 1
        if at < len(events) and events[at][0] == "$":
            for variable, text in frames.items():
                if variable in events[at][2]:
                    count.value("$", "$ in %s: %s" % (events[at][1], variable), text, events[at][2][variable])
            frames = {}
            at += 1
        caller = None
        name = test_values.parse(line)[1]
        if at >= len(events) or events[at][0] != line[0] or name not in (events[at][1], "?"):
            count.wrong.append("captured %r instead of %r: out of step" % (line, events[at:at + 1]))
            return count
        count.event(events[at], line)
        count.hooks += 1
        at += 1
    if at != len(events):
        count.wrong.append("%d of %d events" % (at, len(events)))
    return count


def build_and_compare(compile_tool, hooks, helper, compiler, level, seed):
    source, events = random_values.program(seed, "++" in compiler)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "program." + ("cc" if "++" in compiler else "c"))
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        program = path + ".bin"
        flags = FLAGS.get(compiler, ["-finstrument-functions", "-std=gnu17"])
        subprocess.run([compiler, "-g", "-w", level] + flags + [path, "-o", program], check=True)
        lines, _ = test_values.capture(compile_tool, hooks, program, VALUES_CALLER="1", VALUES_HELPER=helper)
        return compare(program, lines, events)


def builds():
    if os.environ.get("SCRY_TEST_THOROUGH") != "1":
        return [one for one in FEW if shutil.which(one[0])]
    return [(compiler, level) for _ in range(THOROUGH_ROUNDS) for level in LEVELS
            for compiler in ("gcc", "clang", "g++", "clang++") if shutil.which(compiler)]


def main():
    compile_tool, hooks, helper = sys.argv[1:4]
    first = int(os.environ.get("SCRY_TEST_SEED", "1"))
    todo = [(compiler, level, first + at) for at, (compiler, level) in enumerate(builds())]
    todo += [one for one in KNOWN if shutil.which(one[0])]
    print("1..%d" % len(todo))
    failed = False
    for number, (compiler, level, seed) in enumerate(todo, 1):
        count = build_and_compare(compile_tool, hooks, helper, compiler, level, seed)
        for text in count.wrong[:20]:
            print("# " + text)
        print("%s %d - seed %d, %s %s: shown %s arguments, %s of callers, %s locals, %s results (%d inlined), %s in frames%s" %
              ("not ok" if count.wrong else "ok", number, seed, compiler, level, count.share(">"), count.share("^"),
               count.share("<"), count.share("="), count.inlined, count.share("$"),
               "; %d wrong in the debug information" % count.lies if count.lies else ""), flush=True)
        failed |= bool(count.wrong)
    return failed


if __name__ == "__main__":
    sys.exit(main())
