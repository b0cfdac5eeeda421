# SPDX-License-Identifier: Apache-2.0
"""Values: programs whose functions print their own arguments, locals and results, traced by `scry run`. What replay
shows must be what they print. Compilers forget values; then scry says so, never anything else. (The programs are those of
the unit test `values`, which runs the capture programs without a monitor.)"""

import collections
import itertools
import os
import re
import sys

import scrytest
from ctracertest import TracerCase, note

sys.path.insert(0, os.path.join(scrytest.SOURCE, "src", "symbols", "capture"))
from test_values import Comparison, parse  # how a printed line is taken apart, and compared


def text(value):
    """A value of replay --json as in the tree."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else value


def shown(call, kind):
    """The fields of a call that belong to its entry (>) or its end (<), as `name = value`; None if none was recorded."""
    values = call.get("args" if kind == ">" else "locals")
    fields = [f"{name} = {text(value)}" for name, value in (values or {}).items()]
    if kind == "<" and "result" in call:
        return fields + ["= " + text(call["result"])]
    return fields if values is not None else None


def same_beginning(printed, captured):
    """Long strings and arrays are cut, by the programs at other lengths than by `scry run`: what both show is equal, and
    that is not little."""
    spread = re.sub(r"(\S+) <repeats (\d+) times>", lambda found: ", ".join([found[1]] * int(found[2])), printed)
    cut = [re.sub(r'(, \.\.\.\}|"(\.\.\.)?|\})$', "", each) for each in (spread, captured)]
    ended = [not re.search(r'\.\.\.\}?$', each) for each in (spread, captured)]
    short = min(cut, key=len)
    if all(each.startswith(short) for each in cut) and len(short) > 20:
        return cut[0] == cut[1] if all(ended) else not ended[cut.index(short)]
    return False


DECLARED = r"""
#include <functional>
#include <vector>
namespace ns { struct C { int f(int n) { return n; } int d = 4; }; }
struct ops { const char *name; int (*open)(int), (*table[2])(int); };
static int one(int n) { return n; }
static int any(int n, ...) { return n; }
#define TRACED __attribute__((noinline))
TRACED int pointer(int (*cb)(int)) { return cb(1); }
TRACED int twice(int (**cb)(int, ...)) { return cb != 0; }
TRACED int member(int (ns::C::*m)(int)) { ns::C c; return (c.*m)(2); }
TRACED int data(int ns::C::*m) { ns::C c; return c.*m; }
TRACED int array(int (&a)[3]) { return a[0]; }
TRACED int returning(void (*(*h)(int))(char)) { return h != 0; }
TRACED int list(std::vector<int (*)(int)> const &v) { return (int)v.size(); }
TRACED int inside(ops o, const ops *p) { return o.open(1) + p->open(2); }
int main()
{
    int a[3] = {1, 2, 3}, (*v)(int, ...) = any;
    ops o = {"o", one, {one, 0}};
    std::vector<int (*)(int)> all{one};
    return pointer(one) + twice(&v) + member(&ns::C::f) + data(&ns::C::d) + array(a) + returning(0) + list(all) + inside(o, &o) == 0;
}
"""

BY_VALUE = r"""
#include <bitset>
#include <chrono>
#include <complex>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>
struct little { int a; short b; };
struct big { long v[6]; const char *name; };
struct owner { int n; explicit owner(int k) : n(k) {} ~owner() { n = -1; } };
#define TRACED __attribute__((noinline))
TRACED int text(std::string s) { return (int)s.size(); }
TRACED int structs(little a, big b, owner c, int d, double e) { return a.a + (int)b.v[0] + c.n + d + (int)e; }
TRACED int lists(std::vector<int> v, std::map<std::string, int> m) { return (int)(v.size() + m.size()); }
TRACED int maybe(std::optional<int> a, std::optional<std::string> b) { return a.value_or(0) + (b ? 1 : 0); }
TRACED int numbers(std::complex<double> a, std::complex<float> b) { return (int)(a.real() + b.imag()); }
TRACED int bits(std::bitset<5> a, std::bitset<100> b) { return (int)(a.count() + b.count()); }
TRACED int times(std::chrono::milliseconds a, std::chrono::steady_clock::time_point b)
{
    return (int)(a.count() + b.time_since_epoch().count());
}
TRACED int both(std::tuple<int, std::string> t) { return std::get<0>(t); }
int main()
{
    std::bitset<100> hundred;
    hundred.set(3).set(70);
    return text("hello") + structs({1, 2}, {{1, 2, 3, 4, 5, 6}, "b"}, owner(5), 6, 7.5) + lists({1, 2}, {{"a", 1}}) + maybe(4, {}) +
           numbers({1, -2}, {3, 4}) + bits(std::bitset<5>(0b10110), hundred) +
           times(std::chrono::milliseconds(15), std::chrono::steady_clock::time_point(std::chrono::seconds(3))) + both({4, "t"}) == 0;
}
"""

WIDE = r"""
#include <stddef.h>
#include <uchar.h>
#include <wchar.h>
__attribute__((noinline, noipa)) int wide(const wchar_t *w, char16_t *u, const char32_t *const v, const wchar_t *empty,
                                   const wchar_t *bad, const char16_t *none, const wchar_t *all, wchar_t **twice)
{
    __asm__ volatile("" ::: "memory");
    return w[0] + u[0] + (int)v[0] + empty[0] + (bad == 0) + (none == 0) + all[0] + (twice == 0);
}
int main(void)
{
    static wchar_t all[5000], *second = all;
    static char16_t u[] = u"u\U0001f600";
    for (int i = 0; i < 4999; i++)
        all[i] = L'x';
    return wide(L"w\u00e4\u20ac", u, U"v\U0001f600", L"", (const wchar_t *)16, NULL, all, &second) == 0;
}
"""


SEQUENCE = r"""
#include <coroutine>
struct Sequence {
    struct promise_type {
        int value;
        Sequence get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(int v) { value = v; return {}; }
        void return_void() {}
        void unhandled_exception() {}
    };
    std::coroutine_handle<promise_type> handle;
};
__attribute__((noinline)) Sequence sequence(int from, int count)
{
    for (int i = 0; i < count; i++)
        co_yield from + i;
}
int main()
{
    Sequence numbers = sequence(10, 5);
    int sum = 0;
    for (numbers.handle.resume(); !numbers.handle.done(); numbers.handle.resume())
        sum += numbers.handle.promise().value;
    numbers.handle.destroy();
    return sum != 60;
}
"""


DROPPED = """
struct parts {
    int used[2];
    char name[12];
    int unused;
};
int sum(struct parts parts)
{
    return parts.used[0] + parts.used[1];
}
int main(void)
{
    struct parts parts = {{7, 8}, "abc", 9};
    return sum(parts) - 15;
}
"""


FORTRAN = """
module shapes
  type point
    real(8) :: x, y
    integer :: id
  end type
