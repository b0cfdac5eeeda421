# SPDX-License-Identifier: Apache-2.0
"""What the tests of messages share: ranks that send and receive what they are told to (targets/mpi/messenger.c)."""

import os
import re

import mpitest
import scrytest
from mpiservicetest import EachMpiTest
from scrytest import wait_until
from servicetest import *

TOKEN, SENDER, SIZE, TAG = 1, 2, 4, 8
COLUMNS = ("token", "sender", "rank", "tag", "comm", "k", "bytes", "age", "monitor_tag", "doubts")


def printed(reply, action=1):
    """What print([...]) printed, tokens as they are."""
    return reply.result(action).split(",", 1)[1].strip("[]").split(",")


class Rank:
    """One process: its commands, and what it prints."""

    def __init__(self, case, folder, number, row):
        self.case, self.number, self.row = case, number, row
        self.token, self.pid = row["token"], row["pid"]
        self.out = os.path.join(folder, f"{number}.out")
        self.fifo = open(os.path.join(folder, f"{number}.in"), "w", encoding="ascii")
        self.told = 0

    def tell(self, line):
        self.fifo.write(line + "\n")
        self.fifo.flush()
        self.told += 1

    def lines(self):
        with open(self.out, encoding="ascii") as file:
            return file.read().split("\n")[:-1]

    def done(self):
        return len(self.lines()) == self.told

    def answer(self):
        wait_until(self.done, 30)
        return self.lines()[-1]

    def do(self, line):
        self.tell(line)
        return self.answer()

    def close(self):
        self.fifo.close()


class Messages(EachMpiTest):
    setting = "messages"
    variables = {}  # of the program's environment
    options = ()  # of its compiler

    def setUp(self):
        super().setUp()
        if self.setting:
            self.ask(f': job_set("{self.jobdir}", "mpi", "{self.setting}")')
        self.ranks = []

    def tearDown(self):
        for rank in self.ranks:
            rank.close()
        super().tearDown()

    def launch(self, count, *arguments):
        folder = self.box.path("work", "messenger")
        os.mkdir(folder)
        for rank in range(count):
            os.mkfifo(os.path.join(folder, f"{rank}.in"))
        program = mpitest.compile_program(self.mpi, "messenger.c", *self.options,
                                          name="_".join(["messenger", *self.options]))
        rows = self.launch_ranks(count, program, folder, *arguments, env=self.variables)
        for row in rows.values():
            self.ask(f": proc_attach([{row['token']}])")
        self.ranks = [Rank(self, folder, rank, rows[rank]) for rank in range(count)]
        return self.ranks

    def finish(self):
        for rank in self.ranks:
            rank.tell("end")
            rank.close()
        self.ranks = []
        self.assertEqual(self.process.wait(timeout=60 * scrytest.SCALE), 0)

    def queue(self, rank):
        return self.ask(f": proc_get_info([{rank.token}], 128)").result()

    def info(self, rank, flags=TOKEN | SENDER | SIZE | TAG):
        text = self.ask(f": message_queue_get_info([{self.queue(rank)}], {flags})").result()
        length, rest = text.split(",", 1)
        items = rest.strip("[]").split(",") if rest != "[]" else []
        width = bin(flags).count("1")
        rows = [items[i:i + width] for i in range(0, len(items), width)] if width else []
        self.assertEqual(len(rows), int(length) if width else 0)
        return rows

    def sizes(self, rank):
        return [int(row[0]) for row in self.info(rank, SIZE)]

    def messages(self, rank):
        """What mpi_get_messages says: (note, rows)."""
        text = self.ask(f": mpi_get_messages([{rank.token}])").result()
        text = re.sub(r"(^|[\[,])([a-z](?:_\d+)+)", r'\1"\2"', text)
        note, rows = value(text)
        return note, [dict(zip(COLUMNS, rows[i:i + len(COLUMNS)])) for i in range(0, len(rows), len(COLUMNS))]

    def tokens(self, rank):
        return [row[0] for row in self.info(rank, TOKEN)]

    def thread(self, rank):
        (token,) = [token for tid, token in self.threads(rank.token).items() if tid == rank.pid]
        return token
