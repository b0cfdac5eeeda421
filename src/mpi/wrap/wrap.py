#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wrap.py TABLE SHAPE_H LIBRARY OUTPUT: the wrappers of all calls that LIBRARY (openmpi, mpich) has.

What a wrapper does stands in src/mpi/shape/shape.h, which is also where the arguments that shapes want to see are read from:
the fields of struct mpi_args. A shape that is not there (no HAVE_SHAPE_name) is replaced by `plain`.
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "shm"))
import mpi_calls  # noqa: E402

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


def initialiser(call, fields, told):
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


def told_result(call):
    return "told_double(result_)" if call.result == "double" else "TOLD(result_)"


def told_back(call):
    """Arguments that point to one integer or one handle, which the call has handed back."""
    scalar = re.compile(r"(int|MPI_(Comm|Request|Win|File|Group|Datatype|Op|Message|Errhandler|Info|Aint|Count|Offset)) \*")
    return [
        f"        TOLD_BACK(&told_, {i}, {param.name});"
        for i, param in enumerate(call.params, 1)
        if not param.array and scalar.fullmatch(param.type) and param.role not in ("requests", "statuses")
    ]


def told_begins(call):
    lines = ["    struct mpi_told told_;", "    told_clear(&told_);"]
    lines += [f"    told_.par[{i}] = TOLD({param.name});" for i, param in enumerate(call.params, 1) if param.type != "..."]
    return lines


def told_body(call, fields):
    """What a wrapper does instead while its calls are told: see shape.h."""
    params = [declaration(param) for param in call.params]
    head = ", ".join(["struct mpi_self *self_", f"__typeof__({call.name}) *real_"] + params)
    lines = [f"static ASIDE_ {call.result} told_{call.name}({head})", "{"] + told_begins(call)
    back = told_back(call)
    if call.shape == "quick":
        plain = ", ".join(param.name for param in call.params)
        comm = [param.name for param in call.params if param.role == "comm"]
        handle = f"HANDLE_({comm[0]})" if comm else "0"
        lines += [
            f"    bool tells_ = mpi_quick_begins(self_, &told_, {handle});",
            f"    {call.result} result_ = real_({plain});",
            "    if (tells_) {",
            *(line for line in (["        if (result_ == MPI_SUCCESS) {"] + ["    " + line for line in back] + ["        }"]
                                if back and call.result == "int" else [])),
            f"        mpi_quick_ends(self_, &told_, {told_result(call)});",
            "    }",
            "    return result_;",
            "}",
            "",
        ]
        return lines
    result = "result_" if call.result == "int" else "MPI_SUCCESS"
    return lines + [
        f"    struct mpi_args args_ = {initialiser(call, fields, '&told_')};",
        f"    before_{call.shape}(self_, &args_);",
        "    bool tells_ = mpi_tell_begins(self_, &told_);",
        f"    {call.result} result_ = real_({passed_on(call, fields)});",
        f"    mpi_leave(self_, {result});",
        f"    after_{call.shape}(self_, &args_, {result});",
        "    if (tells_) {",
        *(["        if (result_ == MPI_SUCCESS) {"] + ["    " + line for line in back] + ["        }"]
          if back and call.result == "int" else []),
        f"        mpi_tell_ends(self_, &told_, {told_result(call)});",
        "    }",
        "    mpi_done(self_);",
        "    return result_;",
        "}",
        "",
    ]


def body(call, fields):
    """What both entries of a call do, once `real` and `site` are known."""
    params = [declaration(param) for param in call.params]
    plain = ", ".join(param.name for param in call.params)
    told = ", ".join(["self_", "real_"] + [param.name for param in call.params])
    head = ", ".join([f"__typeof__({call.name}) *real_", "uint64_t site_"] + params)
    lines = [f"static inline __attribute__((always_inline)) {call.result} do_{call.name}({head})", "{"]
    if call.shape == "quick":
        lines += [
            f"    if (__builtin_expect(mpi_quick(CALL_{call.name}), 0)) {{",
            "        struct mpi_self *self_ =",
            f"            mpi_quick_tells(CALL_{call.name}, site_, (uintptr_t)__builtin_dwarf_cfa());",
            "        if (self_)",
            f"            return told_{call.name}({told});",
            "    }",
            f"    return real_({plain});",
            "}",
            "",
        ]
        return lines
    result = "result_" if call.result == "int" else "MPI_SUCCESS"
    return lines + [
        f"    struct mpi_self *self_ = mpi_enter(CALL_{call.name}, site_);",
        "    if (__builtin_expect(!self_, 0)) {",
        "        self_ = mpi_tells();",
        f"        return self_ ? told_{call.name}({told}) : real_({plain});",
        "    }",
        f"    struct mpi_args args_ = {initialiser(call, fields, 'NULL')};",
        f"    before_{call.shape}(self_, &args_);",
        f"    {call.result} result_ = real_({passed_on(call, fields)});",
        f"    mpi_leave(self_, {result});",
        f"    after_{call.shape}(self_, &args_, {result});",
        "    mpi_done(self_);",
        "    return result_;",
        "}",
        "",
    ]


