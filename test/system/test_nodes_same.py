# SPDX-License-Identifier: Apache-2.0
"""The same requests, of all services, to a tool with three processes of one machine and to one with a process on each of
three: the replies differ in nothing but tokens and numbers. What may change the processes gets objects that do not exist."""

import os
import re

from nodestest import *

VALUES = {"integer": ("1", "0", "-1", "0x2000000"), "floating": ("1.0",), "string": ('"x"', '""'), "any": ("1",),
          "binary": ("1#x",)}


def services():
    """(name, kind, parameters' types) of what the reference has."""
    with open(os.path.join(scrytest.SOURCE, "doc", "reference", "services.md"), encoding="utf-8") as file:
        for line in file:
            cells = [cell.strip(" `") for cell in line.replace(r"\|", "/").split(" | ")]
            if line.startswith("| `") and len(cells) > 5 and "->" in cells[4]:
                before = cells[4].split("->")[0]
                yield cells[0].strip("| `"), cells[1], [each.strip() for each in before.split(",") if each.strip()]


def cases():
    """The requests of test/lang that have no event, and ask no nodes: what is wrong with them is said alike."""
    folder = os.path.join(scrytest.SOURCE, "test", "lang")
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".test"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            for case in file.read().split("\n\n"):
                lines = [line for line in case.split("\n") if not line.startswith("%")]
                if lines[:1] == ["request"] and len(lines) > 1 and not re.match(r"[a-z]\w*\(|.*node_", lines[1]):
                    yield lines[1]


def value(kind, number):
    """A value of a parameter's type; the number chooses one."""
    base = re.match(r"\[?(\w+)", kind)[1]
    values = VALUES.get(base, ("1",))
    text = values[number % len(values)]
    return f"[{text}]" if re.match(r"\[?\w+(<[^>]*>)?\*", kind) else text


class Same(NodesTest):
    def setUp(self):
        super().setUp()
        one = self.nodes(1)[0]
        self.one = self.tool
        self.ask(': node_attach2("")')
        targets = [one.target("puppet", 0) for _ in range(3)]
        tokens = [self.attach(target) for target in targets]
        self.threads = [self.thread(token) for token in tokens]
        nodes = self.nodes(3)
        self.ask(': node_attach2("")')
        names = ["n_1", *self.reach(*nodes[1:])]
        there = [self.attach(node.target("puppet", 0), name) for node, name in zip(nodes, names)]
        self.three = self.tool
        self.renamed = dict(zip(tokens + self.threads, there + [self.thread(token) for token in there]))

    def thread(self, process):
        return self.ask(f": thread_get_info([{process}], 0)").objects()[0]

    def said(self, tool, request):
        """The word on the whole, and of each action what is said of each object, in order; numbers are left out."""
        reply = tool.request(request, timeout=20.0)
        names = {new: old for old, new in self.renamed.items()} if tool is self.three else {}

        def plain(text):
            text = re.sub(r"\b[a-z]+_\d+_\d+\b", lambda token: names.get(token[0], token[0]), text or "")
            return re.sub(r"0x[0-9a-f]+|/tmp/\w+|(?<![_\w])-?\d+(\.\d+)?(e[-+]\d+)?", "#", text)

        def key(each):
            """On one machine, objects that cannot be worked on are answered before the others."""
            return (1, ()) if each[1] < 16 else (0, each)

        return [sorted([(names.get(name, name), entry["status"], plain(entry["result"]))
                        for entry in element for name in entry["objects"] or [""]], key=key) for element in reply.services]

    def requests(self):
        processes, threads = list(self.renamed)[:3], self.threads
        lists = {"p": ["[]", processes, processes[::-1], [threads[1]], [processes[2], "p_1_77"], ["u_0", processes[0]]],
                 "t": ["[]", threads, threads[::-1], [processes[1], threads[0]], [threads[2], "t_1_77"]]}
        for name, kind, params in services():
            found = re.match(r"token(?:<(\w+)>)?", params[0]) if params else None
            # proc_migrate is in no version: arguments are checked first where other nodes could have it
            if kind == "event" or name.startswith(("node_", "job_", "proc_migrate")) or not found:
                continue
            objects = lists.get(found[1], []) if kind == "information" else []
            for i, each in enumerate([*objects, ["p_1_77"], ["c_1_99"], ["e_1", "p_1_78"]]):
                arguments = [each if isinstance(each, str) else f"[{','.join(each)}]"]
                arguments += [value(param, i) for param in params[1:] if not param.startswith("[")]
                yield f": {name}({','.join(arguments)})"
        yield from cases()
        # and what is wrong in other ways
        yield from (": print(1, 2)", ": proc_get_info([], 1.5)", ": no_such_service([])", ": {print([1]) ; thread_stop([p_1_77])}",
                    ": proc_get_info([], 0) version() ; print([1])", ":", ': proc_checkpoint([], "name")')

    def there(self, request):
        return re.sub(r"\b[pt]_\d+_\d+\b", lambda token: self.renamed.get(token[0], token[0]), request)

    def test_all_services(self):
        count = 0
        for request in self.requests():
            with self.subTest(request):
                self.assertEqual(self.said(self.one, request), self.said(self.three, self.there(request)))
            count += 1
        self.assertGreater(count, 200)


scrytest.main()
