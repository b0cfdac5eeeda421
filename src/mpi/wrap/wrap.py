#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wrap.py TABLE SHAPE_H LIBRARY TABLES WRAPPERS...: the wrappers of all calls that LIBRARY (openmpi, mpich) has.

Calls that programs make often have wrappers of their own, spread over the files WRAPPERS. TABLES is for table.c, which does
the same for the others, and for most calls while they are reported. What a wrapper does stands in src/mpi/shape/shape.h, which
is also where the arguments that shapes want to see are read from: the fields of struct mpi_args. A shape that is not there
(no HAVE_SHAPE_name) is replaced by `plain`.
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "shm"))
import mpi_calls  # noqa: E402

WRAP_PARAMS = 15  # as in table.h
# Local calls by which Fortran's wrappers in the libraries convert arguments: how many, how large, of which handle.
HELPERS = re.compile(
    r"MPI_(\w+_(c2f|f2c)|Comm_(size|rank|remote_size|test_inter|group|get_attr|get_name)|Topo_test|Cartdim_get|"
    r"Cart_get|Graphdims_get|Graph_get|Graph_neighbors_count|Dist_graph_neighbors_count|Type_(size|get_extent|"
    r"get_envelope)(_x)?|Initialized|Finalized|Attr_get|Group_(size|free)|Status_\w+|Get_count|Get_elements\w*|Info_\w+|"
    r"Buffer_detach)"
)

# Collectives that programs call most: all that is done for them stands in the wrapper, which so knows what is needed of
# its arguments.
SHORT = ("barrier", "bcast", "reduce", "allreduce")

# Calls that are made once in a while, and take longer than what is done for them.
SELDOM_CLASSES = ("comm", "env", "group", "info", "io", "tool", "type")
SELDOM_SHAPES = ("coll_init", "win_new", "win_free", "win_name")


def is_variadic(call):
    return any(param.type == "..." for param in call.params)


def is_often(call):
    """Has a wrapper of its own. (MPI_Wtime, MPI_Comm_rank ... are quick.)"""
    seldom = call.klass in SELDOM_CLASSES and (call.shape != "quick" or call.klass == "tool")
    return not (seldom or call.shape in SELDOM_SHAPES or is_variadic(call))


def in_vain(call):
    """What is true when the call, a poll that may do without a time stamp (count/poll.c), has brought nothing; else None."""
    empty = {"iprobe": "!*{flag}", "test": "!*{flag}", "testall": "!*{flag}", "testany": "!*{flag}", "testsome": "*{outcount} == 0"}
    if call.shape in empty:
        return empty[call.shape].format(**{param.role: param.name for param in call.params})
    return None


def is_told_alone(call):
    """Has a body of its own for when it is reported, which takes 60 ns less than to go by the table."""
    most = call.klass in ("p2p", "completion") and call.shape != "plain" or call.shape == "coll_short"
    return most and is_often(call) and not call.name.endswith("_c")


def with_shape(call):
    return call._replace(shape="coll_short") if call.shape == "coll" and call.volume in SHORT else call


def fields_of(path):
    with open(path, encoding="utf-8") as file:
        body = re.search(r"struct mpi_args \{(.*?)\n\};", file.read(), re.S)
    body = re.sub(r"/\*.*?\*/", "", body[1], flags=re.S)
    fields = set()
    for declaration in body.split(";"):
        words = declaration.replace("*", " ").split(",")
        fields.update(word.split()[-1] for word in words if word.split())
    return fields


def declaration(param):
    return param.type + ("" if param.type.endswith("*") else " ") + param.name + param.array


def shape_macros(calls):
    lines = []
    for shape in sorted({call.shape for call in calls} - {"quick", "plain"}):
        lines += [
            f"#ifdef HAVE_SHAPE_{shape}",
            f"#define before_{shape} shape_{shape}_before",
            f"#define after_{shape} shape_{shape}_after",
            "#else",
            f"#define before_{shape} shape_plain_before",
            f"#define after_{shape} shape_plain_after",
            "#endif",
        ]
    lines += ["#define before_plain shape_plain_before", "#define after_plain shape_plain_after", ""]
    return lines