contains
  real(8) function norm(p)
    type(point), intent(in) :: p
    norm = sqrt(p%x**2 + p%y**2)
  end function
  logical function flag(on, c)
    logical, intent(in) :: on
    complex, intent(in) :: c
    flag = on .and. real(c) > 0
  end function
  recursive integer function fact(n) result(f)
    integer, value :: n
    f = 1
    if (n > 1) f = n * fact(n - 1)
  end function
  integer function total(a)
    integer, intent(in) :: a(:)
    total = sum(a)
  end function
  integer function outer(n, x, k, low, grid)
    integer, intent(in) :: n, k(3), low(-1:1), grid(2, 3)
    real(8), intent(in) :: x
    outer = n + int(x) + k(2) + low(-1) + grid(2, 3)
  end function
end module
program p
  use shapes
  integer :: k(3) = (/10, 20, 30/), low(-1:1) = (/7, 8, 9/), grid(2, 3) = reshape((/1, 2, 3, 4, 5, 6/), (/2, 3/))
  integer :: i, got = 0
  do i = 1, 3
    got = got + outer(i, i * 0.5d0, k, low, grid)
  end do
  got = got + fact(3) + total(k(1:3:2)) + int(norm(point(3d0, 4d0, 7)))
  if (flag(.true., (1.0, 2.0))) print *, got
