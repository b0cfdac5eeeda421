# SPDX-License-Identifier: Apache-2.0
"""The schemas of doc/reference, and a checker for the words of JSON Schema that they use."""

import json
import os

import scrytest

KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def schema(name):
    with open(os.path.join(scrytest.SOURCE, "doc", "reference", f"{name}.schema.json"), encoding="utf-8") as file:
        return json.load(file)


def is_kind(value, kind):
    if kind in ("integer", "number"):
        numbers = int if kind == "integer" else (int, float)
        return isinstance(value, numbers) and not isinstance(value, bool)
    return isinstance(value, KINDS[kind])


def violations(value, rule, where="$"):
    """What in a value a JSON schema forbids, for the words that our schemas use."""
    unknown = set(rule) - {"$schema", "title", "description", "type", "properties", "required", "additionalProperties",
                           "items", "enum", "minimum", "oneOf"}
    if unknown:
        yield f"{where}: this checker does not know {unknown}"
    if "oneOf" in rule:
        found = [list(violations(value, each, where)) for each in rule["oneOf"]]
        if sum(not each for each in found) != 1:
            yield f"{where}: {value!r} is not one of them, nearest: {min(found, key=len)}"
    kinds = rule.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(is_kind(value, kind) for kind in kinds):
        yield f"{where}: {value!r} is not of type {kinds}"
        return
    if "enum" in rule and value not in rule["enum"]:
        yield f"{where}: {value!r} is none of {rule['enum']}"
    if "minimum" in rule and value is not None and value < rule["minimum"]:
        yield f"{where}: {value!r} is too small"
    if isinstance(value, dict):
        properties = rule.get("properties", {})
        for name in rule.get("required", []):
            if name not in value:
                yield f"{where}: {name} is missing"
        for name, part in value.items():
            if name in properties:
                yield from violations(part, properties[name], f"{where}.{name}")
            elif rule.get("additionalProperties") is False:
                yield f"{where}: {name} is not in the schema"
    if isinstance(value, list) and "items" in rule:
        for i, part in enumerate(value):
            yield from violations(part, rule["items"], f"{where}[{i}]")
