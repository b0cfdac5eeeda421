# SPDX-License-Identifier: Apache-2.0
"""Reading and writing the memory of processes: blocks, bytes of every value, what is not there, breakpoints in it."""

import base64

import scrytest
from servicetest import *


class Memory(ServiceTest):
    def setUp(self):
        super().setUp()
        self.target_ = self.target()
        self.process = self.attach(self.target_)
        self.at = self.target_.buffer
        self.content = bytes(i * 7 & 255 for i in range(4096))

    def read(self, addr, block, stride, count):
        result = self.ask(f": proc_read_memory([{self.process}], {addr}, {block}, {stride}, {count})").result()
        self.assertRegex(result, r"^\[[\d,]*\]$")
        return bytes(numbers(result))

    def dump(self, at, length):
        return bytes.fromhex(self.target_.do(f"dump {at} {length}"))

    def write(self, addr, block, stride, data):
        values = ",".join(map(str, data))
        return self.omis.request(f": proc_write_memory([{self.process}], {addr}, {block}, {stride}, [{values}])")

    def test_blocks(self):
        for block, stride, count in ((1, 1, 1), (4096, 4096, 1), (8, 8, 100), (3, 10, 50), (1, 100, 40), (0, 0, 5),
                                     (5, 5, 0), (16, 16, 256)):
            expected = b"".join(self.content[i * stride:i * stride + block] for i in range(count))
            self.assertEqual(self.read(self.at, block, stride, count), expected, (block, stride, count))
        self.assertEqual(tracer_of(self.target_.pid), 0)

    def test_binary(self):
        reply = self.ask(f": proc_read_memory_bin([{self.process}], {self.at}, 4096, 4096, 1)")
        data = base64.b64decode(reply.services[1][0]["result_base64"])
        self.assertEqual(data, b"4096#" + self.content)

    def test_write(self):
        self.assertTrue(self.write(self.at + 10, 2, 5, [1, 0, 255, 128, 9, 10]).ok())
        expected = bytearray(self.content)
        expected[10:12], expected[15:17], expected[20:22] = [1, 0], [255, 128], [9, 10]
        self.assertEqual(self.dump(0, 40), bytes(expected[:40]))
        self.assertTrue(self.write(self.at, 1, 1, []).ok())
        self.ask(f': proc_write_memory_bin([{self.process}], {self.at}, 3, 4, 6#abcdef)')
        self.assertEqual(self.dump(0, 8), b"abc" + bytes(expected[3:4]) + b"def" + bytes(expected[7:8]))

    def test_several_processes(self):
        other = self.target("puppet")
        second = self.attach(other)
        reply = self.ask(f": proc_read_memory([], {self.at}, 4, 4, 1)") if other.buffer == self.at else None
        if reply:
            self.assertEqual(reply.objects(), [self.process, second])
        else:  # addresses are random: each fails or succeeds by itself
            reply = self.omis.request(f": proc_read_memory([], {self.at}, 4, 4, 1)")
            found = {token: entry["status"] for entry in reply.services[1] for token in entry["objects"]}
            self.assertEqual(found, {self.process: OK, second: OS_ERROR})

    def test_wrong_arguments(self):
        for request, pattern in ((f"proc_read_memory([], {self.at}, 8, 7, 1)", "stride"),
                                 (f"proc_read_memory([], {self.at}, 1, 1, {2 ** 24 + 1})", "16777216|at most"),
                                 (f"proc_read_memory([], {self.at}, {2 ** 40}, {2 ** 40}, {2 ** 40})", "at most"),
                                 (f"proc_read_memory([], {self.at}, 1, {2 ** 62}, 8)", "address space"),
                                 (f"proc_read_memory([], {self.at}, -1, -1, 1)", "at most|blocklength|address"),
                                 (f"proc_read_memory([], {self.at}, 1, 1, -1)", "at most|count|address"),
                                 (f"proc_write_memory([], {self.at}, 2, 2, [1,2,3])", "multiple"),
                                 (f"proc_write_memory([], {self.at}, 0, 0, [1])", "multiple"),
                                 (f"proc_write_memory([], {self.at}, 1, 1, [256])", "element 1"),
                                 (f"proc_write_memory([], {self.at}, 1, 1, [0,-1])", "element 2"),
                                 (f"proc_write_memory([], {self.at}, 2, 1, [1,2])", "stride")):
            with self.subTest(request):
                self.refused(": " + request, PARAMETER_ERROR, pattern)
        self.assertEqual(self.dump(0, 100), self.content[:100])

    def test_largest(self):
        """16 MB at once, as binary; the stack of no program here has that much, so with stride 0 of a page: refused;
        in blocks from the same buffer: each its own."""
        self.refused(f": proc_read_memory([], {self.at}, 4096, 0, 4096)", PARAMETER_ERROR, "stride")
        reply = self.omis.request(f": proc_read_memory_bin([], {self.at}, {2 ** 24}, {2 ** 24}, 1)", timeout=20)
        self.assertEqual(reply.status(1), OS_ERROR, "the program has no 16 MB there")

    def test_not_mapped(self):
        self.refused(f": proc_read_memory([], 0, 1, 1, 1)", OS_ERROR, "address 0")
        end = self.target_.pages + 8192
        reply = self.refused(f": proc_read_memory([], {end - 4}, 8, 8, 1)", OS_ERROR, f"{end:#x}")
        self.assertEqual(reply.services[1][0]["objects"], [self.process])
        self.refused(f": proc_read_memory([], {2 ** 64 - 4}, 2, 2, 1)", OS_ERROR, "0xfff")

    def test_failed_write_is_undone(self):
        """A page to write, one that can only be read, one that is not there: nothing has changed."""
        pages = self.target_.pages
        before = self.target_.do("page 4080 32")
        for addr, block, stride, data in ((pages + 4090, 12, 12, [9] * 12),       # into the file's page
                                          (pages + 4000, 8, 96, [9] * 16),        # second block is in it
                                          (pages + 4080, 1, 4200, [9, 9])):       # second block is not mapped
            reply = self.write(addr, block, stride, data)
            self.assertEqual(reply.status(1), OS_ERROR, reply)
            self.assertEqual(self.target_.do("page 4080 32"), before)
            self.assertEqual(self.target_.do("page 4000 8"), "00" * 8)

    def test_code_page(self):
        """Code can be written, as a debugger would: hit() becomes a return."""
        code = self.read(self.target_.hit, 1, 1, 1)
        self.assertTrue(self.write(self.target_.hit, 1, 1, [0xc3]).ok())
        self.assertEqual(self.target_.do("hit 3"), "0")
        self.assertTrue(self.write(self.target_.hit, 1, 1, code).ok())
        self.assertEqual(self.target_.do("hit 3"), "3")

    def test_breakpoints_are_hidden(self):
        """Reads show the program's own bytes, writes change them under the breakpoint, which stays."""
        hit = self.target_.hit
        code = self.read(hit - 4, 16, 16, 1)
        number, csr = self.enable(f"thread_reached_addr([], {hit}) : print([1])")
        with open(f"/proc/{self.target_.pid}/mem", "rb") as file:
            file.seek(hit)
            self.assertEqual(file.read(1), b"\xcc", "there is a breakpoint")
        self.assertEqual(self.read(hit - 4, 16, 16, 1), code)
        self.assertEqual(self.read(hit, 1, 1, 1), code[4:5])
        self.assertTrue(self.write(hit - 4, 16, 16, code).ok())
        self.target_.do("hit 2")
        for _ in range(2):
            self.triggered(number)
        # another instruction below it: the return that it is now is executed
        self.assertTrue(self.write(hit, 1, 1, [0xc3]).ok())
        self.assertEqual(self.read(hit, 1, 1, 1), b"\xc3")
        self.assertEqual(self.target_.do("hit 2"), "2")
        for _ in range(2):
            self.triggered(number)
        self.ask(f": csr_delete([{csr}])")
        self.assertEqual(self.read(hit, 1, 1, 1), b"\xc3")
        self.assertTrue(self.write(hit, 1, 1, code[4:5]).ok())
        self.assertEqual(self.target_.do("hit 2"), "4")
        self.assertEqual(self.read(hit - 4, 16, 16, 1), code)

    def test_all_is_as_before(self):
        code = self.read(self.target_.hit - 64, 128, 128, 1)
        for _ in range(3):
            _, csr = self.enable(f"thread_reached_addr([], {self.target_.hit}) : print([1])")
            self.ask(f": csr_delete([{csr}])")
        with open(f"/proc/{self.target_.pid}/mem", "rb") as file:
            file.seek(self.target_.hit - 64)
            self.assertEqual(file.read(128), code)
        self.assertEqual(tracer_of(self.target_.pid), 0)


scrytest.main()
