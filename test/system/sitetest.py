# SPDX-License-Identifier: Apache-2.0
"""Many jobs of a site, made from a real one: each with minutes of figures, as a job that does this or that would have them."""

import json
import os
import shutil

GB = 1 << 30


class Maker:
    """Makes job directories like a real one under other ids, in `folder`."""

    def __init__(self, box, base, folder="site"):
        self.box, self.base, self.folder = box, base, box.path("work", folder)
        os.makedirs(self.folder, exist_ok=True)
        with open(os.path.join(base, "job.json"), encoding="utf-8") as file:
            self.info = json.load(file)
        with open(os.path.join(base, "spool", "records.jsonl"), encoding="utf-8") as file:
            self.lines = [json.loads(line) for line in file]
        self.made = []

    def job(self, name, minutes=20, user="ada", node="n1", cpus=4, cpus_asked=4, memory_asked=8 * GB, used=3.0, rss=4 * GB, pressure=0.01,
            iowait=0.01, load=3.0, available=20 * GB, swap=0, throttled=0.0, oom_kills=0, extra=(), ranks=(), state="finished", batch=True,
            time_limit=None, exit_code=0, cause=None):
        """`used`: processors; `extra`: more records; `ranks`: seconds that each computed."""
        path = os.path.join(self.folder, name)
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(os.path.join(path, "spool"))
        seconds, spool = 60.0 * minutes, []
        first = dict(self.lines[0], job=name, node=node)
        records = [first, {"t": 0.0, "type": "node", "host": node, "os": "Linux", "release": "6", "arch": "x86_64", "cpus": cpus,
                           "memory_bytes": 64 * GB}]
        for step in range(2 * minutes):
            t = 30.0 * step + 1
            records.append({"t": t, "type": "sample", "tree": {
                "processes": 3, "threads": 6, "rss": rss, "cpu_ns": int(used * t * 1e9), "started": 3, "ended": 0, "peak_processes": 3,
                "peak_threads": 6}, "alive": []})
            records.append({"t": t, "type": "health", "seconds": 30, "load": {
                "cpu": 0.5, "cpu_peak": 0.6, "iowait": iowait, "steal": 0, "load": load}, "pressure": {
                    "cpu": 0, "memory": pressure, "memory_full": 0, "io": 0, "io_full": 0}, "memory": {
                        "total_bytes": 64 * GB, "available_bytes": available, "available_least_bytes": available,
                        "swap_total_bytes": 16 * GB, "swap_free_bytes": 16 * GB - swap}, "traffic": {},
                            "cgroup": {"version": 2, "path": "/x", "throttled": throttled, "oom_kills": 5 + oom_kills, "job_oom_kills": oom_kills}})
        records += extra
        records.sort(key=lambda record: record["t"])
        if state != "running":
            records.append({"t": seconds, "type": "end", "started": True, "exit_code": exit_code, "signal": 0, "reason": None, "core_dumped": False,
                            "wall_seconds": seconds, "cpu_seconds": used * seconds})
        for seq, record in enumerate(records):
            spool.append(json.dumps({**record, "seq": seq}))
        with open(os.path.join(path, "spool", "records.jsonl"), "w", encoding="utf-8") as file:
            file.write("\n".join(spool) + "\n")
        info = dict(self.info, id=name, name=name.rstrip("0123456789"), host=node, user=user)
        info["batch"] = {"system": "slurm", "id": "7", "cpus": cpus_asked, "memory_bytes": memory_asked,
                         "time_limit_seconds": time_limit} if batch else None
        info["cause"] = {"kind": "cause", "note": cause[0], "fields": {}, "text": cause[1]} if cause else None
        info["result"] = dict(self.info["result"], exit_code=exit_code, signal=0, wall_seconds=seconds, cpu_seconds=used * seconds,
                              peak_rss_bytes=rss, peak_tree_rss_bytes=rss)
        with open(os.path.join(path, "job.json"), "w", encoding="utf-8") as file:
            json.dump(info, file)
        for rank, computed in enumerate(ranks):
            place = os.path.join(path, "stats", node)
            os.makedirs(place, exist_ok=True)
            with open(os.path.join(place, f"{100 + rank}-1.json"), "w", encoding="utf-8") as file:
                json.dump({"version": 1, "node": node, "pid": 100 + rank, "rank": rank, "world_size": len(ranks), "threads": [{
                    "is_main": True, "outermost": {"total_ns": int(seconds * 1e9), "compute_ns": int(computed * 1e9),
                                                   "communicate_ns": int((seconds - computed) * 1e9)}}]}, file)
        self.made.append(path)
        return path

    def take(self, record, *options, running=()):
        """Imports all; those named in `running` look as if they ran, as a recorder would see them."""
        done = self.box.run(self.box.scry("record", "-q", "--import", *options, *self.made))
        if done.returncode:
            raise AssertionError(done.stderr)
        if running:
            names = ", ".join(f"'{name}'" for name in running)
            record.query("UPDATE jobs SET state = 'running', complete = 0, ended = NULL, wall_seconds = NULL, connected = 1,"
                         f" lease_seconds = 1e6, exit_code = NULL WHERE id IN ({names})", os.path.join(record.place, "record.db"))


def multiply(record, times):
    """Each job of an SQLite record so often, under other ids."""
    database = os.path.join(record.place, "record.db")
    names = [row["name"] for row in record.query("SELECT name FROM pragma_table_info('jobs')", database) if row["name"] not in ("job", "id")]
    most, = record.query("SELECT max(job) AS job FROM jobs", database)
    numbers = f"WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {times - 1})"
    sql = f"{numbers} INSERT INTO jobs (job, id, {', '.join(names)}) SELECT job + n * {most['job']}, id || '-' || n, {', '.join(names)} FROM jobs, n;"
    for table in ("minutes", "ranks"):
        columns = ", ".join(row["name"] for row in record.query(f"SELECT name FROM pragma_table_info('{table}')", database) if row["name"] != "job")
        sql += f"{numbers} INSERT INTO {table} (job, {columns}) SELECT job + n * {most['job']}, {columns} FROM {table}, n;"
    record.query(sql, database)
