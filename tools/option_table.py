# SPDX-License-Identifier: Apache-2.0
"""The table of commands and options (src/options), as src/options/print.c prints it."""


class Option:
    def __init__(self, letter, name, argument, optional, values, text):
        self.letter, self.name, self.argument = letter, "--" + name, argument
        self.optional, self.values, self.text = optional == "1", values, text
        self.takes = bool(argument) and not self.optional  # the word behind it


class Command:
    def __init__(self, name, words, text, *usage):
        self.name, self.words, self.text, self.usage, self.options = name, words, text, usage, []
        self.actions = " ".join(line.split()[0] for line in usage) if words in ("actions", "tasks") else ""


def read(path):
    """The commands by their names, and the names of the settings."""
    commands, settings = {}, []
    with open(path, encoding="utf-8") as file:
        for line in file:
            kind, name, *rest = line.rstrip("\n").split("\t")
            if kind == "command":
                commands[name] = Command(name, *rest)
            elif kind == "option":
                commands[name].options.append(Option(*rest))
            else:
                settings.append(name)
    return commands, settings