def initialiser(call, fields, told="NULL"):
    volume = mpi_calls.identifier("CALL_VOLUME_", call.volume)
    parts = [f".call = CALL_{call.name}", f".volume = {volume}", f".blocking = {'true' if call.blocking else 'false'}"]
    parts.append(f".told = {told}")
    parts += [f".{param.role} = {param.name}" for param in call.params if param.role in fields]
    return "{" + ", ".join(parts) + "}"


def passed_on(call, fields):
    """The arguments of the call itself: a shape may have put a status of its own into args_."""
    return ", ".join(
        "args_." + param.role if param.role in ("status", "statuses") and param.role in fields else param.name
        for param in call.params
    )


def told_body(call, fields):
    """What the wrapper of a call that programs make most does instead while it is reported."""
    params = [declaration(param) for param in call.params]
    head = ", ".join(["struct mpi_self *self_", f"__typeof__({call.name}) *real_"] + params)
    back = [f"            TOLD_BACK(&told_, {i}, {param.name});" for i, param in enumerate(call.params, 1) if is_handed_back(param)]
    return [
        f"static __attribute__((noinline, section(\".text.told\"))) int told_{call.name}({head})",
        "{",
        "    struct mpi_told told_;",
        *(f"    told_.par[{i}] = TOLD({param.name});" for i, param in enumerate(call.params, 1)),
        f"    struct mpi_args args_ = {initialiser(call, fields, '&told_')};",
        f"    before_{call.shape}(self_, &args_);",
        "    bool tells_ = mpi_tell_begins(self_, &told_);",
        f"    int result_ = real_({passed_on(call, fields)});",
        "    mpi_leave(self_, result_);",
        f"    after_{call.shape}(self_, &args_, result_);",
        "    if (tells_) {",
        *(["        if (result_ == MPI_SUCCESS) {"] + back + ["        }"] if back else []),
        "        mpi_tell_ends(self_, &told_, TOLD(result_));",
        "    }",
        "    mpi_done(self_);",
        "    return result_;",
        "}",
        "",
    ]


def poll_body(call, fields, nothing):
    """What a wrapper does first: while polls may do without a time stamp, they do little else."""
    roles = {param.role: param.name for param in call.params}
    status = next((role for role in ("status", "statuses") if role in roles and call.shape != "iprobe"), None)
    lines = [f"    struct mpi_self *polls_ = mpi_poll(CALL_{call.name}, site_);", "    if (polls_) {"]
    if "request" in roles:
        lines += [f"        poll_note_one(polls_, {roles['request']});"]
    elif "requests" in roles:
        lines += [f"        poll_note_many(polls_, {roles['request_count']}, {roles['requests']});"]
    given = status and roles[status]
    if status == "status":
        lines += [f"        MPI_Status *status_ = poll_status(polls_, {given});"]
    elif status:
        lines += [f"        MPI_Status *status_ = poll_statuses(polls_, {roles['request_count']}, {given});"]
    passed = ", ".join("status_" if param.name == given else param.name for param in call.params)
    return lines + [
        f"        int result_ = real_({passed});",
        f"        if (__builtin_expect(result_ == MPI_SUCCESS && {nothing}, 1)) {{",
        "            mpi_poll_in_vain(polls_);",
        "            return result_;",
        "        }",
        f"        mpi_poll_came(polls_, CALL_{call.name}, site_, result_);",
        f"        struct mpi_args args_ = {initialiser(call, fields)};",
        *([f"        args_.{status} = status_;"] if status else []),
        f"        after_{call.shape}(polls_, &args_, result_);",
        "        mpi_done(polls_);",
        "        return result_;",
        "    }",
    ]


