# SPDX-License-Identifier: Apache-2.0
"""Libraries that a traced program opens and closes."""

import json

import scrytest
from ctracertest import TracerCase


class Reused(TracerCase):
    """Libraries that come to lie where another one was: what is called there is never named after the other."""

    COUNT, ROUNDS = 4, 80
    PLUGIN = """static int marked;
        %(begins)s static void mark%(number)d(void) { marked = %(number)d; }
        long plugin%(number)d(%(parameters)s) { mark%(number)d(); return marked; }
        """
    PARAMETERS = ("int n, const char *text", "double a, double b", "const char *text, long n", "struct { int a, b; } *p")
    PROGRAM = """#include <dlfcn.h>
        #include <pthread.h>
        #include <stdio.h>
        #include <stdlib.h>
        static void *work(void *first)
        {
            for (long i = (long)first; i < (long)first + ROUNDS; i++) {
                char path[32], name[32];
                snprintf(path, sizeof path, "./plugin%ld.so", i % KINDS);
                snprintf(name, sizeof name, "plugin%ld", i % KINDS);
                void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
                void *function = library ? dlsym(library, name) : NULL;
                if (!function)
                    exit(1);
                if (i % KINDS == 0)
                    ((long (*)(int, const char *))function)((int)i, "ab");
                else if (i % KINDS == 1)
                    ((long (*)(double, double))function)((double)i, 2);
                else if (i % KINDS == 2)
                    ((long (*)(const char *, long))function)("ab", i);
                else
                    ((long (*)(void *))function)(NULL);
                dlclose(library);
            }
            return NULL;
        }
        int main(int argc, char **argv)
        {
            pthread_t threads[8];
            int count = atoi(argv[1]);
            for (long i = 0; i < count; i++)
                pthread_create(&threads[i], NULL, work, (void *)i);
            for (int i = 0; i < count; i++)
                pthread_join(threads[i], NULL);
            return 0;
        }
        """

    def make(self, begins="", kinds=COUNT):
        """With plugins whose code differs in nothing but their names; `begins`: of a function of theirs."""
        sources = {"program": (self.PROGRAM, [f"-DROUNDS={self.ROUNDS}", f"-DKINDS={kinds}"])}
        for number in range(self.COUNT):
            text = self.PLUGIN % {"number": number, "begins": begins, "parameters": self.PARAMETERS[number]}
            sources[f"plugin{number}.so"] = (text, ["-shared", "-fPIC", "-w"])
        for name, (text, options) in sources.items():
            with open(self.box.path("work", "part.c"), "w", encoding="utf-8") as out:
                out.write(text)
            done = self.box.run(["gcc", "-g", "-finstrument-functions", *options, "part.c", "-o", name, "-pthread"])
            self.assertEqual(done.returncode, 0, done.stderr)

    def run_program(self, threads, *options, trace="all"):
        done = self.scry_run("--trace", trace, *options, "--", "./program", threads)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.box.run(self.box.scry("replay", "--json", "@last"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return [call for call in map(json.loads, done.stdout.splitlines()) if call.get("event") != "gap"]

    def of_each(self, calls, name):
        return [sum(call.get("function") == f"{name}{number}" for call in calls) for number in range(self.COUNT)]

    @scrytest.thorough
    def test_one_after_the_other(self):
        self.make()
        for options in ([], ["--args"]):
            with self.subTest(options=options):
                calls = self.run_program(1, *options)
                self.assertEqual(self.of_each(calls, "plugin"), [self.ROUNDS // self.COUNT] * self.COUNT)
                self.assertEqual(self.of_each(calls, "mark"), [self.ROUNDS // self.COUNT] * self.COUNT)
        values = [call["args"] for call in calls if call["function"].startswith("plugin")]
        self.assertEqual([list(each) for each in values[:4]], [["n", "text"], ["a", "b"], ["text", "n"], ["p"]])
        self.assertEqual([each["n"] for each in values if "n" in each], list(range(0, self.ROUNDS, 2)))

        for call in calls:  # where they come from, too: from nowhere rather than from another one
            if call["function"].startswith("mark"):
                self.assertIn(call.get("from_function"), ("", call["function"].replace("mark", "plugin")))

    def test_rules(self):
        """A rule on a function that comes with a library fires from its first call on, and is not said to be in vain."""
        self.make()
        for name, count in (("plugin1", 20), ("mark*", 80), ("nobody", 0)):
            done = self.scry_run("--rule", f'ct_function_called([], "{name}") : print([1])', "--", "./program", 1)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, rf"print\(\[1\]\) +fired {count} x")
            self.assertEqual("no function of the programs" in done.stderr, count == 0, done.stderr)

    def test_their_constructors(self):
        """They run before dlopen returns."""
        self.make("__attribute__((constructor))")
        calls = self.run_program(1)
        self.assertEqual(self.of_each(calls, "plugin"), [self.ROUNDS // self.COUNT] * self.COUNT)
        self.assertEqual(self.of_each(calls, "mark"), [2 * self.ROUNDS // self.COUNT] * self.COUNT)
        following = None
        for call in reversed(calls):  # by their ends: a constructor comes before what is called in its library
            name, caller = call["function"], call.get("caller") or ""
            if name.startswith("plugin"):
                following = name
            elif caller.startswith("plugin"):
                self.assertEqual(name, caller.replace("plugin", "mark"))
            elif name.startswith("mark"):
                self.assertEqual(name.replace("mark", "plugin"), following)

    @scrytest.thorough
    def test_constructors_of_one_that_comes_again(self):
        """More often than there is room for. With a selection by name, those of the first time are not known."""
        self.make("__attribute__((constructor))", kinds=1)
        for trace in ("all", "fn:mark*"):
            with self.subTest(trace=trace):
                marks = self.of_each(self.run_program(1, trace=trace), "mark")[0]
                self.assertEqual(marks, 2 * self.ROUNDS - (trace != "all"))
                said = self.scry("report", "@last").stdout
                self.assertEqual("may be missing: the constructors" in " ".join(said.split()), trace != "all", said)

    @scrytest.thorough
    def test_in_threads(self):
        """Some may be without a name, none has another one's."""
        self.make()
        calls = self.run_program(4, "--args")
        counts, marks = self.of_each(calls, "plugin"), self.of_each(calls, "mark")
        for call in calls:
            if call["function"].startswith("mark"):
                self.assertIn(call.get("from_function"), ("", call["function"].replace("mark", "plugin")))
        nameless = [call for call in calls if "(library closed)" in call["function"]]
        self.assertEqual(sum(counts) + sum(marks) + len(nameless), 8 * self.ROUNDS)
        self.assertLessEqual(max(counts + marks), self.ROUNDS)
        self.assertGreater(sum(counts), self.ROUNDS)


class Rebuilt(TracerCase):
    """A library is rebuilt while the program has it open. Only root can still find the file that is mapped."""

    user = scrytest.Sandbox.ordinary_user()
    PROGRAM = """#include <dlfcn.h>
        #include <stdio.h>
        int main(void)
        {
            void *first = dlopen("./first.so", RTLD_NOW);
            int (*one)(int) = (int (*)(int))dlsym(first, "one"), (*two)(int) = (int (*)(int))dlsym(first, "two");
            one(1);
            void *second = rename("new.so", "first.so") == 0 ? dlopen("./second.so", RTLD_NOW) : NULL;
            if (!second || !dlsym(second, "more"))
                return 1;
            one(2);
            two(3);
            return 0;
        }
        """

    def build(self, name, text, *options):
        with open(self.box.path("work", "part.c"), "w", encoding="utf-8") as out:
            out.write(text)
        done = self.box.run(["gcc", "-g", "-Wl,--build-id", *options, "part.c", "-o", name])
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_its_names_stay(self):
        library = ["-finstrument-functions", "-shared", "-fPIC"]
        self.build("program", self.PROGRAM)
        self.build("first.so", "int one(int n) { return n; } int two(int n) { return n; }", *library)
        self.build("new.so", "int other(int m) { return m; } int one(int m) { return m + 1; }", *library)
        self.build("second.so", "int more(void) { return 0; }", *library)
        done = self.scry_run("--trace", "all !lib:program", "--args", "--", "./program")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.box.run(self.box.scry("replay", "--json", "@last"))
        self.assertEqual([(call["function"], call["args"]) for call in map(json.loads, done.stdout.splitlines())],
                         [("one", {"n": 1}), ("one", {"n": 2}), ("two", {"n": 3})], done.stderr)


class Linked(TracerCase):
    """Constructors of libraries that a program is linked with: the agent starts before them, but behind a library that is
    to be the very first itself (-z initfirst)."""

    LIBRARY = """int twice(int n) { return 2 * n; }
        %s static void begin(void) { volatile int sum = 0; for (int i = 0; i < 5; i++) sum += twice(i); }
        %s void also(void) { }
        """
    NOTE = "calls may be missing: the constructors of 1 library ran before recording could begin"

    def warnings(self, *marks, options=()):
        for name, text, how in (
                ("libearly.so", self.LIBRARY % marks, ["-finstrument-functions", "-w", "-shared", "-fPIC", *options]),
                ("early", "int twice(int); int main(void) { return twice(0); }",
                 ["-finstrument-functions", "-L.", "-learly", "-Wl,-rpath,$ORIGIN"])):
            with open(self.box.path("work", "part.c"), "w", encoding="utf-8") as out:
                out.write(text)
            done = self.box.run(["gcc", "-g", "part.c", "-o", name, *how])
            self.assertEqual(done.returncode, 0, done.stderr)
        done = self.scry_run("--trace", "all", "--", "./early")
        self.assertEqual(done.returncode, 0, done.stderr)
        return [each["text"] for each in self.report()["warnings"]]

    def counts(self):
        return {row["name"]: row["calls"] for row in self.report()["functions"]}

    def test_their_constructors_are_recorded(self):
        for binding in ("lazy", "now"):
            self.assertEqual(self.warnings("__attribute__((constructor))", "__attribute__((constructor))",
                                           options=[f"-Wl,-z,{binding}"]), [])
            self.assertEqual(self.counts(), {"begin": 1, "also": 1, "twice": 6, "main": 1})

    def test_the_first_are_missed(self):
        self.assertEqual(self.warnings("__attribute__((constructor))", "", options=["-Wl,-z,initfirst"]), [self.NOTE])
        self.assertEqual(self.counts(), {"twice": 1, "main": 1})

    def test_nothing_is_missed(self):
        self.assertEqual(self.warnings("", ""), [])
        plain = "__attribute__((constructor, no_instrument_function))"
        self.assertEqual(self.warnings("", plain), [])


if __name__ == "__main__":
    scrytest.main()
