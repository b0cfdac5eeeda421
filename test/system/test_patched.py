# SPDX-License-Identifier: Apache-2.0
"""Functions that were compiled without hooks: `scry run --trace NAME` puts jumps to the hooks into them. The program does what it does
alone, and each call is counted."""

import os
import re
import shutil
import signal

import scrytest
from ctracertest import TracerCase

NESTED = """#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int sink;
int leaf(int n) { if (n == 3) abort(); if (n == 6) { printf("%d\\n", (int)getpid()); fflush(stdout); pause(); } return n + sink; }
int middle(int n) { return leaf(n) + (sink++, 1); }
int outer(int n) { return middle(n + 1) + middle(n + 2) + (sink++, 1); }
int main(int argc, char **argv) { printf("%d\\n", outer(argc - 1)); return 0; }
"""

VALUES = """#include <cstdio>
#include <string>
#include <vector>
#define FN __attribute__((noinline))
struct P { double x, y; const char *name; };
FN double norm(const P &p, int k) { return p.x * p.x + p.y * p.y + k; }
FN std::string join(const std::vector<int> &v, std::string sep) { std::string s; for (int i : v) { if (!s.empty()) s += sep; s += std::to_string(i); } return s; }
struct C { int n; FN int add(int d) { return n += d; } };
FN float mix(float a, char b, long c, double d) { return (float)(a + b + c + d); }
int main() { P p{3, 4, "here"}; C c{5}; printf("%g %s %d %g\\n", norm(p, 2), join({1, 2, 3}, ", ").c_str(), c.add(7), mix(1.5f, 'c', -3, 2.25)); }
"""