def body(call, fields):
    """What both entries of a call do, once `real` and `site` are known."""
    params = [declaration(param) for param in call.params]
    plain = ", ".join(param.name for param in call.params)
    tell = ", ".join([f"WRAP_TELL({call.name}, kind_"] + [param.name for param in call.params]) + ")"
    head = ", ".join([f"__typeof__({call.name}) *real_", "uint64_t site_", "uint32_t kind_"] + params)
    lines = [f"static inline __attribute__((always_inline)) {call.result} do_{call.name}({head})", "{"]
    if call.shape == "quick":
        lines += [
            f"    if (__builtin_expect(mpi_quick(CALL_{call.name}), 0) &&",
            f"        mpi_quick_tells(CALL_{call.name}, site_, (uintptr_t)__builtin_dwarf_cfa()))",
            f"        return {tell};",
            f"    return real_({plain});",
            "}",
            "",
        ]
        return lines
    result = "result_" if call.result == "int" else "MPI_SUCCESS"
    nothing = in_vain(call)
    if nothing:
        lines += poll_body(call, fields, nothing)
    lines += [f"    struct mpi_self *self_ = mpi_enter(CALL_{call.name}, site_);"]
    if is_told_alone(call):
        lines = told_body(call, fields) + lines + [
            "    if (__builtin_expect(!self_, 0)) {",
            "        if (!(self_ = mpi_tells()))",
            f"            return real_({plain});",
            "        bool acted_ = false;",
            "        if (mpi_acts_on_pars(self_)) {",
            "            int64_t par_[1 + MPI_TOLD_PARS];",
            *(f"            par_[{i}] = TOLD({param.name});" for i, param in enumerate(call.params, 1)),
            "            acted_ = mpi_acts(self_, (const struct mpi_told *)(const void *)par_, MPI_ACTS_PARS);",
            "        }",
            "        if (!acted_)",
            f"            return told_{call.name}(self_, real_, {plain});",
            "    }",
        ]
    else:
        lines += [
            "    if (__builtin_expect(!self_, 0))",
            f"        return mpi_tells() ? {tell} : real_({plain});",
        ]
    return lines + [
        f"    struct mpi_args args_ = {initialiser(call, fields)};",
        f"    before_{call.shape}(self_, &args_);",
        f"    {call.result} result_ = real_({passed_on(call, fields)});",
        f"    mpi_leave(self_, {result});",
        f"    after_{call.shape}(self_, &args_, {result});",
        "    mpi_done(self_);",
        *([f"    if (result_ == MPI_SUCCESS && {nothing})", "        mpi_poll_timed(self_);"] if nothing else []),
        "    return result_;",
        "}",
        "",
    ]


def entry(call, kind):
    name = ("P" if kind else "") + call.name
    params = ", ".join(declaration(param) for param in call.params) or "void"
    plain = ", ".join(param.name for param in call.params)
    passed = ", ".join(["real_", "site_", str(kind)] + [param.name for param in call.params])
    return [
        f"__typeof__({call.name}) scry_{name};",
        f"{call.result} scry_{name}({params})",
        "{",
        f"    __typeof__({call.name}) *real_ = (__typeof__(real_))mpi_real[CALL_{call.name}][{kind}];",
        "    uint64_t site_ = (uint64_t)__builtin_return_address(0);",
        "    if (__builtin_expect(site_ - mpi_fortran.low < mpi_fortran.size, 0) &&",
        f"        !(site_ = mpi_fortran_site(CALL_{call.name}, site_)))",
        f"        return real_({plain});",
        f"    return do_{call.name}({passed});",
        "}",
        "",
    ]


def wrappers(calls, fields):
    """Of the calls that have their own."""
    lines = ["#pragma GCC visibility push(hidden)", ""]
    for call in calls:
        lines += body(call, fields) + entry(call, 0) + entry(call, 1)
    return lines + ["#pragma GCC visibility pop"]


def is_handed_back(param):
    """It points to one integer or one handle, which the call hands back."""
    scalar = re.compile(r"(int|MPI_(Comm|Request|Win|File|Group|Datatype|Op|Message|Errhandler|Info|Aint|Count|Offset)) \*")
    return not param.array and scalar.fullmatch(param.type) and param.role not in ("requests", "statuses")


def back_size(param):
    return f"sizeof({param.type[:-2]})" if is_handed_back(param) else "0"


def param_row(param, fields):
    pointer = param.array or param.type.endswith(("*", "_function"))
    size = "sizeof(void *)" if pointer else f"sizeof({param.type})"
    held = f"HELD_({param.role})" if param.role in fields else "0, 0"
    return f"    {{{held}, {size}, {back_size(param)}}},"