def entry(call, kind):
    name = ("P" if kind else "") + call.name
    params = ", ".join(declaration(param) for param in call.params) or "void"
    plain = ", ".join(param.name for param in call.params)
    passed = ", ".join(["real_", "site_"] + [param.name for param in call.params])
    return [
        f"static {call.result} scry_{name}({params})",
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


def variadic(call, fields):
    """Its entries are written in assembly, and leave the arguments where they are."""
    first = next(param for param in call.params if param.role == "level")
    return [
        f"void *mpi_pcontrol({declaration(first).replace('const ', '')}, uint64_t site_, uint32_t kind_)",
        "{",
        f"    struct mpi_self *self_ = mpi_enter(CALL_{call.name}, site_), *telling_ = NULL;",
        *told_begins(call),
        "    if (!self_)",
        "        self_ = telling_ = mpi_tells();",
        "    if (self_) {",
        f"        struct mpi_args args_ = {initialiser(call, fields, '&told_')};",
        f"        before_{call.shape}(self_, &args_);",
        "        bool tells_ = telling_ && mpi_tell_begins(self_, &told_);",
        "        mpi_leave(self_, MPI_SUCCESS);",
        f"        after_{call.shape}(self_, &args_, MPI_SUCCESS);",
        "        if (tells_)",
        "            mpi_tell_ends(self_, &told_, MPI_SUCCESS);",
        "        mpi_done(self_);",
        "    }",
        f"    return mpi_real[CALL_{call.name}][kind_];",
        "}",
        "",
    ]


def wrappers(calls, fields, library):
    out = [
        "/* SPDX-License-Identifier: Apache-2.0 */",
        f"/* Generated by src/mpi/wrap/wrap.py from src/shm/mpi_calls.table: the wrappers for {library}. */",
        "#ifndef SHAPE_HEADER /* tests have another */",
        '#define SHAPE_HEADER "mpi/shape/shape.h"',
        "#endif",
        "#include SHAPE_HEADER",
        '#include "mpi/wrap/wrap.h"',
        "",
        '#define ASIDE_ __attribute__((noinline, section(".text.told"))) /* away from the others, but not slow */',
        "/* as HANDLE_OF of mpi/count/library.h */",
        "#define HANDLE_(handle) (sizeof(handle) == 4 ? (uint64_t)(uint32_t)(uintptr_t)(handle) : (uint64_t)(uintptr_t)(handle))",
        "",
    ]
    out += shape_macros(calls)
    for call in calls:
        if any(param.type == "..." for param in call.params):
            out += variadic(call, fields)
        else:
            out += told_body(call, fields) + body(call, fields) + entry(call, 0) + entry(call, 1)
    out += ["const struct mpi_entry mpi_entries[CALL_COUNT] = {"]
    for call in calls:
        out.append(
            f"    [CALL_{call.name}] = {{{{(void *)scry_{call.name}, (void *)scry_P{call.name}}}, "
            f"{int(bool(HELPERS.fullmatch(call.name)))}, {int(call.shape == 'quick')}}},"
        )
    return out + ["};"]


def main():
    if len(sys.argv) != 5 or sys.argv[3] not in mpi_calls.LIBRARIES:
        sys.exit(__doc__.splitlines()[0])
    table, shape, library, output = sys.argv[1:]
    calls = [with_shape(call) for call in mpi_calls.read_table(table) if library in call.libraries]
    with open(output, "w", encoding="utf-8") as file:
        file.write("\n".join(wrappers(calls, fields_of(shape), library)) + "\n")


if __name__ == "__main__":
    main()
