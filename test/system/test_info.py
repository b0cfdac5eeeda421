# SPDX-License-Identifier: Apache-2.0
"""Information on nodes, processes and threads, against the programs' own words and /proc."""

import json
import os
import platform
import re
import resource
import shutil
import socket

import scrytest
from servicetest import *

PAGE = resource.getpagesize()


def parse(result):
    """A result as a Python list: strings, numbers and lists of them are JSON but for C's escapes; tokens as strings."""
    text = re.sub(r'("(?:[^"\\]|\\.)*")|\b([a-z]+_\d[\d_]*)', lambda m: m[1] or f'"{m[2]}"', result)
    return json.loads(f"[{text}]")


class Processes(ServiceTest):
    def setUp(self):
        super().setUp()
        self.target_ = self.target("puppet", 3)
        self.process = self.attach(self.target_)

    def info(self, *bits):
        flags = sum(1 << bit for bit in bits)
        values = parse(self.ask(f": proc_get_info([{self.process}], {flags})").result())
        self.assertEqual(len(values), len(bits))
        return values if len(values) > 1 else values[0]

    def stat(self):
        with open(f"/proc/{self.target_.pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()

    def test_identity(self):
        path = scrytest.built("test", "system", "targets", "puppet")
        names = self.target_.names
        self.assertEqual(self.info(0, 1, 2, 3, 4), [self.target_.pid, [path, "3"], names["uid"], names["gid"],
                                                    [path, "3"]])
        self.assertEqual(self.info(7, 8, 9), ["u_0", self.omis.node_of(self.target_.pid), self.target_.pid])

    def test_arguments_and_environment(self):
        arguments = ["0", "", "two words", 'quo"te', "back\\slash", "new\nline", "\u00e4\u20ac", "$par1", "x" * 5000]
        variables = {"EMPTY": "", "ODD": "a=b\tc", "LONG": "y" * 3000}
        target = self.target("puppet", *arguments, env=variables)
        self.process = self.attach(target)
        argv, envp = self.info(1, 5)
        self.assertEqual([text.encode("utf-8") for text in argv[1:]], [text.encode("utf-8") for text in arguments])
        with open(f"/proc/{target.pid}/environ", "rb") as file:
            expected = file.read().decode().rstrip("\0").split("\0")
        self.assertEqual(envp, expected)
        for name, value in variables.items():
            self.assertIn(f"{name}={value}", envp)

    def test_parent(self):
        shell = self.box.start(["/bin/sh", "-c", "sleep 1000 & echo $!; wait"])
        child = int(shell.stdout.readline())
        parent = self.attach(shell)
        self.process = self.attach(child)
        self.assertEqual(self.info(6), parent)
        # of an unattached parent, too, there is a token
        self.process = parent
        token = self.info(6)
        self.ask(f": proc_detach([{parent}])")
        self.assertNotEqual(token, "u_0")
        self.assertNotEqual(token, parent)

    def test_state(self):
        scrytest.wait_until(lambda: self.info(10) == 1)
        self.ask(f": thread_stop([{self.process}])")
        self.assertEqual(self.info(10), 4)
        self.ask(f": thread_continue([{self.process}])")
        scrytest.wait_until(lambda: self.info(10) == 1)
        os.kill(self.target_.pid, 19)
        scrytest.wait_until(lambda: self.info(10) == 4)  # one thread stops after the other
        os.kill(self.target_.pid, 18)

    def test_state_of_all_threads(self):
        """A process runs while one of its threads does."""
        target = self.target("puppet", 1)
        self.process = self.attach(target)
        target.do("spin 1")
        scrytest.wait_until(lambda: scrytest.process_state(target.pid) == "S")
        self.assertIn(self.info(10), (0, 2))
        target.do("spin 0")
        scrytest.wait_until(lambda: self.info(10) == 1)

    def test_times_and_counts(self):
        """Between two words of the program itself."""
        self.target_.do("spin 1")
        scrytest.wait_until(lambda: sum(self.target_.numbers("usage")[:2]) > 0.3)
        self.target_.do("spin 0")
        before = self.target_.numbers("usage")
        total, system, peak, minor, major, voluntary, involuntary = self.info(11, 13, 16, 18, 19, 23, 24)
        after = self.target_.numbers("usage")
        tick = 1.01 / os.sysconf("SC_CLK_TCK")
        self.assertGreaterEqual(total, before[0] + before[1] - 2 * tick)
        self.assertLessEqual(total, after[0] + after[1] + 2 * tick)
        self.assertGreaterEqual(system, before[1] - tick)
        self.assertLessEqual(system, after[1] + tick)
        # ru_maxrss remembers the program before exec; and the kernel counts pages in batches for each thread
        kernel = int(scrytest.process_status(self.target_.pid)["VmHWM"].split()[0])
        self.assertLessEqual(abs(peak // 1024 - kernel), 512)
        self.assertLess(peak // 1024, after[2] + 512)
        for value, at in ((minor, 3), (major, 4), (voluntary, 5), (involuntary, 6)):
            self.assertGreaterEqual(value, before[at], (before, after))
            self.assertLessEqual(value, after[at], (before, after))

    def test_memory(self):
        memory, resident = self.info(14, 15)
        stat = self.stat()
        self.assertEqual(memory, int(stat[20]))
        self.assertLessEqual(abs(resident - int(stat[21]) * PAGE), 64 * PAGE)
        self.assertEqual(self.info(20), -1)
        first = self.info(17)
        scrytest.wait_until(lambda: self.info(17) > first)

    def test_files(self):
        with open(f"/proc/{self.target_.pid}/io", encoding="ascii") as file:
            io = dict(line.split(": ") for line in file)
        self.assertEqual(self.info(21, 22), [int(io["read_bytes"]) // 512, int(io["write_bytes"]) // 512])

    def test_priority(self):
        self.assertEqual(self.info(12), self.target_.numbers("nice")[0])
        self.ask(f": proc_set_priority([{self.process}], 7)")
        self.assertEqual(self.target_.numbers("nice"), [7])
        self.assertEqual(self.info(12), 7)
        self.assertEqual(parse(self.ask(f": thread_get_info([{self.process}], 1024)").result()), [7])
        self.refused(f": proc_set_priority([{self.process}], 20)", PARAMETER_ERROR, "val")
        self.refused(f": proc_set_priority([{self.process}], -21)", PARAMETER_ERROR, "val")

    def test_all_at_once(self):
        values = parse(self.ask(f": proc_get_info([{self.process}], {2 ** 25 - 1})").result())
        self.assertEqual(len(values), 25)
        self.assertEqual(values[9], self.target_.pid)

    def test_loader_info(self):
        """Compares with what dl_iterate_phdr reports to the program."""
        segments = {}
        for entry in self.target_.do("modules").split():
            path, address, file_size, memory_size, flags = entry.split("|")
            segments.setdefault(path, []).append([int(word, 16) for word in (address, file_size, memory_size, flags)])
        count, flat = parse(self.ask(f": proc_get_loader_info([{self.process}])").result())
        modules = [flat[i:i + 8] for i in range(0, len(flat), 8)]
        self.assertEqual(len(modules), count)
        self.assertEqual(modules[0][0], scrytest.built("test", "system", "targets", "puppet"))
        found = {module[0]: module for module in modules}
        for path, parts in segments.items():
            if "vdso" in path:
                continue
            name = os.path.realpath(path) if path else modules[0][0]
            module = found.get(name) or found.get(path)
            self.assertTrue(module, f"{name} in {sorted(found)}")
            code = [part for part in parts if part[3] & 1][0]
            writable = [part for part in parts if part[3] & 2]
            first, last = writable[0], writable[-1]
            # whole pages or exact bytes: the segment must lie in what is told
            self.assertLessEqual(module[2], code[0])
            self.assertGreaterEqual(module[2] + module[3], code[0] + code[2])
            self.assertEqual(module[4], first[0])
            self.assertEqual(module[4] + module[5], last[0] + last[1])
            self.assertEqual(module[6], last[0] + last[1])
            self.assertEqual(module[7], last[2] - last[1])

    def test_light(self):
        """Looking needs no tracing."""
        self.ask(f": proc_get_info([], {2 ** 25 - 1}) thread_get_info([], {2 ** 12 - 1}) proc_get_loader_info([])")
        self.assertEqual(tracer_of(self.target_.pid), 0)


def state_of(pid, tid):
    return scrytest.process_status(pid, tid).get("State", "?")[0]


class Threads(ServiceTest):
    def test_threads(self):
        target = self.target("puppet", 2)
        process = self.attach(target)
        values = {}
        # they have said hello, but may not be asleep yet
        scrytest.wait_until(lambda: all(state_of(target.pid, tid) == "S" for tid in [target.pid, *target.workers]))
        for entry in self.ask(f": thread_get_info([{process}], {2 ** 12 - 1})").services[1]:
            self.assertEqual(len(entry["objects"]), 1)
            value = parse(entry["result"])
            self.assertEqual(len(value), 12)
            values[value[7]] = value
        self.assertEqual(sorted(values), sorted([target.pid, *target.workers]))
        for tid, value in values.items():
            self.assertEqual(value[0], process)
            self.assertEqual(value[1], tid)
            self.assertEqual((value[3], value[4], value[6]), ("u_0", "u_0", self.omis.node_of(target.pid)))
            self.assertEqual(value[8], 1)
            self.assertEqual(value[10], os.getpriority(os.PRIO_PROCESS, 0))
        self.assertGreater(values[target.pid][2], 0)
        target.do("spin 1")
        token = self.threads(process)[target.workers[0]]

        def spent():
            return parse(self.ask(f": thread_get_info([{token}], 512)").result())[0]
        scrytest.wait_until(lambda: spent() > 0.1)
        self.assertIn(parse(self.ask(f": thread_get_info([{token}], 256)").result())[0], (0, 2))
        target.do("spin 0")

    def test_new_threads_appear(self):
        target = self.target("puppet", 1)
        process = self.attach(target)
        before = self.threads(process)
        target.do("exec")
        target.introduction()
        self.assertEqual(self.threads(process), {target.pid: before[target.pid]})


class Node(ServiceTest):
    spread = False

    def info(self, bit):
        return parse(self.ask(f": node_get_info([], {1 << bit})").result())

    def test_static(self):
        system = os.uname()
        self.assertEqual(self.info(0), [system.nodename])
        name, version, release, node, boot = self.info(1)
        self.assertEqual((name, version, release, node),
                         (system.sysname, system.version, system.release, system.nodename))
        with open("/proc/stat", encoding="ascii") as file:
            self.assertEqual(boot, int(re.search(r"^btime (\d+)", file.read(), re.M)[1]))
        arch, cpus, maximum, clock, integer, floating = self.info(2)
        self.assertEqual(arch, platform.machine())
        self.assertEqual(cpus, os.cpu_count())
        with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
            self.assertLessEqual(maximum, int(file.read()))
        self.assertGreater(maximum, 0)
        pages, size, _ = self.info(3)
        self.assertEqual((pages, size), (os.sysconf("SC_PHYS_PAGES"), PAGE))
        self.assertEqual(len(self.info(4)), 5)
        links, entries = self.info(5)
        self.assertEqual(len(entries), 4 * links)
        self.assertEqual(len(self.info(6)), 1)
        usage = shutil.disk_usage("/tmp")
        self.assertAlmostEqual(self.info(4)[2], usage.total / PAGE, delta=usage.total / PAGE * 0.05)

    def test_rates_at_the_first_call(self):
        self.assertGreater(self.info(7)[0], 0)
        self.assertGreaterEqual(self.info(12)[0], 0)

    def test_dynamic(self):
        lengths = {7: 3, 8: 8, 9: 3, 10: 6, 11: 6, 12: 7, 13: 4}
        for bit, length in lengths.items():
            self.assertEqual(len(self.info(bit)), length, f"bit {bit}")

        def load():
            with open("/proc/loadavg", encoding="ascii") as file:
                return [float(word) for word in file.read().split()[:3]]

        def unchanged():  # the kernel takes others every five seconds
            before, told = load(), self.info(8)[5:]
            return (told, before) if load() == before else None
        for told, expected in zip(*scrytest.wait_until(unchanged)):
            self.assertAlmostEqual(told, expected, places=3)
        with open("/proc/meminfo", encoding="ascii") as file:
            total = int(re.search(r"MemTotal:\s+(\d+)", file.read())[1]) * 1024 // PAGE
        free, used, _ = self.info(9)
        self.assertLessEqual(abs(free + used - total), total // 50)

    def test_everything(self):
        values = parse(self.ask(f": node_get_info([], {2 ** 14 - 1})").result())
        self.assertGreater(len(values), 50)
        self.refused(f": node_get_info([], {2 ** 15})", PARAMETER_ERROR, "flags")


class Monitor(ServiceTest):
    spread = False

    def test_version_and_lists(self):
        self.assertRegex(self.ask(": version()").result(), r'^2,0,"scry[^"]*",\d+,\d+$')
        count, names = parse(self.ask(": extensions()").result())
        self.assertEqual(len(names), count)
        self.assertLessEqual({"job", "null", "pa"}, set(names))
        for extension in ("", *names):
            full, full_names, part, part_names = parse(self.ask(f': services("{extension}")').result())
            self.assertEqual((len(full_names), len(part_names)), (full, part))
            for name in full_names + part_names:
                self.assertTrue(not extension or name == extension or name.startswith(f"{extension}_"))
        _, basic, _, partial = parse(self.ask(': services("")').result())
        self.assertIn("csr_enable", basic)
        self.assertLessEqual({"thread_has_started_lib_call", "message_tag"}, set(basic))
        # what is there in part, not what the specification asks for in part
        self.assertEqual(set(partial), {"node_get_info", "proc_get_info", "thread_get_info",
                                        "message_insert_into_queue", "message_queue_remove"})
        self.assertLessEqual({"thread_stop", "thread_continue", "proc_get_loader_info"}, set(basic))
        for missing in ("proc_checkpoint", "thread_adds_node"):
            self.assertNotIn(missing, basic + partial)


scrytest.main()
