# SPDX-License-Identifier: Apache-2.0
"""scry serve where something runs out, or has no end: open files, connections, records."""

import json
import os
import resource
import socket
import time

import scrytest
import servetest


class Limits(servetest.ServeCase):
    def processor_seconds(self, server):
        with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as file:
            user, system = file.read().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def test_no_open_files_are_left(self):
        """Who comes waits, and costs nothing meanwhile; of what goes on nobody hears that it is over or gone. Then all goes on."""
        server = servetest.Server(self.box)
        server.log_in()
        process, job = self.start_job("--sample", "0.1", "--", "sh", "-c", "while ! test -e stop; do sleep 0.05; done")
        task = server.ask("api/tasks", "POST", {"name": "t", "program": "a"}).json["id"]
        records = servetest.Events(server, f"api/jobs/{job}/records")
        tasks = servetest.Events(server, "api/tasks/events")
        records.wait(lambda seen: len(seen) > 5, "records come")
        most = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        used = {int(name) for name in os.listdir(f"/proc/{server.process.pid}/fd")}
        free = min(set(range(len(used) + 1)) - used)  # with less, poll would not even take those that it has
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (free, most[1]))
        waiting = server.connect()
        waiting.request("GET", "/api/session", headers={"host": server.host, "cookie": server.cookie})
        with open(self.tasks_changed(), "a", encoding="ascii") as file:
            file.write(task + "\n")
        before, begun = self.processor_seconds(server), time.monotonic()
        scrytest.wait_until(lambda: time.monotonic() - begun > 3, message="the server has looked at the job and the tasks")
        self.assertLess(self.processor_seconds(server) - before, 1)
        self.assertNotIn("end", [event for event, _data, _id in records.seen])
        self.assertNotIn("removed", [event for event, _data, _id in tasks.seen])
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, most)
        self.assertEqual(waiting.getresponse().status, 200)
        tasks.wait(lambda seen: [data["id"] for event, data, _id in seen if event == "task"] == [task], "the task that changed")
        with open(self.box.path("work", "stop"), "w", encoding="ascii"):
            pass
        records.wait(lambda seen: seen and seen[-1][0] == "end", "the end of the job")
        process.wait(60)
        with open(self.box.path("jobs", job, "spool", "records.jsonl"), encoding="utf-8") as file:
            self.assertEqual([data["seq"] for _event, data, _id in records.seen], [json.loads(line)["seq"] for line in file])

    @scrytest.thorough
    def test_ids_that_nobody_has(self):
        """Of a list that is long, they cost the server nothing once it has read it; a job that comes is found all the same."""
        name, drop = "20250101T000000-x-1-aa", self.box.path("work", "drop")
        self.fake_job(name)
        with open(os.path.join(drop, name, "job.json"), encoding="utf-8") as file:
            info = json.load(file)
        for number in range(10):  # 5 MB: to read them 100 times would take some seconds
            os.mkdir(os.path.join(drop, f"large-{number}"))
            with open(os.path.join(drop, f"large-{number}", "job.json"), "w", encoding="utf-8") as file:
                json.dump({**info, "id": f"20250101T000000-y-{number}-bb", "argv": ["word"] * (1 << 16)}, file)
        server = servetest.Server(self.box, "--jobs", drop)
        server.log_in()
        self.assertEqual(server.ask("api/jobs/nobody/report").status, 404)
        before = self.processor_seconds(server)
        for number in range(100):
            self.assertEqual(server.ask(f"api/jobs/nobody-{number}/report").status, 404)
        self.assertLess(self.processor_seconds(server) - before, 1)
        self.assertEqual(server.ask("api/jobs/20250101T000000-y-7-bb/files").status, 200)
        os.rename(os.path.join(drop, "large-7"), os.path.join(drop, "moved"))
        scrytest.wait_until(lambda: server.ask("api/jobs/20250101T000000-y-7-bb/files").status == 200, 60, "it is found where it is now")

    def tasks_changed(self):
        """Where changes of tasks are written down, in the user's state directory."""
        found = [os.path.join(folder, ".changed") for folder, _folders, names in os.walk(self.box.root) if ".changed" in names]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_records_without_an_end(self):
        """A file of records that is one endless line takes neither memory nor time, and what comes behind it is told."""
        name = "20250101T000000-x-1-aa"
        spools = self.fake_job(name, "node1", "node2")
        for number, spool in enumerate(spools):
            if number:
                spool.truncate(0)
            os.truncate(spool.fileno(), 1 << 40)
        server = servetest.Server(self.box, "--jobs", self.box.path("work", "drop"))
        server.log_in()
        events = servetest.Events(server, f"api/jobs/{name}/records")
        begun = time.monotonic()
        scrytest.wait_until(lambda: time.monotonic() - begun > 2, message="the server has looked at all of it")
        for number, spool in enumerate(spools):
            os.lseek(spool.fileno(), 0, os.SEEK_END)
            spool.write("\n" + json.dumps({"seq": number, "t": number, "type": "warning", "kind": "x", "text": "y"}) + "\n")
        events.wait(lambda seen: {data["seq"] for event, data, _id in seen if event == "warning"} == {0, 1, 2}, "a record of each")
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
            peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
        self.assertLess(peak, 60_000, "KB")

    def test_who_leaves_a_stream_costs_nothing(self):
        """The server sees that nobody reads any more, long before it has something to say."""
        server = servetest.Server(self.box)
        server.log_in()
        for used in (False, True):
            connection = server.connect()
            for path in [*["session"] * used, "tasks/events"]:
                connection.request("GET", f"/api/{path}", headers={"host": server.host, "cookie": server.cookie})
                response = connection.getresponse()
                (response.readline if path == "tasks/events" else response.read)()
            before, begun = self.processor_seconds(server), time.monotonic()
            response.close()
            connection.close()
            scrytest.wait_until(lambda: time.monotonic() - begun > 2, message="the server had time to see it")
            self.assertLess(self.processor_seconds(server) - before, 0.6)

    @staticmethod
    def connections(server):
        with open("/proc/net/tcp", encoding="ascii") as file:
            rows = [line.split() for line in file]
        return sum(1 for row in rows if row[1].endswith(f":{server.port:04X}") and row[3] == "01")

    def test_connections_by_the_network_do_not_keep_out_the_user(self):
        """However many addresses of the loopback somebody has, they are one; the user's own socket has room beside."""
        server = servetest.Server(self.box)
        idle = []
        self.addCleanup(lambda: [sock.close() for sock in idle])
        for address in ("127.0.0.2", "127.0.0.3"):
            for _ in range(700):
                sock = socket.socket()
                idle.append(sock)
                sock.bind((address, 0))
                try:
                    sock.connect(("127.0.0.1", server.port))
                except OSError:
                    break
        with socket.socket(socket.AF_UNIX) as own:
            own.connect(self.box.path("run", "serve.sock"))
            own.sendall(b"GET /api/session HTTP/1.1\r\nHost: localhost\r\n\r\n")
            own.settimeout(60)
            self.assertIn(b"200 OK", own.recv(65536))
        scrytest.wait_until(lambda: self.connections(server) <= 800, message="those beyond what one address may have are closed")


scrytest.main()
