#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mpi_calls.py TABLE HEADER SOURCE: makes shm/mpi_calls.h and shm/mpi_calls.c from the table of MPI calls.

Also the module that reads the table, for those who make something else of it (src/mpi/wrap/wrap.py).
"""

import collections
import re
import sys
import zlib

CLASSES = "p2p completion collective onesided io comm type group info env other tool".split()
LIBRARIES = ("openmpi", "mpich")
WAITS = "- send receive both requests any_request collective finalize start target io others".split()
GATHERING = "otherwise all_to_all one_to_all all_to_one by_times by_exits".split()
TRAITS = "local asks some buffered synchronous posts_send posts_receive received matched completes spawns meets epoch".split()
ROLES = (
    "- buf sbuf rbuf count scount rcount counts scounts rcounts lcounts lscounts lrcounts datatype stype rtype stypes "
    "rtypes newtype op dest source root tag stag rtag comm intercomm newcomm group color key info request "
    "request_value requests request_count message status statuses flag index outcount indices partitions win newwin "
    "tdisp tcount ttype size file newfile offset name level errorcode required provided fd"
).split()

Param = collections.namedtuple("Param", "type name array role")  # type "...": the rest of a variadic call
Call = collections.namedtuple("Call", "name klass shape volume blocking libraries result params text waits polls gathering traits")


class TableError(Exception):
    pass


def split_params(text):
    """Commas inside of brackets do not separate."""
    parts, depth, part = [], 0, ""
    for char in text:
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += char
    return parts + [part.strip()]


def parse_param(text):
    if text == "...":
        return Param("...", "", "", "-")
    declaration, _, role = text.rpartition(":")
    found = re.fullmatch(r"(.*?[ *])([A-Za-z_]\w*)((?:\[\w*\])*)", declaration)
    if not found:
        raise TableError(f"`{text}` is not `type name:role`")
    if role not in ROLES:
        raise TableError(f"`{text}`: there is no role {role}")
    return Param(found[1].strip(), found[2], found[3], role)


def parse_line(line):
    fields = line.split(None, 5)
    if len(fields) != 6:
        raise TableError("a row is NAME CLASS SHAPE VOLUME blocking|- PARAMETERS")
    name, klass, shape, volume, blocking, rest = fields
    notes = {}
    while (found := re.match(r"(only|returns|waits|polls|gathering|is)=(\S+)\s+", rest)) is not None:
        notes[found[1]] = found[2]
        rest = rest[found.end() :]
    libraries = (notes["only"],) if "only" in notes else LIBRARIES
    waits = notes.get("waits", "io" if klass == "io" else "others" if blocking == "blocking" else "-")
    by_class = {"io": "by_exits" if volume in ("read", "write") else "by_times", "comm": "by_times", "onesided": "by_times"}
    gathering = notes.get("gathering", by_class.get(klass, "otherwise"))
    traits = set(notes["is"].split(",")) if "is" in notes else set()
    if not (traits <= set(TRAITS) and waits in WAITS and gathering in GATHERING):
        raise TableError(f"{name} {waits} {gathering} {','.join(traits)}: unknown")
    traits |= {"asks"} if "polls" in notes else set()
    traits |= {"local"} if shape in ("quick", "plain") else set()
    if not re.fullmatch(r"MPI_\w+", name) or klass not in CLASSES or blocking not in ("blocking", "-"):
        raise TableError(f"{name} {klass} {blocking}: unknown")
    if not set(libraries) <= set(LIBRARIES):
        raise TableError(f"only={libraries[0]}: unknown")
    params = [] if rest.strip() == "void" else [parse_param(part) for part in split_params(rest)]
    roles = [param.role for param in params if param.role != "-"]
    if len(roles) != len(set(roles)):
        raise TableError(f"{name} has a role twice")
    return Call(name, klass, shape, volume, blocking == "blocking", libraries, notes.get("returns", "int"), params,
                " ".join(line.split()), waits, notes.get("polls"), gathering, [t for t in TRAITS if t in traits])


def read_table(path):
    calls = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip() or line.startswith("#"):
                continue
            try:
                calls.append(parse_line(line.strip()))
            except TableError as error:
                sys.exit(f"{path}:{number}: {error}")
    calls.sort(key=lambda call: call.name)
    for one, other in zip(calls, calls[1:]):
        if one.name == other.name:
            sys.exit(f"{path}: {one.name} is there twice")
    check_large(path, {call.name: call for call in calls})
    return calls


def check_large(path, calls):
    """A call with counts of MPI_Count does what the one without does."""
    columns = ("klass", "shape", "volume", "blocking", "waits", "polls", "gathering", "traits")
    for large in calls.values():
        small = calls.get(large.name.removesuffix("_c"), large)
        differing = [name for name in columns if getattr(large, name) != getattr(small, name)]
        if differing:
            sys.exit(f"{path}: {large.name} and {small.name} differ: {', '.join(differing)}")


def c_type(param):
    """As a parameter is declared, without its name."""
    return param.type + (" " if param.array else "") + param.array


def identifier(prefix, word):
    return prefix + ("NONE" if word == "-" else word.upper())


def words_enum(tag, prefix, words, note):
    lines = [f"enum {tag} {{ /* {note} */"]
    lines += [f"    {identifier(prefix, word)}," for word in words]
    return lines + ["};", ""]


def volumes_of(calls):
    return ["-"] + sorted({call.volume for call in calls} - {"-"})


def header(calls):
    digest = zlib.crc32("\n".join(call.text for call in calls).encode())
    out = [
        "/* SPDX-License-Identifier: Apache-2.0 */",
        "/* Generated by src/shm/mpi_calls.py from src/shm/mpi_calls.table, which says what all this means. */",
        "#ifndef SCRY_SHM_MPI_CALLS_H",
        "#define SCRY_SHM_MPI_CALLS_H",
        "",
        "#include <stdbool.h>",
        "#include <stdint.h>",
        "",
        f"#define CALLS_HASH UINT32_C(0x{digest:08x}) /* of the table: both sides of the MPI area have the same */",
        "",
        "enum call_id { /* in the order of their names */",
        "    CALL_NONE,",
    ]
    out += [f"    CALL_{call.name}," for call in calls]
    out += ["    CALL_COUNT", "};", ""]
    out += words_enum("call_class", "CALL_CLASS_", CLASSES, "class")
    out += words_enum("call_volume", "CALL_VOLUME_", volumes_of(calls), "rule of what is transferred")
    out += words_enum("call_role", "CALL_ROLE_", ROLES, "what a parameter is")
    out += words_enum("call_waits", "CALL_WAITS_", WAITS, "for what it waits")
    out += words_enum("call_gathering", "CALL_GATHERING_", GATHERING, "who of a collective waits for whom")
    out += ["enum call_trait {", *[f"    CALL_IS_{trait.upper()} = 1 << {i}," for i, trait in enumerate(TRAITS)], "};", ""]
    out += [
        "enum { CALL_OPENMPI = 1, CALL_MPICH = 2 }; /* the libraries that have it: 1 << (enum mpi_library - 1) */",
        "",
        "/* No addresses: they would be relocated in each process, which then has the table as its own memory. */",
        "struct call_param {",
        "    uint16_t name_at, type_at; /* in call_texts */",
        "    uint8_t role;              /* enum call_role */",
        "};",
        "",
        "struct call_info {",
        f"    char name[{max(len(call.name) for call in calls) + 1}]; /* \"MPI_Send\"; of CALL_NONE \"\" */",
        "    uint16_t result_at, shape_at; /* in call_texts */",
        "    uint16_t first_param;         /* in call_params */",
        "    uint8_t param_count, class, volume, libraries, waits, gathering;",
        "    uint16_t polls;  /* enum call_id: what waits for what it asks for; CALL_NONE: it does not ask */",
        "    uint16_t traits; /* enum call_trait */",
        "    bool blocking, variadic;",
        "};",
        "",
        "extern const struct call_info call_infos[CALL_COUNT];",
        "extern const struct call_param call_params[];",
        "extern const char call_texts[];",
        "extern const char *const call_class_names[]; /* by enum call_class */",
        "extern const char *const call_role_names[];  /* by enum call_role */",
        "",
        "static inline const char *call_param_name(const struct call_param *param)",
        "{",
        "    return call_texts + param->name_at;",
        "}",
        "",
        "/* Its C type, with the brackets of an array behind it. */",
        "static inline const char *call_param_type(const struct call_param *param)",
        "{",
        "    return call_texts + param->type_at;",
        "}",
        "",
        "/* The first of its parameters. */",
        "static inline const struct call_param *call_info_params(const struct call_info *info)",
        "{",
        "    return call_params + info->first_param;",
        "}",
        "",
        "/* C type of what it returns. */",
        "static inline const char *call_result(const struct call_info *info)",
        "{",
        "    return call_texts + info->result_at;",
        "}",
        "",
        "static inline const char *call_shape(const struct call_info *info)",
        "{",
        "    return call_texts + info->shape_at;",
        "}",
        "",
        "/* Of any number: one that is none is as CALL_NONE. */",
        "static inline const struct call_info *call_info(uint32_t call)",
        "{",
        "    return &call_infos[call < CALL_COUNT ? call : CALL_NONE];",
        "}",
        "",
        "static inline bool call_is(uint32_t call, enum call_trait trait)",
        "{",
        "    return call_info(call)->traits & trait;",
        "}",
        "",
        "/* The number of a call by its name, with MPI_ or PMPI_ in front, or CALL_NONE. */",
        "enum call_id call_find(const char *name);",
        "",
        "#endif",
    ]
    return "\n".join(out) + "\n"


def source(calls):
    params, info, texts = [], [], {"": 0}

    def place(text):
        return texts.setdefault(text, sum(len(other) + 1 for other in texts))

    for call in calls:
        fixed = [param for param in call.params if param.type != "..."]
        variadic = len(fixed) != len(call.params)
        at = len(params)
        for param in fixed:
            role = identifier("CALL_ROLE_", param.role)
            params.append(f'    {{{place(param.name)}, {place(c_type(param))}, {role}}}, /* {c_type(param)} {param.name} */')
        libraries = " | ".join("CALL_" + library.upper() for library in call.libraries)
        info.append(
            f'    [CALL_{call.name}] = {{"{call.name}", {place(call.result)}, {place(call.shape)}, {at}'
            + f', {len(fixed)}, CALL_CLASS_{call.klass.upper()}, {identifier("CALL_VOLUME_", call.volume)}, {libraries}, '
            + f'{identifier("CALL_WAITS_", call.waits)}, CALL_GATHERING_{call.gathering.upper()}, CALL_{call.polls or "NONE"}, '
            + (" | ".join("CALL_IS_" + trait.upper() for trait in call.traits) or "0") + ", "
            + f'{"true" if call.blocking else "false"}, {"true" if variadic else "false"}}},'
        )
    out = [
        "/* SPDX-License-Identifier: Apache-2.0 */",
        "/* Generated by src/shm/mpi_calls.py from src/shm/mpi_calls.table. */",
        '#include "shm/mpi_calls.h"',
        "",
        "#include <string.h>",
        "",
        "const char call_texts[] =",
        *[f'    "{text}\\0"' for text in texts],
        '    "";',
        "",
        "const struct call_param call_params[] = {",
        *params,
        "};",
        "",
        "const struct call_info call_infos[CALL_COUNT] = {",
        '    [CALL_NONE] = {"", 0, 0, 0, 0, CALL_CLASS_OTHER, CALL_VOLUME_NONE, 0, 0, 0, 0, 0, false, false},',
        *info,
        "};",
        "",
        "const char *const call_class_names[] = {",
        *[f'    "{name}",' for name in CLASSES],
        "};",
        "",
        "const char *const call_role_names[] = {",
        *[f'    "{name}",' for name in ROLES],
        "};",
        "",
        "enum call_id call_find(const char *name)",
        "{",
        "    if (name[0] == 'P')",
        "        name++;",
        "    unsigned low = 1, high = CALL_COUNT;",
        "    while (low < high) {",
        "        unsigned middle = low + (high - low) / 2;",
        "        int order = strcmp(name, call_infos[middle].name);",
        "        if (order == 0)",
        "            return (enum call_id)middle;",
        "        if (order < 0)",
        "            high = middle;",
        "        else",
        "            low = middle + 1;",
        "    }",
        "    return CALL_NONE;",
        "}",
    ]
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__.splitlines()[0])
    calls = read_table(sys.argv[1])
    for path, text in ((sys.argv[2], header(calls)), (sys.argv[3], source(calls))):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
