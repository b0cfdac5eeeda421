# SPDX-License-Identifier: Apache-2.0
"""Random programs in C and C++ of which every value is known: each is executed here while it is written.

program(seed, cc) gives (source, events); an event is (kind, function, {name: values}, result): kind ">" with the
arguments, "^" with what the caller's variables hold at that call, "$" with those of all functions that have been called,
"<" with the locals and the result at the return.
`values` is a set of texts in the form in which scry shows them, of which each is right: of what the program has not set
yet there is none, but optimised code may set it earlier than the source says.
"""

import random

# name, declaration, kind; the numbers are small enough for any of them
SCALARS = (("short", "short"), ("int", "int"), ("unsigned", "unsigned"), ("long", "long"), ("ulong", "unsigned long"),
           ("float", "float"), ("double", "double"), ("ldouble", "long double"), ("schar", "signed char"),
           ("wide", "__int128"))
STRUCTS = {
    "pair": (("x", "int"), ("y", "double")),
    "two": (("first", "long"), ("second", "long")),
    "little": (("a", "short"), ("b", "signed char"), ("c", "int")),
    "reals": (("u", "float"), ("v", "float"), ("w", "float")),
    "big": (("p", "long"), ("q", "int"), ("r", "double"), ("s", "long")),
    "long_one": (("d", "long double"),),
}
WHOLE = ("short", "int", "unsigned", "long", "unsigned long", "signed char", "__int128")
REAL = ("float", "double", "long double")
PRELUDE = """#define UNTRACED __attribute__((no_instrument_function))
static volatile long sink_long;
static volatile double sink_double;
static void *volatile escaped;
"""


def struct_source():
    return "".join("typedef struct { %s } %s;\n" % (" ".join("%s %s;" % (decl, member) for member, decl in members), name)
                   for name, members in STRUCTS.items())


class Value:
    """A number, or the list of a struct's numbers."""

    def __init__(self, decl, number):
        self.decl, self.number = decl, number

    def copy(self):
        return Value(self.decl, list(self.number) if isinstance(self.number, list) else self.number)

    def text(self):
        if isinstance(self.number, list):
            return "{%s}" % ", ".join("%s = %s" % (member, "%g" % one)
                                      for (member, _), one in zip(STRUCTS[self.decl.rstrip("&")], self.number))
        return "%g" % self.number


class Variable:
    def __init__(self, name, decl, parameter=False):
        self.name, self.decl, self.parameter = name, decl, parameter
        self.value = None


class Function:
    def __init__(self, number):
        self.name = "f%s" % (number if number >= 0 else "main")
        self.parameters, self.locals, self.body = [], [], []
        self.result = "void"
        self.prefix = ""