def tables(calls, fields):
    """What table.c does for each call, and where each is entered."""
    shapes = sorted({call.shape for call in calls} - {"quick"})
    lines = [
        "#define HELD_(role) offsetof(struct mpi_args, role), sizeof(((struct mpi_args *)0)->role)",
        "",
        "const struct wrap_param wrap_params[] = {",
    ]
    firsts, count = {}, 0
    for call in calls:
        params = [param for param in call.params if param.type != "..."]
        if len(params) > WRAP_PARAMS:
            sys.exit(f"{call.name} has more parameters than WRAP_PARAMS of table.h")
        firsts[call.name] = count
        count += len(params)
        lines += [param_row(param, fields) for param in params]
    lines += ["};", ""]
    for shape in shapes:
        lines += [
            f"static void table_{shape}_before(struct mpi_self *self, struct mpi_args *args)", "{",
            f"    before_{shape}(self, args);", "}", "",
            f"static void table_{shape}_after(struct mpi_self *self, struct mpi_args *args, int result)", "{",
            f"    after_{shape}(self, args, result);", "}", "",
        ]
    lines += ["const struct wrap_shape wrap_shapes[] = {"]
    lines += [f"    {{table_{shape}_before, table_{shape}_after}}," for shape in shapes] + ["};", ""]
    lines += ["const struct wrap_call wrap_calls[CALL_COUNT] = {"]
    for call in calls:
        quick = call.shape == "quick"
        numbers = {param.role: i for i, param in enumerate(call.params, 1) if param.role in fields}
        backs = sum(1 << i for i, param in enumerate(call.params) if back_size(param) != "0")
        lines.append(
            f"    [CALL_{call.name}] = {{{firsts[call.name]}, {backs}, {0 if quick else shapes.index(call.shape)}, {int(quick)}, "
            f"{numbers.get('comm', 0) if quick else 0}, {numbers.get('status', numbers.get('statuses', 0))}, "
            f"sizeof({call.result}), {int(call.result == 'int')}, {int(call.result == 'double')}}},"
        )
    lines += ["};", "", "#pragma GCC visibility push(hidden)"]
    lines += [f"__typeof__({call.name}) scry_{call.name}, scry_P{call.name};" for call in calls if is_often(call)]
    lines += ["#pragma GCC visibility pop", "", "const struct mpi_entry mpi_entries[CALL_COUNT] = {"]
    for call in calls:
        own = is_often(call) or is_variadic(call)
        entries = [f"(void *)scry_{call.name}", f"(void *)scry_P{call.name}"] if own else [
            f"WRAP_BY_TABLE({call.name}, {kind})" for kind in (0, 1)]
        lines.append(
            f"    [CALL_{call.name}] = {{{{{', '.join(entries)}}}, "
            f"{int(bool(HELPERS.fullmatch(call.name)))}, {int(call.shape == 'quick')}}},"
        )
    return lines + ["};"]


def head(library):
    return [
        "/* SPDX-License-Identifier: Apache-2.0 */",
        f"/* Generated by src/mpi/wrap/wrap.py from src/shm/mpi_calls.table: the wrappers for {library}. */",
        '#include "mpi/wrap/table.h"',
        '#include "mpi/wrap/wrap.h"',
        "",
        "#include <stddef.h>",
        "",
    ]


def main():
    if len(sys.argv) < 6 or sys.argv[3] not in mpi_calls.LIBRARIES:
        sys.exit(__doc__.splitlines()[0])
    table, shape, library, tables_output, *outputs = sys.argv[1:]
    fields = fields_of(shape)
    calls = [with_shape(call) for call in mpi_calls.read_table(table) if library in call.libraries]
    often = [call for call in calls if is_often(call)]
    texts = {tables_output: tables(calls, fields)}
    for i, output in enumerate(outputs):
        texts[output] = wrappers(often[i :: len(outputs)], fields)
    for output, lines in texts.items():
        with open(output, "w", encoding="utf-8") as file:
            file.write("\n".join(head(library) + shape_macros(calls) + lines) + "\n")


if __name__ == "__main__":
    main()
