# SPDX-License-Identifier: Apache-2.0
"""The caller's local variables are those of the function that really made the call, and are said to be its: also when it
was not compiled with hooks, or was inlined, and so is not itself in the trace."""

import json
import re

import scrytest
from ctracertest import TracerCase


class Callers(TracerCase):
    def check(self, compiler, *options):
        program = self.compile("callers.c", *options, compiler=compiler)
        done = self.scry_run("-q", "--args", "--locals", "--", program)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        said = []
        for line in done.stdout.splitlines():
            called, caller, *values = line.split()
            said.append((called, caller, dict(value.split("=") for value in values)))
        calls = [call for call in self.replayed(numbers_as_text=True) if call["function"] != "main"]
        calls.sort(key=lambda call: float(call["start_seconds"]))
        self.assertEqual(len(calls), len(said))
        for (called, caller, values), call in zip(said, calls):
            self.assertEqual(call["function"], called)
            self.assertEqual(call["caller_locals_of"], caller)
            shown = {name: value for name, value in call["caller_locals"].items() if name in values}
            self.assertEqual(shown, values, call)
        # those that are not recorded are in the tree only as what made a call
        self.assertEqual({call["caller"] for call in calls}, {"main", "middle", "around", "wrapped",
                                                                 "enclosed"})
        tree = self.scry("replay", "@last").stdout
        self.assertEqual(re.findall(r" in (\w+) \{", tree), [caller for _, caller, _ in said], tree)
        out = self.box.path("work", "trace.json")
        self.scry("export", "--format", "chrome", "-o", out, "@last")
        with open(out, encoding="utf-8") as file:
            begins = [event["args"] for event in json.load(file)["traceEvents"] if event["ph"] == "B"]
        self.assertEqual([args["caller"] for args in begins if "caller" in args], [caller for _, caller, _ in said])

    MANY = """#include <signal.h>
              #include <stdlib.h>
              #include <sys/time.h>
              #define QUIET __attribute__((no_instrument_function))
              static volatile int sink;
              __attribute__((noinline)) static int hot(const char *text) { return *text; }
              __attribute__((noinline)) static int tick(int number) { return number + 1; }
              QUIET static void on_alarm(int signal) { volatile int mark = 7; sink = tick(mark); }
              QUIET int main(int argc, char **argv)
              {
                  static const char text[] = "the quick brown fox jumps over the lazy dog";
                  const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
                  signal(SIGALRM, on_alarm);
                  setitimer(ITIMER_REAL, &often, NULL);
                  for (int i = 0, count = atoi(argv[1]); i < count; i++) {
                      const char *rest = text + i * 7 % 41;
                      sink = hot(rest);
                  }
                  setitimer(ITIMER_REAL, &never, NULL);
                  return 0;
              }"""

    @scrytest.thorough
    def test_each_of_many(self):
        """They are in the packet of their call, however little is left in one, and handlers of signals come not between:
        none is missing, and each is its own call's."""
        source = self.box.path("work", "many.c")
        with open(source, "w", encoding="ascii") as file:
            file.write(self.MANY)
        program = self.compile(source, "-O0")
        done = self.scry_run("-q", "--args", "--locals", "--trace", "fn:hot fn:tick", "--", program, 20000)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        calls = [call for call in self.replayed() if call["event"] == "call"]
        hot = [call for call in calls if call["function"] == "hot"]
        self.assertEqual(len(hot), 20000)
        for number, call in enumerate(hot):
            self.assertEqual(call.get("caller_locals_of"), "main", (number, call))
            self.assertEqual(call["caller_locals"]["rest"], call["args"]["text"], (number, call))
        others = {call.get("caller_locals_of") for call in calls if call["function"] == "tick"}
        self.assertLessEqual(others, {"on_alarm", None})

    def test_gcc_O0(self):
        self.check("gcc", "-O0")

    def test_gcc_O2(self):
        self.check("gcc", "-O2")

    def test_clang_O0(self):
        self.check("clang", "-O0")

    def test_clang_O2(self):
        self.check("clang", "-O2")

    def test_gxx(self):
        self.check("g++", "-O0", "-xc++")

    def test_clangxx(self):
        self.check("clang++", "-O2", "-xc++")


scrytest.main()