end program
"""
FORTRAN_ARGUMENTS = {
    "outer": [{"n": i, "x": i / 2, "k": "{10, 20, 30}", "low": "{7, 8, 9}", "grid": "{{1, 2}, {3, 4}, {5, 6}}"}
              for i in (1, 2, 3)],
    "fact": [{"n": n} for n in (3, 2, 1)],
    "total": [{"a": "{10, 30}"}],
    "norm": [{"p": "{x = 3, y = 4, id = 7}"}],
    "flag": [{"on": True, "c": "1 + 2i"}],
}
FORTRAN_RESULTS = {"outer": [34, 36, 37], "fact": [6, 2, 1], "total": [40], "norm": [5], "flag": [True]}


class Values(TracerCase):
    def compare(self, program, source):
        done = self.scry_run("-q", "--trace", f"file:{source}", "--args", "--locals", "--depth", "2", "--", program)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        printed = collections.defaultdict(list)
        for line in done.stdout.splitlines():
            printed[line[0], parse(line)[1]].append(line)
        ended = collections.defaultdict(list)
        for call in self.replayed(numbers_as_text=True):
            self.assertEqual((call["event"], call["how"]), ("call", "returned"))
            ended[call["function"].partition("<")[0].rpartition("::")[2]].append(call)
        comparison = Comparison()
        for (kind, name), lines in printed.items():
            calls = ended[name]
            if kind == ">":
                calls = sorted(calls, key=lambda call: (float(call["start_seconds"]), int(call["depth"])))
            self.assertEqual(len(calls), len(lines), name)
            for line, call in zip(lines, calls):
                self.compare_line(comparison, line, shown(call, kind))
        return comparison

    def compare_line(self, comparison, line, got):
        kind, name, want = parse(line)
        if got is None:
            comparison.missing += len(want)
            return
        captured = {one.partition(" = ")[0] if one[0] != "=" else "=": one for one in got}
        expected = {one.partition(" = ")[0] if one.strip()[0] != "=" else "=": one.strip() for one in want}
        if kind == "<" and "=" not in captured:
            comparison.missing += expected.pop("=", None) is not None
        if set(captured) - set(expected):
            comparison.wrong.append(f"{line!r}: replay also shows {set(captured) - set(expected)}")
        for key, one in expected.items():
            if key in captured and same_beginning(one, captured[key]):
                comparison.shown += 1
            elif key in captured:
                comparison.field(f"{kind} {name}", one, captured[key])
            elif not got:  # nothing is known at this end of the call
                comparison.missing += 1
            else:
                comparison.wrong.append(f"{kind} {name}: printed {one!r}, replay has {got}")

    def check(self, build, complete=False):
        source = "values.cc" if build.startswith(("cc-", "dwarf4-cc-")) else "values.f90" if "fortran" in build else "values.c"
        program = os.path.join(scrytest.BUILD, "src", "symbols", "values-" + build)
        if not os.path.exists(program):
            self.skipTest("not built: this compiler is not installed")
        comparison = self.compare(program, source)
        total = comparison.shown + comparison.missing
        note(f"{build}: {comparison.shown} of {total} values shown, {comparison.missing} said to be missing")
        self.assertEqual(comparison.wrong, [])
        self.assertGreater(comparison.shown, total / 3)
        if complete:
            self.assertEqual(comparison.missing, 0)

    @scrytest.thorough
    def test_wide_strings(self):
        """Strings of wchar_t, char16_t and char32_t are shown as text, as others are, and cut where they are long."""
        source = self.box.path("work", "wide.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(WIDE)
        for name, compiler, options in (("c", "gcc", ["-O0"]), ("c2", "gcc", ["-O2"]), ("clang", "clang-14", ["-O0"]),
                                        ("cc", "g++", ["-O0", "-xc++"]), ("ccc", "clang++-14", ["-O1", "-xc++"])):
            with self.subTest(compiler=compiler, options=options):
                program = self.compile(source, *options, "-w", name=f"wide_{name}", compiler=compiler)
                done = self.scry_run("-q", "--args", "--depth", "1", "--", program)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                (call,) = [call for call in self.replayed() if call["function"] == "wide"]
                args = call["args"]
                expected = {"w": '"w\u00e4\u20ac"', "u": '"u\U0001f600"', "v": '"v\U0001f600"', "empty": '""'}
                self.assertEqual({name: args[name] for name in expected}, expected)
                self.assertEqual((args["bad"], args["none"]), ("<invalid 0x10>", "0x0"))
                self.assertRegex(args["all"], r'^"x{20,}"\.\.\.$')
                self.assertRegex(args["twice"], '^0x[0-9a-f]+ -> "x{20,}"\\.\\.\\.$')

    def check_results(self, program):
        """What the calls of targets/results.c are shown to have returned, and their register variables at their ends: as
        the program prints it, or not available. Returns how many were shown, how many not."""
        done = self.scry_run("-q", "--args", "--locals", "--", program)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        printed, registers = collections.defaultdict(list), {}
        for line in done.stdout.splitlines():
            name, _, result = line.partition(" ")
            if name == "local":
                registers[tuple(result.split()[:2])] = result.split()[2]
            else:
                printed[name].append(result)
        calls, wrong, missing, right = collections.defaultdict(list), [], 0, 0
        for call in self.replayed(numbers_as_text=True):
            calls[call["function"].partition("(")[0]].append(call)
        for name, results in printed.items():
            got = calls[name]
            self.assertGreaterEqual(len(got), len(results), name)
            if len(got) > len(results):
                continue  # called by others, too
            for call, expected in zip(got, results):
                result = call.get("result", "<not available>")
                result = "01"[result] if isinstance(result, bool) else result
                missing += result == "<not available>"
                right += result == expected
                if "<not available>" in result and result[0] == "{":  # some members
                    parts = zip(result[1:-1].split(", "), expected[1:-1].split(", "))
                    if all(one in (two, f"{two.split()[0]} = <not available>") for one, two in parts):
                        continue
                if result not in (expected, "<not available>"):
                    wrong.append(f"{name}({call.get('args')}) returned {expected}, replay: {result}")
        for (name, local), expected in registers.items():
            for call in calls[name]:
                got = (call.get("locals") or {}).get(local, "<not available>")
                right += got == expected
                if got not in (expected, "<not available>", "<optimised out>"):
                    wrong.append(f"{name}: {local} is {expected} at the end, replay: {got}")
        self.assertEqual(wrong, [])
        return right, missing

    def test_results(self):
        """Results that the compiler changes after the exit hook: shown as returned, or not at all."""
        few = (("gcc", "-O0"), ("gcc", "-O2"), ("clang-14", "-O1"), ("clang-14", "-O2"), ("g++", "-Os"), ("clang++-14", "-O0"))
        many = itertools.product(("gcc", "clang-14", "g++", "clang++-14"), ("-O0", "-O1", "-O2", "-Os"))
        for name, level in scrytest.rounds(few, many):
            with self.subTest(compiler=name, level=level):
                cxx = ["-xc++"] if "++" in name else []
                program = self.compile("results.c", level, "-w", *cxx, name=f"results_{name}_{level}", compiler=name)
                right, missing = self.check_results(program)
                note(f"{name} {level}: {right} results right, {missing} not available")
                self.assertGreater(right, 80 if level == "-O0" else 30)
                if name in ("gcc", "g++") and level == "-O0":
                    self.assertEqual(missing, 0)

    def check_unusual(self, source, compiler, *options, complete=False):
        """Uncertain values are shown as missing; names occur once in the arguments of a call."""
        program = self.compile(source, *options, "-w", "-Wno-psabi",
                               *(["-std=c++17"] if source.endswith(".cc") else []), compiler=compiler)
        done = self.scry_run("-q", "--args", "--depth", "1", "--", program)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        calls = collections.defaultdict(list)
        for call in self.replayed(numbers_as_text=True, names_once=True):
            calls[call["function"].partition("<")[0].rpartition("::")[2]].append(call)
        comparison = Comparison()
        for line in done.stdout.splitlines():
            _, name, want = parse(line)
            call = calls[name].pop(0)
            got = {key: f"{key} = {text(value)}" for key, value in call.get("args", {}).items()}
            for one in want:
                key = one.partition(" = ")[0]
                comparison.field(f"{name}: {key}", one, got.pop(key, None))
            unexpected = set(got) - {"this", "vtt", "__vtt_parm"} if name != "decimals" else set()
            comparison.wrong.extend(f"{name}: {got[key]}, which is not printed" for key in unexpected)
        note(f"{source} {compiler} {options}: {comparison.shown} values shown, {comparison.missing} said to be missing")
        self.assertEqual(comparison.wrong, [])
        self.assertGreater(comparison.shown, comparison.missing)
        if complete:  # but for what stands behind long vectors on the stack
            self.assertLessEqual(comparison.missing, 1)

    @scrytest.thorough
    def test_unusual_arguments(self):
        """Arguments whose way into a function depends on more than their class, or is not the usual one at all: right,
        or not available."""
        compilers = {"gcc": "unusual.c", "clang-14": "unusual.c", "g++": "unusual.cc", "clang++-14": "unusual.cc"}
        few = (("gcc", "-O0"), ("gcc", "-O2"), ("clang-14", "-O1"), ("g++", "-O0"), ("g++", "-O1"), ("clang++-14", "-O2"))
        for compiler, level in scrytest.rounds(few, itertools.product(compilers, ("-O0", "-O1", "-O2"))):
            with self.subTest(compiler=compiler, level=level):
                self.check_unusual(compilers[compiler], compiler, level, complete=level == "-O0" and compiler[0] == "g")

    @scrytest.thorough
    def test_names_and_functions(self):
        """Types and functions are named as people write them, and so are functions without hooks that values point to."""
        program = self.compile("library.cc", "-O1", "-finstrument-functions-exclude-file-list=/usr/include", compiler="g++")
        self.scry("run", "-q", "--trace", "*", "--args", program)
        calls = {call["function"]: call for call in self.replayed()}
        self.assertEqual(calls["geo::count"]["args"], {
            "points": '{{x = 1, name = "one"}, {x = 2, name = "two"}}', "ages": '{["a"] = 1}', "n": 5})
        self.assertIn("const std::vector<geo::Point> &points, const std::map<std::string, int> &ages, std::optional<int> n",
                      calls["geo::count"]["signature"])
        self.assertIn("geo::size<std::string>", calls)
        args = calls["calls"]["args"]
        self.assertRegex(args["own"], r"^0x[0-9a-f]+ <doubled>$")
        self.assertRegex(args["library"], r"^0x[0-9a-f]+ <abs>$")
        self.assertRegex(args["any"], r"^0x[0-9a-f]+ <doubled>$")

    def test_declared(self):
        """What points to functions or arrays is declared as in C, with the function's name beside its address, in structures, too."""
        source = self.box.path("work", "declared.cc")
        with open(source, "w", encoding="ascii") as file:
            file.write(DECLARED)
        for compiler in ("g++", "clang++-14"):
            with self.subTest(compiler=compiler):
                hooks = ["-finstrument-functions"] if compiler == "g++" else ["-finstrument-functions-after-inlining"]
                program = self.compile(source, "-g", "-O0", *hooks, compiler=compiler, hooks=False)
                self.assertEqual(self.scry_run("-q", "--args", "--", program).returncode, 0)
                calls = {call["function"]: call for call in self.replayed(names_once=True)}
                names = ("pointer", "twice", "member", "data", "array", "returning", "list")
                self.assertEqual([calls[name]["signature"] for name in names], [
                    "int pointer(int (*cb)(int))", "int twice(int (**cb)(int, ...))", "int member(int (ns::C::*m)(int))",
                    "int data(int ns::C::*m)", "int array(int (&a)[3])", "int returning(void (*(*h)(int))(char))",
                    "int list(const std::vector<int (*)(int)> &v)"])
                self.assertRegex(calls["pointer"]["args"]["cb"], r"^0x[0-9a-f]+ <one>$")
                address, values = calls["pointer"]["args"]["cb"].split()[0], calls["inside"]["args_values"]
                one = {"address": address, "function": "one"}
                self.assertEqual(calls["pointer"]["args_values"], {"cb": one})
                self.assertEqual([(of["open"], of["table"]) for of in (values["o"], values["p"]["to"])], [(one, [one, None])] * 2)
                self.assertIn(f"open = {address} <one>", calls["inside"]["args"]["o"])

    def test_by_value(self):
        """Objects that are passed by value, and types of the C++ library: right, and the same for people as for programs."""
        source = self.box.path("work", "by_value.cc")
        with open(source, "w", encoding="ascii") as file:
            file.write(BY_VALUE)
        builds = [("g++", "-finstrument-functions"), ("clang++-14", "-finstrument-functions-after-inlining"),
                  ("clang++-14", "-finstrument-functions", "-stdlib=libc++")]
        for compiler, *options in builds:
            with self.subTest(compiler=compiler, options=options):
                if "-stdlib=libc++" in options and not os.path.exists("/usr/lib/llvm-14/include/c++/v1/vector"):
                    self.skipTest("libc++ is not installed")
                program = self.compile(source, "-g", "-O0", "-std=c++20", *options, compiler=compiler, hooks=False)
                self.assertEqual(self.scry_run("-q", "--args", "--", program).returncode, 0)
                calls = {call["function"]: call for call in self.replayed(names_once=True)}
                big = {"v": [1, 2, 3, 4, 5, 6], "name": "b"}
                expected = {
                    "text": {"s": ('"hello"', "hello")},
                    "structs": {"a": ("{a = 1, b = 2}", {"a": 1, "b": 2}), "b": ('{v = {1, 2, 3, 4, 5, 6}, name = "b"}', big),
                                "c": ("{n = 5}", {"n": 5}), "d": ("6", 6), "e": ("7.5", 7.5)},
                    "lists": {"v": ("{1, 2}", [1, 2]), "m": ('{["a"] = 1}', [{"key": "a", "value": 1}])},
                    "maybe": {"a": ("4", 4), "b": ("nullopt", None)},
                    "numbers": {"a": ("1 - 2i", {"re": 1, "im": -2}), "b": ("3 + 4i", {"re": 3, "im": 4})},
                    "bits": {"a": ("22", 22), "b": ("{8, 64}", [8, 64])},
                    "times": {"a": ("15", 15), "b": ("3000000000", 3000000000)},
                    "both": {"t": ('{4, "t"}', [4, "t"])}}
                for function, arguments in expected.items():
                    if function == "structs":
                        name = calls[function]["args_values"]["b"]["name"]
                        calls[function]["args_values"]["b"]["name"] = name["to"]
                    self.assertEqual({name: (str(value), calls[function]["args_values"][name])
                                      for name, value in calls[function]["args"].items()}, arguments, function)

    def test_coroutines(self):
        """The parts into which compilers cut a coroutine are called with its frame, not with its arguments."""
        source = self.box.path("work", "sequence.cc")
        with open(source, "w", encoding="utf-8") as file:
            file.write(SEQUENCE)
        for compiler in ("g++", "clang++-14"):
            for level in ("-O0", "-O2"):
                with self.subTest(compiler=compiler, level=level):
                    hooks = "-finstrument-functions" + ("-after-inlining" if compiler[0] == "c" else "")
                    program = self.compile(source, "-g", hooks, level, "-std=c++20", "-w", compiler=compiler, hooks=False)
                    done = self.scry_run("-q", "--args", "--", program)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    calls = [call for call in self.replayed() if call["function"].startswith("sequence")]
                    self.assertGreater(len(calls), 3)
                    for call in calls:
                        args = call.get("args", {})
                        self.assertIn(args.get("from", 10), (10, "<not available>", "<optimised out>"), call)
                        self.assertIn(args.get("count", 5), (5, "<not available>", "<optimised out>"), call)

    def test_dropped_text(self):
        """Of a struct the compiler may pass only the members that are used: a text that is not is not an empty one."""
        source = self.box.path("work", "dropped.c")
        with open(source, "w", encoding="ascii") as file:
            file.write(DROPPED)
        for compiler in ("gcc", "clang-14"):
            with self.subTest(compiler=compiler):
                program = self.compile(source, "-O2", compiler=compiler)
                self.assertEqual(self.scry_run("--args", "--", program).returncode, 0)
                for call in self.replayed("--fn", "sum"):
                    self.assertRegex(call["args"]["parts"], r'name = ("abc"|<optimised out>|<not available>)[,}]|^<')

    def test_lengths(self):
        """How much of arrays and texts is recorded is an option; all of it is there, and no more."""
        source = self.box.path("work", "long.c")
        with open(source, "w", encoding="ascii") as file:
            file.write("""__attribute__((noinline)) static int f(const char *text)
                          {
                              int a[100];
                              for (int i = 0; i < 100; i++)
                                  a[i] = i;
                              return a[5] + text[0];
                          }
                          int main(void)
                          {
                              static char text[3001];
                              for (int i = 0; i < 3000; i++)
                                  text[i] = 'x';
                              return f(text) & 0;
                          }""")
        program = self.compile(source, "-O0")
        for options, items, length in ((), 8, 64), (("--array-items", "100", "--string-bytes", "3"), 100, 3), \
                (("--array-items=2", "--string-bytes=3000"), 2, 3000):
            self.assertEqual(self.scry_run("--args", "--locals", *options, "--", program).returncode, 0)
            call = self.replayed("--fn", "f")[0]
            self.assertEqual(re.findall(r"\d+", str(call["locals"]["a"])), [str(i) for i in range(items)])
            self.assertEqual(str(call["args"]["text"]).count("x"), length, call["args"])
        self.assertEqual(self.scry_run("--array-items", "1001", "--", "true").returncode, 125)

    def test_fortran(self):
        """Arguments come by their addresses, and arrays begin where the program says, with the first index the fastest."""
        source = self.box.path("work", "shapes.f90")
        with open(source, "w", encoding="ascii") as file:
            file.write(FORTRAN)
        unknown = ("<not available>", "<optimised out>")
        for level in ("-O0", "-Og", "-O1", "-O2"):
            with self.subTest(level=level):
                program = self.compile(source, level, compiler="gfortran")
                done = self.scry_run("--args", "--rule", 'ct_function_called([], "outer", "n == 2") : print([$args])', "--",
                                     program)
                self.assertEqual(done.returncode, 0, done.stderr)
                calls = collections.defaultdict(list)
                for call in sorted((each for each in self.replayed() if "function" in each), key=lambda each: each["start_seconds"]):
                    module, _, name = call["function"].rpartition("::")
                    self.assertEqual(module, "shapes" if name in FORTRAN_ARGUMENTS else module, name)
                    calls[name].append(call)
                for name, expected in FORTRAN_ARGUMENTS.items():
                    self.assertEqual(len(calls[name]), len(expected) if level != "-O2" else len(calls[name]), name)
                    for call, arguments, result in zip(calls[name], expected, FORTRAN_RESULTS[name]):
                        got = dict(call["args"], result=call["result"])
                        true = dict(arguments, result=result)
                        if level != "-O0":
                            true = {key: unknown[unknown.index(got[key])] if got[key] in unknown else value
                                    for key, value in true.items()}
                        self.assertEqual(got, true, (name, call))
                if level == "-O0":
                    self.assertRegex(done.stderr, "rule .* fired 1 x")
                    rule = 'ct_function_called([], "shapes::total", "a[0] == 10") : print([$args])'
                    done = self.scry_run("--rule", rule, "--", program)
                    self.assertRegex(done.stderr, "rule .* fired 0 x")
                    self.assertRegex(done.stderr, r"warning .*'shapes::total'.* a\[0\]: no such element")


# Programs of the unit test, and whether all their values are shown. That test goes through all of them; here are those that
# differ in what lies between: each language by each compiler, without and with optimisation, and each kind of file.
ALWAYS = {"c_gcc_O0": True, "c_clang_O2": False, "noplt_gcc_O2": False, "cc_gcc_O2": False, "cc_clang_O2": False,
          "dwarf4_gcc_O0": True, "fortran_O0": True}
OTHERS = {"c_gcc_O2": False, "c_gcc_O3": False, "c_clang_O0": False, "cc_gcc_O0": True, "cc_clang_O0": False,
          "dwarf4_cc_gcc_O0": True, "nopie_gcc_O0": True, "fortran_Og": False, "fortran_O1": False, "fortran_O2": False,
          "fortran_O3": False}
for each, whole in scrytest.rounds(ALWAYS, {**ALWAYS, **OTHERS}).items():
    setattr(Values, f"test_{each}", lambda self, build=each.replace("_", "-"), complete=whole: self.check(build, complete))

scrytest.main()