class Program:
    def __init__(self, seed, cc):
        self.random = random.Random(seed)
        self.cc = cc
        self.functions = []
        self.globals = []
        self.events, self.stack = [], []

    def number(self, decl):
        number = self.random.randrange(1, 60)
        return number + 0.5 * self.random.randrange(2) if decl in REAL else number

    # ---- writing: statements are (code, effect on an environment of values) ----

    def loaded(self, decl):
        """An expression the compiler knows nothing about, and its number."""
        number = self.number(decl)
        name = "g%d" % len(self.globals)
        self.globals.append("static volatile %s %s = %g;\n" % (decl, name, number))
        return name, lambda env: number

    def leaf(self, function, decl):
        """A number of this type: from a constant, a global, or a variable of the same kind that is set."""
        choices = [one for one in function.parameters + [v for v in function.locals if v.is_set]
                   if (one.decl in WHOLE) == (decl in WHOLE) and one.decl in WHOLE + REAL]
        members = [(one, i) for one in function.parameters + [v for v in function.locals if v.is_set]
                   if one.decl in STRUCTS for i, (_, member) in enumerate(STRUCTS[one.decl])
                   if (member in WHOLE) == (decl in WHOLE)]
        choice = self.random.random()
        if choice < 0.5 and choices:
            variable = self.random.choice(choices)
            return "(%s)%s" % (decl, variable.name), lambda env: env[variable.name].number
        if choice < 0.65 and members:
            variable, i = self.random.choice(members)
            member = STRUCTS[variable.decl][i][0]
            return "(%s)%s.%s" % (decl, variable.name, member), lambda env: env[variable.name].number[i]
        if choice < 0.85:
            return self.loaded(decl)
        number = self.number(decl)
        return "(%s)%g" % (decl, number), lambda env: number

    def scalar(self, function, decl):
        code, effect = self.leaf(function, decl)
        other = self.random.randrange(1, 5)
        kind = self.random.randrange(8)
        limit = 100  # so that each type can hold it
        if kind == 0:
            return code, effect
        if kind in (1, 2):
            return ("(%s)(%s > %d ? %s - %d : %s + %d)" % (decl, code, limit, code, other, code, other),
                    lambda env: effect(env) + (-other if effect(env) > limit else other)) \
                if not code.startswith("g") else (code, effect)
        second, more = self.leaf(function, decl)
        if kind == 5:
            return "(%s)(%s < %s)" % (decl, code, second), lambda env: int(effect(env) < more(env))
        if kind == 6 and not code.startswith("g") and not second.startswith("g"):
            return ("(%s)(%s < %s ? %s : %s)" % (decl, code, second, code, second),
                    lambda env: min(effect(env), more(env)))
        if kind == 7 and decl in REAL:
            return "(%s)(%s / 2)" % (decl, code), lambda env: effect(env) / 2
        if kind == 7:
            return "(%s)(%s / 3 * 2 + %s %% 5)" % (decl, code, second), \
                lambda env: effect(env) // 3 * 2 + more(env) % 5
        if decl in REAL:
            return "(%s)(%s - %s)" % (decl, code, second), lambda env: effect(env) - more(env)
        return "(%s)((%s + %s) / 2)" % (decl, code, second), lambda env: (effect(env) + more(env)) // 2

    def expression(self, function, decl):
        if decl not in STRUCTS:
            return self.scalar(function, decl)
        parts = [self.scalar(function, member) for _, member in STRUCTS[decl]]
        return ("(%s){%s}" % (decl, ", ".join(code for code, _ in parts)) if not self.cc else
                "%s{%s}" % (decl, ", ".join(code for code, _ in parts)),
                lambda env: [effect(env) for _, effect in parts])

    def type(self):
        return self.random.choice(list(STRUCTS)) if self.random.random() < 0.3 else self.random.choice(SCALARS)[1]

    def statement(self, function, number, callees):
        """(code, effect); the effect is a function of (env, run)."""
        kind = self.random.random()
        set_locals = [v for v in function.locals if v.is_set]
        if kind < 0.35 or not set_locals:
            decl = self.type()
            variable = Variable("v%d_%s" % (number, function.name), decl)
            variable.is_set = False
            code, effect = self.expression(function, decl)
            function.locals.append(variable)
            variable.is_set = True

            def declare(env, run):
                env[variable.name] = Value(decl, effect(env))
            return "%s %s = %s;" % (decl, variable.name, code), declare
        variable = self.random.choice(set_locals)
        if kind < 0.5:
            code, effect = self.expression(function, variable.decl)

            def assign(env, run):
                env[variable.name] = Value(variable.decl, effect(env))
            return "%s = %s;" % (variable.name, code), assign
        if kind < 0.6:
            return "escaped = &%s;" % variable.name, lambda env, run: None
        if kind < 0.7:
            part = variable.name + ("." + STRUCTS[variable.decl][0][0] if variable.decl in STRUCTS else "")
            return "sink_%s = %s;" % ("double" if self.random.random() < 0.5 else "long", part), lambda env, run: None
        if kind < 0.78 and variable.decl in WHOLE:
            bound, value_of = self.loaded("int")

            def loop(env, run):
                start = env[variable.name].number
                env[variable.name] = Value(variable.decl, start + value_of(env) // 16)
            return ("for (int i = 0; i < %s / 16; i++) { %s += 1; sink_long = i; }" % (bound, variable.name), loop)
        if not callees:
            return "sink_long = %d;" % number, lambda env, run: None
        callee = self.random.choice(callees)
        return self.call(function, number, callee)

    def call(self, function, number, callee):
        args = [self.expression(function, one.decl) for one in callee.parameters]
        code = "%s(%s)" % (callee.name, ", ".join(one for one, _ in args))
        if callee.result == "void":
            def plain(env, run):
                run(callee, [effect(env) for _, effect in args], env)
            return code + ";", plain
        variable = Variable("v%d_%s" % (number, function.name), callee.result)
        variable.is_set = True
        function.locals.append(variable)

        def take(env, run):
            env[variable.name] = Value(variable.decl, run(callee, [effect(env) for _, effect in args], env))
        return "%s %s = %s;" % (variable.decl, variable.name, code), take

    def function(self, number, callees):
        function = Function(number)
        for i in range(self.random.choice((0, 1, 2, 3, 5, 8, 11))):
            function.parameters.append(Variable("p%d_%s" % (i, function.name), self.type(), True))
        shown = list(function.parameters)
        # those that the body does not use
        hidden = {p.name for p in shown if self.random.random() < 0.35}
        function.parameters = [p for p in shown if p.name not in hidden]
        function.result = "void" if self.random.random() < 0.2 else self.type()
        for i in range(self.random.randrange(1, 7)):
            function.body.append(self.statement(function, i, callees))
        if callees:
            function.body.append(self.call(function, 90, callees[-1]))
        if function.result != "void":
            code, effect = self.expression(function, function.result)
            function.body.append(("return %s;" % code, ("return", effect)))
        function.parameters = shown
        if self.random.random() < 0.6:
            function.prefix = "static "
        if self.random.random() < 0.6:
            function.prefix = "__attribute__((noinline)) " + function.prefix
        return function

    def write(self):
        for number in range(self.random.randrange(5, 10)):
            self.functions.append(self.function(number, self.functions[-3:]))
        # used more than once, with other values
        main = Function(-1)
        main.parameters = []
        calls = [self.call(main, number, callee) for number, callee in enumerate(self.functions[-3:] * 2)]
        source = [PRELUDE, struct_source()] + self.globals
        for function in self.functions:
            head = "%s%s %s(%s)" % (function.prefix, function.result, function.name,
                                    ", ".join("%s %s" % (p.decl, p.name) for p in function.parameters))
            source.append("%s%s\n{\n%s}\n" % ("" if function.prefix else head + ";\n", head,
                                              "".join("    %s\n" % code for code, _ in function.body)))
        source.append("UNTRACED int main(void)\n{\n%s    return 0;\n}\n" % "".join("    %s\n" % c for c, _ in calls))
        env = {}
        for _, effect in calls:
            effect(env, self.run_from_main)
        return "".join(source), self.events

    # ---- executing ----

    def run_from_main(self, callee, args, env):
        return self.run(callee, args, None, None)

    def run(self, function, args, caller, caller_env):
        env = {p.name: Value(p.decl, arg) for p, arg in zip(function.parameters, args)}
        if caller:
            self.events.append(["^", caller.function.name, caller, len(caller.steps)])
        frame = Frame(function, {p.name: env[p.name].text() for p in function.parameters})
        self.stack.append(frame)
        self.events.append(["$", function.name, [(one, len(one.steps)) for one in self.stack], None])
        self.events.append((">", function.name, {p.name: {env[p.name].text()} for p in function.parameters}, None))
        result = None
        for code, effect in function.body:
            if isinstance(effect, tuple):
                result = effect[1](env)
                continue
            effect(env, lambda callee, a, e: self.run(callee, a, frame, e))
            frame.steps.append({name: value.text() for name, value in env.items()})
        self.stack.pop()
        returned = None if function.result == "void" else Value(function.result, result).text()
        self.events.append(("<", function.name,
                            {v.name: {env[v.name].text()} for v in function.locals}, returned))
        return result


class Frame:
    """What the variables of one call are after each of its statements."""

    def __init__(self, function, parameters):
        self.function, self.parameters, self.steps = function, parameters, []

    def at(self, step):
        """What each may hold before the statement `step`; of one that is not set yet, what it gets first."""
        names = [v.name for v in self.function.locals] + [p.name for p in self.function.parameters]
        values = {}
        for name in names:
            now = self.steps[step - 1].get(name) if step else self.parameters.get(name)
            later = [s[name] for s in self.steps[step:] if name in s]
            values[name] = {now} if now is not None else set(later)
        return values


def program(seed, cc):
    made = Program(seed, cc)
    source, events = made.write()
    final = []
    for event in events:
        if event[0] == "^":
            final.append(("^", event[1], event[2].at(event[3]), None))
        elif event[0] == "$":
            values = {}
            for frame, step in event[2]:
                values.update(frame.at(step))
            final.append(("$", event[1], values, None))
        else:
            final.append(event)
    return source, final


if __name__ == "__main__":
    import sys
    text, known = program(int(sys.argv[1]), len(sys.argv) > 2)
    print(text)
    for one in known:
        print("//", one)
