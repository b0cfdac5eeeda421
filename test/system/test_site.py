# SPDX-License-Identifier: Apache-2.0
"""What a site's administrator sees: scry site, and what scry record tells Prometheus and OpenTelemetry."""

import glob
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families

import brokertest
import jobtest
import recordtest
import schematest
import scrytest
import sitetest
from sitetest import GB


class SiteCase(jobtest.JobCase):
    def setUp(self):
        super().setUp()
        self.record = recordtest.Sqlite(self.box)
        self.database = os.path.join(self.record.place, "record.db")
        self.scry_run("-q", "--", "true")
        base, = glob.glob(self.box.path("jobs", "2*"))
        self.maker = sitetest.Maker(self.box, base)


class Site(SiteCase):

    def site(self, *arguments):
        said = json.loads(self.scry("site", "--json", *arguments).stdout)
        self.assertEqual(list(schematest.violations(said, schematest.schema("site"))), [])
        return said

    def found(self, said):
        """{job: {rule}}, {node: {rule}}"""
        jobs, nodes = {}, {}
        for problem in said["problems"]:
            self.assertTrue(problem["text"] and problem["advice"], problem)
            if problem["job"]:
                jobs.setdefault(problem["job"]["id"], set()).add(problem["rule"])
            else:
                nodes.setdefault(problem["node"], set()).add(problem["rule"])
        return jobs, nodes

    def test_rules(self):
        """Each rule holds for the job that was made for it, and for none that does what it should."""
        make, stalled = self.maker.job, [{"t": 1100.0, "type": "stall", "seconds": 60, "ranks": 2, "why": "all wait for rank 1"}]
        make("fine1")
        make("fine2")
        make("young", minutes=3, used=0.0)
        make("interactive", used=0.0, batch=False)
        make("idle", used=0.01)
        make("unused", used=1.0, cpus_asked=8)
        make("thrashing", pressure=0.5, node="n2")
        make("swapping", iowait=0.5, swap=8 * GB, node="n3")
        make("stalled", extra=stalled)
        make("stood", exit_code=143, cause=("cause_stuck", "probably a deadlock, until it was ended"))
        make("short", rss=int(7.9 * GB))
        make("killed", oom_kills=2, node="n4")
        make("unlimited", oom_kills=2, node="n6", memory_asked=None)
        make("wide", rss=1 * GB, memory_asked=32 * GB)
        make("throttled", throttled=0.5)
        make("alone", ranks=(900, 5, 5, 5))
        make("together", ranks=(900, 800, 700, 850))
        make("late", time_limit=3600, extra=[{"t": 1190.0, "type": "progress", "source": "stdout", "done": 1, "total": 10,
                                              "left_seconds": 9000}])
        make("heavy", load=40.0, available=GB, node="n5")
        names = [os.path.basename(path) for path in self.maker.made]
        over = {"unused", "killed", "alone", "stood"}
        self.maker.take(self.record, running=set(names) - over)
        said = self.site()
        jobs, nodes = self.found(said)
        self.assertEqual(jobs, {
            "idle": {"idle"}, "unused": {"unused"}, "thrashing": {"thrashing"}, "swapping": {"thrashing"}, "stalled": {"stalled"}, "stood": {"stalled"},
            "short": {"memory_short"}, "killed": {"memory_short"}, "unlimited": {"memory_short"}, "wide": {"memory_unused"}, "throttled": {"throttled"},
            "alone": {"one_rank"}, "late": {"overtime"}})
        self.assertEqual(nodes, {"n2": {"memory"}, "n3": {"disk"}, "n6": {"memory"}, "n5": {"memory", "overloaded"}})
        texts = {problem["job"]["id"]: problem for problem in said["problems"] if problem["job"]}
        self.assertIn("0.01 of 4 reserved processors", texts["idle"]["text"])
        self.assertAlmostEqual(texts["idle"]["value"], 0.01, 3)
        self.assertIn("all wait for rank 1", texts["stalled"]["text"])
        self.assertEqual(texts["stood"]["text"], "probably a deadlock, until it was ended")
        self.assertIn("1.0 GB of 32 GB", texts["wide"]["text"])
        self.assertIn("ask for 1.2 GB", texts["wide"]["advice"])
        self.assertIn("rank 0 of 4 computed 15 min", texts["alone"]["text"])
        self.assertIn("needs 2 h 50 min at its pace, has 1 h 00 min", texts["late"]["text"])
        shown = self.scry("site").stdout
        for words in ("\n1 job idle: reserves processors", "\n1 node overloaded: ", "\n3 nodes memory: ", "ada/idle (idle) on n1", "scry why", "n5"):
            self.assertIn(words, shown)

    def test_thousand(self):
        """1000 jobs of ten users on fifty nodes: all are counted, wherever they are looked for."""
        count, times = 1000, 20
        for number in range(count // times):
            self.maker.job(f"job{number}", minutes=5, user=f"u{number % 10}", node=f"n{number}", ranks=(1, 2),
                           state="running" if number % 2 else "finished")
        self.maker.take(self.record, running=[f"job{number}" for number in range(1, count // times, 2)])
        sitetest.multiply(self.record, times)
        said = self.site()
        self.assertEqual((said["jobs"], {row["state"]: row["jobs"] for row in said["states"]}), (count, {"running": 500, "finished": 500}))
        self.assertEqual([(row["jobs"], row["cpus"]) for row in said["nodes"]], [(times, 4)] * 50)
        self.assertEqual({row["owner"]: row["jobs"] for row in said["users"]}, {f"u{user}": count // 10 for user in range(10)})
        self.assertEqual(self.site("--owner", "u3")["jobs"], 100)
        self.assertEqual(self.site("--node", "n7", "--owner", "u7")["jobs"], 20)
        self.assertEqual(self.site("--node", "n7", "--owner", "u3")["jobs"], 0)
        self.record.query("UPDATE jobs SET ended = ended - 172800 WHERE state = 'finished'", self.database)
        self.assertEqual(self.site()["jobs"], 500)
        self.assertEqual(self.site("--since", "7d")["jobs"], count)
        self.record.query("UPDATE jobs SET connected = 0 WHERE node = 'n1'", self.database)
        said = self.site()
        self.assertEqual(self.found(said)[1], {"n1": {"away"}})
        self.assertIn({"state": "unreachable", "jobs": 20}, said["states"])

    def test_same_from_postgresql(self):
        server = recordtest.postgres()
        self.maker.job("idle", used=0.01)
        self.maker.job("alone", ranks=(900, 5, 5, 5))
        self.maker.job("thrashing", pressure=0.5)
        self.maker.take(self.record)
        self.maker.take(None, "--record", server.url)
        ours, theirs = self.site(), self.site("--record", server.url)
        for said in (ours, theirs):
            for member in ("record", "time"):
                said.pop(member)
        self.assertEqual(ours, theirs)
        self.assertEqual([problem["rule"] for problem in ours["problems"]], ["thrashing", "one_rank", "unused"])

    def test_hostile_and_bad(self):
        """What jobs say of themselves moves no cursor; what is asked wrongly is said."""
        self.assertIn("no record", self.scry("site", "--record", self.box.path("nowhere"), status=1).stderr)
        self.maker.job("bad\x1b[31m", user="x';--", node="n\n1", cause=("\x1b[31m", "\x1b]0;title\x07 evil"), extra=[
            {"t": 1000.0, "type": "stall", "seconds": 60, "ranks": 2, "why": "\x1b]0;title\x07 évil"}])
        self.maker.take(self.record)
        self.record.query("UPDATE jobs SET state = 'running', connected = 1, lease_seconds = 1e6, ended = NULL",
                          self.database)
        shown = self.scry("site").stdout
        self.assertFalse([byte for byte in shown if ord(byte) < 32 and byte != "\n"], shown)
        self.assertEqual(self.site("--owner", "x';--")["jobs"], 1)
        self.assertIn("an age", self.scry("site", "--since", "soon", status=2).stderr)
        self.scry("site", "extra", status=2)

    def test_nothing_but_failures(self):
        """That a job has failed is no problem of the site; where the reason is, is said."""
        run = self.box.run(self.box.scry("run", "-q", "--name", "bad", "-o", self.box.path("bad"), "--", "sh", "-c", "exit 3"))
        self.assertEqual(run.returncode, 3)
        self.scry("record", "-q", "--import", self.box.path("bad"))
        shown = self.scry("site", "--since", "1h").stdout
        self.assertRegex(shown, r"\n  failed +1 exit status 3\n")
        self.assertRegex(shown, r"\n  not known +1  \S+: sh ended with exit status 3\n")
        self.assertIn("\nNo job or node has another problem that scry knows.\n", shown)
        self.assertEqual(self.site("--since", "1h")["failures"], [{"how": "exit status 3", "jobs": 1}])

    def test_reasons(self):
        """What failed most, and why: reasons that are the same but for numbers and names are one; so is what exit status 0 hides."""
        for number, name in enumerate("abc"):
            self.maker.job(f"said{number}", exit_code=1, cause=("cause_log", f"probably what stderr says: step {number}: cannot open '{name}.nc'"))
        self.maker.job("hidden", cause=("hidden_failure", "the exit status is 0, but rank 2 crashed"))
        self.maker.job("silent", exit_code=139)
        self.maker.take(self.record)
        said = self.site()["reasons"]
        newest = said[0].pop("id"), said[0].pop("text")
        self.assertEqual(set(said[0].pop("newest")), {"ada/said0", "ada/said1", "ada/said2"})
        self.assertIn(newest, [(f"said{number}", f"probably what stderr says: step {number}: cannot open '{name}.nc'") for number, name in enumerate("abc")])
        self.assertEqual(said, [
            {"cause": "cause_log", "jobs": 3, "owner": "ada"},
            {"cause": None, "jobs": 1, "text": "SIGSEGV", "owner": "ada", "id": "silent", "newest": ["ada/silent"]},
            {"cause": "hidden_failure", "jobs": 1, "text": "the exit status is 0, but rank 2 crashed", "owner": "ada", "id": "hidden", "newest": ["ada/hidden"]}])
        self.assertRegex(self.scry("site").stdout, r"\nFailures +jobs  the newest of them: reason of the first\n  its log +3  (ada/said\d(, )?){3}: probably what stderr says: step \d: cannot open '[abc].nc'\n  not known +1  ada/silent: SIGSEGV\n  hidden by 0 +1  ada/hidden: the exit ")

    def test_older_format(self):
        """A record of the first format is brought up to date by the recorder, and only by it."""
        self.maker.job("idle", exit_code=1, cause=("cause_log", "probably what stderr says: no input"))
        self.maker.take(self.record)
        self.record.query("DROP VIEW job_list; DROP VIEW node_list; DROP VIEW minute_list; DROP TABLE ranks; DROP TABLE exported;"
                          "DROP INDEX jobs_node; ALTER TABLE jobs DROP COLUMN stalled_t; ALTER TABLE jobs DROP COLUMN stalled_text;"
                          "ALTER TABLE jobs DROP COLUMN age; ALTER TABLE jobs DROP COLUMN is_signed;"
                          "ALTER TABLE jobs DROP COLUMN cause; ALTER TABLE jobs DROP COLUMN cause_text;"
                          "ALTER TABLE minutes DROP COLUMN node_swap_used_bytes; ALTER TABLE minutes DROP COLUMN throttled;"
                          "UPDATE meta SET version = 1, scry = '0.1'", self.database)
        self.assertIn("brings it up to date", self.scry("site", status=1).stderr)
        self.scry("record", "-q", "--import", self.maker.job("other"))
        said = self.site()
        self.assertEqual((said["jobs"], said["reasons"][0]["text"]), (2, "probably what stderr says: no input"))


class RecorderCase(SiteCase):
    def setUp(self):
        super().setUp()
        self.broker = brokertest.Mosquitto(self.box)
        self.addCleanup(self.broker.stop)

    def recorder(self, *arguments):
        """A recorder with metrics on a free port: its process, and the address."""
        process = self.box.start(self.box.scry("record", "--broker", self.broker.url, "--metrics", "0", *arguments), stderr=subprocess.STDOUT)
        metrics, follows = sorted((process.stdout.readline() for _ in range(2)), reverse=True)  # it follows when the broker has answered
        self.assertIn("metrics are at http://127.0.0.1:", metrics)
        self.assertIn("following the jobs of", follows)
        return process, metrics.split()[-1]

    def scrape(self, url, accept=""):
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=20) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    def answers(self, url):
        try:
            return "scry_jobs{" in self.scrape(url)[1]
        except OSError:
            return False

    def until(self, url, words):
        return scrytest.wait_until(lambda: (lambda text: words in text and text)(self.scrape(url)[1]), 20, words)


class Metrics(RecorderCase):
    def test_stock_parsers(self):
        """promtool and the parsers of Prometheus' client read both formats, whatever jobs call themselves."""
        process, url = self.recorder("--owner", "all")
        evil = 'a"b\\c\nd\x1b{}='
        made = recordtest.Publisher(self.broker, "ada", "evil", 5)
        made.say(name=evil, batch={"system": "slurm", "id": "1", "cpus": 3, "memory_bytes": GB, "time_limit_seconds": 60})
        text = self.until(url, 'scry_job_cpus_asked{owner="ada",id="evil"')
        kind, text = self.scrape(url)
        self.assertEqual(kind, "text/plain; version=0.0.4; charset=utf-8")
        families = {family.name: family for family in text_string_to_metric_families(text)}
        sample, = families["scry_job_cpus_asked"].samples
        self.assertEqual((sample.labels, sample.value), ({"owner": "ada", "id": "evil", "name": evil, "node": "n1"}, 3))
        self.assertEqual({sample.labels["state"]: sample.value for sample in families["scry_jobs"].samples}["running"], 1)
        self.assertEqual(families["scry_record_broker_connected"].samples[0].value, 1)
        checked = self.box.run(["promtool", "check", "metrics"], input=text)
        self.assertEqual((checked.returncode, checked.stderr + checked.stdout), (0, ""))
        kind, text = self.scrape(url, "application/openmetrics-text; version=1.0.0")
        self.assertIn("application/openmetrics-text", kind)
        strict = {family.name for family in openmetrics(text)}
        self.assertIn("scry_job_cpu_seconds", strict)
        with open(os.path.join(scrytest.SOURCE, "doc", "reference", "metrics.md"), encoding="utf-8") as file:
            described = set(re.findall(r"^\| `(scry_\w+)`", file.read(), re.M))
        self.assertEqual(described - {name for name in described if name.startswith("scry_otlp")},
                         set(re.findall(r"^# HELP (\w+)", self.scrape(url)[1], re.M)))
        process.terminate()
        self.assertEqual(process.wait(20), 0)

    def test_configuration_of_the_page(self):
        """promtool takes what is in examples/site; its queries, and those of doc/howto/site.md, name metrics that there are."""
        done = self.box.run(["promtool", "check", "config", os.path.join(scrytest.SOURCE, "examples", "site", "prometheus.yml")])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("3 rules found", done.stdout)
        page = ""
        for name in ("examples/site/scry-rules.yml", "doc/howto/site.md"):
            with open(os.path.join(scrytest.SOURCE, name), encoding="utf-8") as file:
                page += file.read()
        with open(os.path.join(scrytest.SOURCE, "doc", "reference", "metrics.md"), encoding="utf-8") as file:
            self.assertEqual(set(re.findall(r"\bscry_\w+", page)) - set(re.findall(r"`(scry_\w+)`", file.read())), set())

    @scrytest.hasten(4)
    def test_hostile_clients(self):
        """Clients that are slow, never read, speak nonsense, or are many: others are answered, and jobs recorded."""
        process, url = self.recorder()
        port = int(url.split(":")[2].split("/")[0])
        clients = []
        for words in (b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20, b"\x16\x03\x01" + os.urandom(500),
                      b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 9999,
                      b"GET /" + b"a" * 100000):
            for _ in range(3):
                clients.append(socket.create_connection(("127.0.0.1", port)))
                try:
                    clients[-1].sendall(words)
                except OSError:
                    pass
        self.assertIn("scry_jobs{", self.scrape(url)[1])
        for path in ("/", "/metrics/../etc/passwd", "/%00"):
            with self.assertRaises(urllib.error.HTTPError) as caught:
                self.scrape(url.replace("/metrics", path))
            self.assertEqual(caught.exception.code // 100, 4)
        clients += [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
        path = self.scry_run("-q", "--broker", self.broker.url, "--name", "recorded", "--", "true")
        self.assertEqual(path.returncode, 0)
        scrytest.wait_until(lambda: self.record.query("SELECT id FROM jobs WHERE name = 'recorded' AND complete = 1"), 20)
        scrytest.wait_until(lambda: self.answers(url), 40, "an answer when slow clients were closed")
        for client in clients:
            client.close()
        self.assertIsNone(process.poll())

    @scrytest.hasten(4)
    def test_notifier_dies(self):
        """The recorder does not care, and starts it again."""
        process, url = self.recorder()
        children = scrytest.wait_until(lambda: [int(child) for child in open(
            f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii").read().split()], 20)
        os.kill(children[0], signal.SIGKILL)
        scrytest.wait_until(lambda: self.answers(url), 30, "an answer of the next one")
        self.assertIsNone(process.poll())

    def test_bad_input(self):
        taken = socket.create_server(("127.0.0.1", 0))
        for arguments, said in ((["--metrics", "x"], "expected [ADDRESS:]PORT"), (["--metrics", ":"], "expected [ADDRESS:]PORT"),
                                (["--metrics", f"127.0.0.1:{taken.getsockname()[1]}"], "cannot listen"),
                                (["--otlp", "ftp://x"], "expected http://HOST")):
            self.assertIn(said, self.scry("record", "--broker", self.broker.url, *arguments, status=1).stderr)
        self.assertIn("give --broker", self.scry("record", "--import", "x", "--metrics", "1", status=2).stderr)


class Collector(http.server.ThreadingHTTPServer):
    """Takes logs as a collector does, and checks their shape. `answers`: statuses of the next requests."""

    def __init__(self, answers=()):
        self.answers, self.requests, self.records, self.wrong = list(answers), [], [], []
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):  # the name that http.server wants
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server = self.server
            server.requests.append((self.path, self.headers["Content-Type"], self.headers.get("X-Key")))
            status = server.answers.pop(0) if server.answers else 200
            if status == 200:
                try:
                    server.take(json.loads(body))
                except (AssertionError, KeyError, ValueError, TypeError) as wrong:
                    server.wrong.append(repr(wrong))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_arguments):
            pass

    @staticmethod
    def value(value):
        (kind, said), = value.items()
        assert isinstance(said, {"stringValue": str, "intValue": str, "doubleValue": (int, float), "boolValue": bool}[kind]), value
        return int(said) if kind == "intValue" else said

    def attributes(self, thing):
        names = [each["key"] for each in thing["attributes"]]
        assert len(set(names)) == len(names), names
        return {each["key"]: self.value(each["value"]) for each in thing["attributes"]}

    def take(self, body):
        assert list(body) == ["resourceLogs"], list(body)
        for resource in body["resourceLogs"]:
            job = self.attributes(resource["resource"])
            assert job["service.name"] == "scry" and job["host.name"]
            for scope in resource["scopeLogs"]:
                assert scope["scope"]["name"] == "scry"
                for record in scope["logRecords"]:
                    assert re.fullmatch(r"\d+", record["timeUnixNano"]) and re.fullmatch(r"\d+", record["observedTimeUnixNano"])
                    assert 1 <= record["severityNumber"] <= 24 and record["severityText"] in ("DEBUG", "INFO", "WARN", "ERROR")
                    said = self.attributes(record)
                    self.records.append((job["scry.job"], said["scry.seq"], said["scry.type"], record))


class OpenTelemetry(RecorderCase):
    def job(self, *arguments, command=("sh", "-c", "ls /nowhere; exit 3"), status=3):
        self.assertEqual(self.scry_run("-q", "--broker", self.broker.url, *arguments, "--", *command).returncode, status)

    def test_records_arrive(self):
        """Each once, through refusals and an outage, and from where it was after a restart."""
        collector = Collector([503, 429])
        self.box.env["OTEL_EXPORTER_OTLP_HEADERS"] = "x-key=a%20b,other=c"
        self.job("--name", "before")
        process, url = self.recorder("--otlp", collector.url)
        self.job("--name", "first")
        stored = lambda: self.record.query("SELECT id, seq, type, t, started FROM record_list JOIN jobs USING (id) ORDER BY id, seq")
        job = lambda name: self.record.query(f"SELECT id FROM jobs WHERE name = '{name}' AND complete = 1")
        scrytest.wait_until(lambda: job("first"), 20)
        scrytest.wait_until(lambda: len(collector.records) >= len(stored()), 20, lambda: f"{collector.wrong} {len(collector.records)}")
        process.terminate()
        self.assertEqual(process.wait(20), 0, process.stdout.read())
        collector.answers = [502]
        self.recorder("--otlp", collector.url)
        self.job("--name", "second")
        scrytest.wait_until(lambda: job("second"), 20)
        scrytest.wait_until(lambda: len(collector.records) >= len(stored()), 20, lambda: f"{collector.wrong} {len(collector.records)}")
        rows = stored()
        self.assertEqual(sorted(record[:3] for record in collector.records), sorted((row["id"], row["seq"], row["type"]) for row in rows))
        self.assertEqual(collector.wrong, [])
        self.assertEqual(set(collector.requests), {("/v1/logs", "application/json", "a b")})
        times = {(row["id"], row["seq"]): row["started"] + row["t"] for row in rows}
        for job_id, seq, kind, record in collector.records:
            self.assertAlmostEqual(int(record["timeUnixNano"]) / 1e9, times[job_id, seq], 3)
            self.assertEqual(record["severityText"] == "DEBUG", kind in ("sample", "health", "script_line", "python_stack"))

    @scrytest.thorough
    def test_once(self):
        """A recorder that ends by itself has sent all before, whatever its database."""
        server = recordtest.postgres()
        go = self.box.path("work", "go")
        os.mkfifo(go)
        job = self.start_run("-q", "--broker", self.broker.url, "--", "sh", "-c", f"ls /nowhere; read line <{go}")
        recorders = []
        for record, options in ((self.record, []), (server, ["--record", server.url])):
            collector = Collector()
            recorders.append((record, collector, self.box.start(
                self.box.scry("record", "--broker", self.broker.url, "--once", "--otlp", collector.url, *options))))
        for record, collector, _ in recorders:
            scrytest.wait_until(lambda: collector.records, 20, "the first records")
        with open(go, "w", encoding="ascii") as file:
            file.write("go\n")
        self.assertEqual(job.wait(20), 0)
        for record, collector, process in recorders:
            self.assertEqual(process.wait(40), 0)
            rows = record.query("SELECT id, seq FROM record_list")
            self.assertGreater(len(rows), 3)
            self.assertEqual(sorted(sent[:2] for sent in collector.records), sorted((row["id"], row["seq"]) for row in rows))
            self.assertEqual(collector.wrong, [])

    def dropped(self, url):
        return int(re.search(r"(?m)^scry_otlp_dropped_total (\d+)$", self.scrape(url)[1])[1])

    def test_drops_are_counted(self):
        """What is refused, and what is not taken in time, is counted; the rest goes on."""
        collector = Collector([400])
        _process, url = self.recorder("--otlp", collector.url, "--otlp-retry", "1s")
        self.job("--name", "first")
        refused = scrytest.wait_until(lambda: self.dropped(url), 20)
        collector.answers = [503] * 1000
        self.job("--name", "second")
        scrytest.wait_until(lambda: self.dropped(url) > refused, 20)
        self.assertGreater(1000 - len(collector.answers), 1)  # it tried again
        collector.answers = []
        self.job("--name", "third")
        scrytest.wait_until(lambda: any(record[2] == "end" for record in collector.records), 20)
        self.assertEqual(collector.wrong, [])


scrytest.main()