# The stack of a handler is in the midst of the thread's own, of which all trampolines are in use.
INSIDE = """#include <signal.h>
#include <stdio.h>
#include <unistd.h>
volatile int box[2] = {1, 2};
int look(volatile int *p) { return p[0] + p[1] * 3 + 1; }
static void handler(int s) { for (int i = 0; i < 100; i++) box[0] = look(box) & 7; }
int down(int d, volatile int *p) { if (d == 0) { usleep(150000); raise(SIGUSR1); return 1; } int a = p[1]; return a + down(d - 1, p); }
int main(void) {
    char stack[65536]; stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaltstack(&other, 0); sigaction(SIGUSR1, &action, 0);
    printf("%d\\n", down(20000, box)); return 0;
}
"""
# A clone of the process's memory and variables on another processor.
CLONED = """#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
volatile int stop, box[2] = {1, 2}, other[2] = {1, 2};
int inner(volatile int *p) { return p[0] * 3 + p[1]; }
int outer(volatile int *p) { int a = inner(p); return a + p[1]; }
int cloned(volatile int *p) { return p[0] * 5 + p[1]; }
static int child(void *a) { for (int i = 0; i < 300000 && !stop; i++) other[0] = cloned(other) & 7; stop = 1; for (;;) syscall(SYS_exit, 0); }
int main(void) {
    char *s = mmap(0, 65536, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 100; i++) box[0] = outer(box) & 7;
    clone(child, s + 65536, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, 0);
    while (!stop) box[0] = outer(box) & 7;
    usleep(10000); puts("done"); return 0;
}
"""
# Who asks for the next definition is the caller of dlsym, also by way of a jump.
NEXT = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
void *next_of(const char *name) { return dlsym(RTLD_NEXT, name); }
int main(void) { void *(*it)(size_t) = next_of("malloc"); puts(it && it != malloc ? "next" : it ? "same" : "none"); return 0; }
void *malloc(size_t n) { static char room[1 << 16]; static size_t used; used += n + 15 & ~15; return room + used - (n + 15 & ~15); }
void free(void *p) {}
"""


class Unprepared(TracerCase):
    def bare(self, name, *options, source="unprepared.cc", compiler="g++"):
        return self.compile(source, "-rdynamic", *options, name=name, hooks=False, compiler=compiler)

    def built(self, name, text, *options):
        source = self.box.path("work", name + ".c")
        with open(source, "w", encoding="ascii") as file:
            file.write(text)
        return self.compile(source, *options, hooks=False)

    def calls_of(self, *names):
        calls = self.calls()
        return {name: calls.get(name, 0) for name in names} if names else calls

    def test_the_same(self):
        """Exceptions, longjmp, coroutines, signals, threads, forks and vforks, tail calls, deep recursion."""
        for level in ("-O0", "-O2"):
            with self.subTest(level=level):
                program = self.bare("unprepared" + level, level)
                alone = self.box.run([program])
                self.assertEqual(alone.returncode, 0, alone.stderr)
                done = self.scry_run("--trace", "all", "--", program)
                self.assertEqual((done.returncode, done.stdout), (0, alone.stdout), done.stderr)
                expected = {"catcher": 260, "jumps": 100, "faults": 1, "thread_main": 160, "step": 150, "in_vfork": 20, "child": 5}
                self.assertEqual(self.calls_of(*expected), expected)

    def test_counts_as_with_hooks(self):
        options = ("-O0", "-fno-optimize-sibling-calls")
        counts = []
        for hooks in (True, False):
            program = self.compile("traced.c", *options, name=f"hooks-{hooks}", hooks=hooks)
            done = self.scry_run("--trace", "file:traced.c" if hooks else "fn:*", "--", program, "calls", 20)
            self.assertEqual(done.returncode, 0, done.stderr)
            counts.append({name: calls for name, calls in self.calls_of().items() if name in ("work", "leaf")})
        self.assertEqual(counts, 2 * [{"work": 20, "leaf": 40}])

    def test_bash(self):
        """All functions of a program of some size, as Debian has it: what it does is the same."""
        script = "f() { (( $1 < 2 )) && echo $1 || echo $(( $(f $(($1 - 1))) + $(f $(($1 - 2))) )); }; f 6; x=abc; echo ${x/b/d}; (exit 3); echo $?"
        done = self.scry_run("--trace", "lib:bash", "--", "bash", "-c", script)
        self.assertEqual((done.returncode, done.stdout), (0, "8\nadc\n3\n"), done.stderr)
        self.assertGreater(len(self.calls_of()), 100)
        self.scry_run("--trace", "all", "--", "bash", "-c", "true; uname >/dev/null")
        self.assertEqual(self.calls_of(), {})

    def test_libraries(self):
        """Those of the system by name, not by wildcards, as its programs."""
        program = self.built("reads", "#include <stdlib.h>\nint own(int n) { free(malloc((size_t)n)); return n; }\n"
                                        "int main(void) { return own(5) + own(6) - 11; }\n", "-O1", "-fno-builtin")
        done = self.scry_run("--trace", "fn:own malloc", "--", program)
        self.assertEqual(done.returncode, 0, done.stderr)
        calls = self.calls_of()
        self.assertEqual(calls["own"], 2)
        self.assertGreaterEqual(calls.get("malloc", 0) + calls.get("__libc_malloc", 0), 2, calls)
        done = self.scry_run("--trace", "fn:*", "--", program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({name for name in self.calls_of() if "malloc" in name}, set())

    def test_rules(self):
        """Events of functions that have no hooks; nothing is recorded for that."""
        program = self.compile("traced.c", "-O0", hooks=False)
        done = self.scry_run("--rule", 'ct_function_called([], "fn:leaf") : print([$function])', "--", program, "calls", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.lines_said(done.stderr, "rule", "fired 6 x")), 1, done.stderr)
        program = self.compile(self.values_of(), "-O2", "-g", hooks=False, compiler="g++")
        done = self.scry_run("--rule", 'ct_function_called([], "norm", "p.x == 3 && k > 1") : print([$args])', "--", program)
        self.assertEqual(len(self.lines_said(done.stderr, "rule", "fired 1 x")), 1, done.stderr)

    def values_of(self):
        source = self.box.path("work", "shapes.cc")
        with open(source, "w", encoding="ascii") as file:
            file.write(VALUES)
        return source

    def test_values(self):
        """Arguments and results, by debug information."""
        for level in ("-O0", "-O2"):
            program = self.compile(self.values_of(), level, "-g", name="shapes" + level, hooks=False, compiler="g++")
            done = self.scry_run("--args", "--depth", "2", "--trace", "norm join add mix", "--", program)
            self.assertEqual((done.returncode, done.stdout), (0, "27 1, 2, 3 12 99.75\n"), done.stderr)
            calls = {call["function"].split("::")[-1]: (call["args_values"], call.get("result_values")) for call in self.replayed()}
            self.assertEqual({name: value for name, value in calls.items() if name not in ("add", "norm")}, {
                "join": ({"v": [1, 2, 3], "sep": ", "}, "1, 2, 3"),
                "mix": ({"a": 1.5, "b": "c", "c": -3, "d": 2.25}, 99.75)})
            self.assertEqual((calls["add"][0]["d"], calls["add"][1]), (7, 12))
            self.assertEqual((calls["norm"][0]["p"]["name"]["to"], calls["norm"][0]["k"], calls["norm"][1]), ("here", 2, 27))

    def test_never_touched(self):
        """What comes back twice, or looks who called it."""
        program = self.built("twice", "#include <setjmp.h>\n#include <stdio.h>\nstatic jmp_buf place;\n"
                                        "int main(void) { int n = setjmp(place); printf(\"%d\\n\", n); if (n < 3) longjmp(place, n + 1); "
                                        "return 0; }\n", "-O0")
        done = self.scry_run("--trace", "_setjmp __sigsetjmp setjmp longjmp main", "--", program)
        self.assertEqual((done.returncode, done.stdout), (0, "0\n1\n2\n3\n"), done.stderr)
        self.assertEqual(set(self.calls_of()), {"main"})

    def test_odd_stacks(self):
        """Stacks inside stacks, threads that are none, callers by way of jumps."""
        for name, text in (("inside", INSIDE), ("cloned", CLONED), ("asks", NEXT)):
            with self.subTest(name):
                program = self.built(name, text, "-O2", "-fno-inline", "-fno-builtin-malloc")
                alone = self.box.run([program])
                done = self.scry_run("--trace", "fn:*", "--", program)
                self.assertEqual((done.returncode, done.stdout), (0, alone.stdout), done.stderr)

    def test_what_cannot_be(self):
        """Named with its reason; a static program, as always."""
        program = self.built("short", "int tiny(void);\n__asm__(\".globl tiny\\n.type tiny, @function\\ntiny: mov %edi, %eax\\n1: dec %eax\\n"
                                        "jnz 1b\\nret\\n.size tiny, . - tiny\\n\");\nint main(void) { return tiny(); }\n", "-O1")
        done = self.scry_run("--trace", "tiny", "--", program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.lines_said(done.stderr, "1 of 1 functions without hooks cannot be traced", "tiny: a branch leads")), 1,
                         done.stderr)

    def test_backtraces(self):
        """gdb finds the true callers. What it starts itself is left as it is: its breakpoints may be in the midst of a jump."""
        if not shutil.which("gdb"):
            self.skipTest("gdb is not installed")
        names = ["leaf", "middle", "outer", "main"]
        program = self.built("nested", NESTED, "-O1", "-g", "-fno-inline", "-fno-ipa-icf")
        job = self.start_run("--trace", "fn:leaf fn:middle fn:outer", "--", program, "1", "2", "3", "4")
        pid = int(job.stdout.readline())
        done = self.box.run(["gdb", "-q", "-batch", "-p", str(pid), "-ex", "bt"], timeout=60)
        self.assertEqual(re.findall(r"^#\d+ .*?\b(leaf|middle|outer|main) \(", done.stdout, re.M), names, done.stdout)
        os.kill(pid, signal.SIGTERM)
        job.communicate(timeout=30)
        done = self.scry_run("--trace", "fn:leaf fn:middle fn:outer", "--", "gdb", "-q", "-batch", "-ex", "break leaf", "-ex", "run 1 1",
                             "-ex", "bt", "-ex", "delete", "-ex", "continue", program, timeout=60)
        self.assertEqual(re.findall(r"^#\d+ .*?\b(leaf|middle|outer|main) \(", done.stdout, re.M), names, done.stdout)
        self.assertIn("SIGABRT", done.stdout)
        self.assertEqual(len(self.lines_said(done.stderr, "nested cannot be traced: a debugger had started it")), 1, done.stderr)

    def test_crash(self):
        """Its stack is that of the program alone."""
        program = self.built("nested", NESTED, "-O1", "-g", "-fno-inline", "-fno-ipa-icf")
        done = self.scry_run("--trace", "fn:leaf fn:middle fn:outer", "--", program, "1", "1")
        self.assertEqual(done.returncode, 128 + signal.SIGABRT)
        self.assertRegex(done.stderr, r"leaf\(\)[^\n]*\n +in middle\(\)[^\n]*\n +in outer\(\)")
        self.assertEqual(self.calls_of("leaf", "middle", "outer"), {"leaf": 1, "middle": 1, "outer": 1})

    def test_monitor_is_killed(self):
        program = self.built("long", "#include <stdio.h>\n#include <unistd.h>\nint work(int n) { return n + 1; }\nint main(void) { int n = 0; "
                                       "puts(\"up\"); fflush(stdout); while (access(\"go\", F_OK) < 0) n = work(n); for (int i = 0; i < 100000; i++) "
                                       "n = work(i); printf(\"%d\\n\", n); return 0; }\n", "-O1", "-fno-inline")
        job = self.start_run("--trace", "fn:work", "--", program, cwd=self.box.path("work"))
        self.assertEqual(job.stdout.readline().strip(), "up")
        os.kill(self.box.monitor_pid(), signal.SIGKILL)
        with open(self.box.path("work", "go"), "w", encoding="ascii"):
            pass
        self.assertEqual(job.stdout.read().strip(), "100000")
        self.assertEqual(job.wait(60), 0)


scrytest.main()
