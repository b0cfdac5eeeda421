# SPDX-License-Identifier: Apache-2.0
"""Steering a job through a broker: what works as on its node, and what everybody tries who should not."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time

import brokertest
import jobtest
import labtest
import mpitest
import scrytest


class ControlCase(jobtest.JobCase):
    """A job with a publisher, and somebody elsewhere: other directories, no monitor, the same keys."""

    def setUp(self):
        super().setUp()
        self.broker = brokertest.Mosquitto(self.box)
        self.addCleanup(self.broker.close)
        self.owner = self.box.run(["id", "-un"]).stdout.strip()
        self.keys = self.box.path("home", ".config", "scry", "keys")
        for name in ("run", "jobs"):
            os.mkdir(self.box.path("tmp", "away-" + name), 0o700)
        self.away = {"SCRY_RUNTIME_DIR": self.box.path("tmp", "away-run"), "SCRY_STATE_DIR": self.box.path("tmp", "away-jobs")}
        self.addCleanup(self.end_publishers)

    def end_publishers(self):
        for pid in self.box.processes("scry-publisher"):
            with contextlib.suppress(ProcessLookupError):  # it ended by itself meanwhile
                os.kill(pid, signal.SIGKILL)

    def start_job(self, *command, options=(), keys=True, **keywords):
        if keys:
            self.scry("keys", "init")
        self.reader = self.broker.client("scry/v1/#")
        self.running = self.start_run("--broker", self.broker.url, "--sample", "0.2", *options, "--", *(command or ["sleep", "600"]), **keywords)
        state = self.reader.wait(lambda: self.reader.of("/state"))
        self.state = json.loads(state[-1].payload)
        self.job, self.dir = self.state["job"], self.state["dir"]
        self.root = scrytest.wait_until(self.command, 20, "the job's command")["pid"]
        self.addCleanup(self.end_job)
        return self.job

    def command(self):
        """What job.json says of it; the broker hears of that within a second."""
        with open(os.path.join(self.dir, "job.json"), encoding="utf-8") as file:
            return json.load(file).get("command")

    def end_job(self):
        if self.running.poll() is None:
            self.running.send_signal(signal.SIGTERM)
            self.running.wait(20)

    def url(self, job=None):
        return f"{self.broker.url}//{self.owner}/{job or self.job}"

    def omis(self, *requests, key=None, status=0, job=None, options=()):
        """Asks from elsewhere; the answer as it is printed, with errors."""
        command = [word for request in requests for word in ("-c", request)]
        env = {**self.away, **({"SCRY_KEY": key} if key else {})}
        done = self.box.run(self.box.scry("omis", "--connect", self.url(job), *options, *command), env=env, merged=True)
        if status is not None:
            self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def issue(self, *options, name="guest"):
        path = self.box.path("tmp", f"{name}.pem")
        self.scry("keys", "issue", "--name", name, *options, "-o", path)
        return path

    def records(self, kind):
        with open(os.path.join(self.dir, "spool", "records.jsonl"), encoding="utf-8") as file:
            return [record for record in map(json.loads, file) if record["type"] == kind]


MARK = "marker-of-this-test-4711"


class Control(ControlCase):
    def test_everything_works_as_on_the_node(self):
        self.start_job(env={"MARK": MARK})
        self.assertIn('"scry ', self.omis(": version()"))
        # a signal, an event, and its list
        answer = self.omis(f': proc_attach3([], {self.root}, "") proc_get_info([], 512) proc_get_info([], 32)')
        self.assertIn(str(self.root), answer)
        self.assertIn(MARK, answer)
        # settings
        done = self.box.run(self.box.scry("set", self.url(), "sample=0.5"), env=self.away)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        shown = self.box.run(self.box.scry("set", "--json", self.url()), env=self.away)
        self.assertEqual(json.loads(shown.stdout)["sample"], "0.5")
        # each change is a record, of which reader and recorder hear, too
        record = scrytest.wait_until(lambda: self.records("request"), 10)[0]
        self.assertEqual((record["who"], record["status"]), ("own", "OMIS_OK"))
        self.assertEqual(record["request"], f':job_set("{self.dir}","sample","0.5")')
        self.assertTrue(self.records("setting"))
        done = self.box.run(self.box.scry("signal", self.url(), "CONT"), env=self.away)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        record = scrytest.wait_until(lambda: self.records("request")[1:], 10)[0]
        self.assertEqual((record["who"], record["request"]), ("own", f':job_send_signal("{self.dir}","signal",18)'))
        # a conditional request, which kills the job that it is asked to watch
        answer = self.omis(f': proc_attach3([], {self.root}, "")', "proc_has_terminated([]) : print([$proc])",
                           ": csr_enable([])", ": proc_send_signal([], 9)", options=("--wait", "2"), status=None)
        self.assertRegex(answer, r"triggered: p_1_1\n +1,\[p_1_1\]")
        self.assertEqual(self.running.wait(20), 137)
        # and nobody at the broker could read any of it but what is recorded
        for message in self.reader.messages:
            if message.topic.endswith("/request") or "/reply/" in message.topic:
                for word in (MARK, "proc_", "version", "sample", "OMIS"):
                    self.assertNotIn(word.encode(), message.payload)
        self.assertTrue(self.reader.of("/request"))
        self.assertEqual([m for m in self.reader.messages if MARK.encode() in m.payload], [])

    def test_values_are_sealed(self):
        self.start_job()
        env = self.omis(f': proc_attach3([], {self.root}, "") proc_get_info([], 32)')
        self.assertIn("SCRY_JOB=", env)
        self.assertFalse([m for m in self.reader.messages if b"SCRY_JOB=" in m.payload])
        self.assertNotIn("SCRY_KEY", env)

    def test_large_answers_come_in_parts(self):
        self.start_job()
        for size in (200_000, 900_000):
            text = "x" * size
            request = self.box.path("tmp", "request")
            with open(request, "w", encoding="utf-8") as file:
                file.write(f': print(["{text}"])\n')
            with open(request, "rb") as file:
                done = self.box.run(self.box.scry("omis", "--connect", self.url()), env=self.away, stdin=file)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(text, done.stdout)
        with open(request, "w", encoding="utf-8") as file:
            file.write(f': print(["{"x" * 1_100_000}"])\n')
        with open(request, "rb") as file:
            done = self.box.run(self.box.scry("omis", "--connect", self.url()), env=self.away, stdin=file)
        self.assertIn("at most 1 MB", done.stderr)

    def test_rights(self):
        self.start_job()
        observe = self.issue("--rights", "observe", name="observer")
        control = self.issue("--rights", "control", name="controller")
        attach = f': proc_attach3([], {self.root}, "") '
        answer = self.omis(attach + "proc_get_info([], 512)", key=observe)
        self.assertIn(str(self.root), answer)
        for request in (attach + "proc_send_signal([], 9)", ': job_set("", "sample", "9")'):
            self.assertIn("this key may observe only", self.omis(request, key=observe, status=1))
        self.assertIn("needs memory", self.omis(attach + "proc_read_memory([], 4096, 1, 1, 1)", key=control, status=1))
        self.assertIn("only on the job's node", self.omis(': job_set("", "log", "/etc/passwd=.*")', key=control, status=1))
        self.assertIn("none of the job", self.omis(f': proc_attach3([], {self.running.pid}, "")', key=control, status=1))
        self.assertIn("only on the job's node",
                      self.omis(': proc_create([], "/bin/true", [], [], [])', key=control, status=1))
        refused = scrytest.wait_until(lambda: self.records("request"), 10)[0]
        self.assertEqual((refused["who"], refused["status"]), ("observer", "OMIS_NO_PERMISSION"))
        self.assertIn("needs control", refused["why"])
        self.assertNotIn(str(self.root), refused["request"])  # the names of what was asked for
        self.assertIsNone(self.running.poll())
        # a list that runs later
        self.omis(attach, "proc_has_been_stopped([]) : proc_send_signal([], 9)", key=observe, status=1)
        self.assertIsNone(self.running.poll())

    def test_keys_that_are_not_taken(self):
        self.start_job()
        other = self.issue("--rights", "control", "--job", "another-*", name="other")
        self.assertIn("is for jobs another-* only", self.omis(": version()", key=other, status=2))
        # of another authority
        foreign = self.box.path("tmp", "foreign")
        os.mkdir(foreign, 0o700)
        env = {**self.away, "HOME": foreign}
        done = self.box.run(self.box.scry("keys", "init"), env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = self.omis(": version()", key=os.path.join(foreign, ".config", "scry", "keys", "own.pem"), status=2)
        self.assertIn("of another user's authority", answer)
        # none
        done = self.box.run(self.box.scry("omis", "--connect", self.url(), "-c", ": version()"),
                            env={**self.away, "HOME": self.box.path("tmp", "nothing")})
        self.assertIn("there is no key in", done.stderr)
        self.assertEqual(done.returncode, 2)

    @scrytest.hasten(5)
    def test_expired_in_use(self):
        self.start_job()
        key = self.issue("--rights", "control", "--for", "4s", name="short")
        session = self.box.start(self.box.scry("omis", "--connect", self.url()), env={**self.away, "SCRY_KEY": key},
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        session.stdin.write(": version()\n")
        session.stdin.flush()
        self.assertIn("scry", session.stdout.readline())
        self.assertRegex(session.stderr.readline(), "expired|unreachable|cannot be asked")
        session.stdin.close()
        session.wait(20)
        self.assertRegex(self.omis(": version()", key=key, status=2), "expired")

    def test_a_job_without_a_key(self):
        self.start_job(keys=False)
        self.assertIsNone(self.state["address"])
        self.scry("keys", "init")
        self.assertIn("takes no requests: it was started without a key", self.omis(": version()", status=2))

    def test_a_key_that_was_given(self):
        """On a node from which nobody's authority can be read; and one that does not let the job see it."""
        self.scry("keys", "init")
        path = self.box.path("tmp", "job.pem")
        self.scry("keys", "issue", "--kind", "job", "-o", path)
        os.rename(self.box.path("home"), self.box.path("tmp", "away-home"))
        os.mkdir(self.box.path("home"), 0o700)
        self.start_job("sh", "-c", "env; exec sleep 600", options=("--key", path), keys=False)
        env = {**self.away, "HOME": self.box.path("tmp", "away-home")}
        done = self.box.run(self.box.scry("omis", "--connect", self.url(), "-c", ": version()"), env=env)
        self.assertIn('"scry ', done.stdout, done.stderr)

    def test_a_job_that_is_over_or_unknown(self):
        self.start_job("true")
        self.running.wait(20)
        self.reader.wait(lambda: json.loads(self.reader.of("/state")[-1].payload)["complete"])
        self.assertIn("is over: finished", self.omis(": version()", status=2))
        self.assertIn("has no job 'nothing'", self.omis(": version()", job="nothing", status=2))

    @scrytest.hasten(5)
    def test_unreachable(self):
        self.start_job()
        [publisher] = self.box.processes("scry-publisher")
        os.kill(publisher, signal.SIGSTOP)
        try:
            began = time.monotonic()
            self.assertRegex(self.omis(": version()", status=2), "does not answer: it is unreachable")
            self.assertLess(time.monotonic() - began, scrytest.room(25))
        finally:
            os.kill(publisher, signal.SIGCONT)
        self.assertIn('"scry ', self.omis(": version()"))
        self.broker.stop()
        self.assertIn("does not answer", self.omis(": version()", status=2))

    def test_many_sessions(self):
        """One key does not lock out the others."""
        self.start_job()
        key = self.issue("--rights", "observe", name="many")
        sessions = []
        for _ in range(8):
            session = self.box.start(self.box.scry("omis", "--connect", self.url()), env={**self.away, "SCRY_KEY": key},
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            session.stdin.write(": version()\n")
            session.stdin.flush()
            self.assertIn("scry", session.stdout.readline())
            sessions.append(session)
        self.assertIn("this key has 8 sessions", self.omis(": version()", key=key, status=2))
        self.assertIn('"scry ', self.omis(": version()"))
        for session in sessions:
            session.stdin.close()
            self.assertEqual(session.wait(20), 0)
        scrytest.wait_until(lambda: '"scry ' in self.omis(": version()", key=key, status=None), 10)

    def test_revoked_in_use(self):
        self.start_job()
        key = self.issue("--rights", "control", name="guest")
        session = self.box.start(self.box.scry("omis", "--connect", self.url()), env={**self.away, "SCRY_KEY": key},
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        session.stdin.write(": version()\n")
        session.stdin.flush()
        self.assertIn("scry", session.stdout.readline())
        self.scry("keys", "revoke", "guest")
        with open(os.path.join(self.keys, "revoked.pem"), "rb") as file:
            self.reader.publish(f"scry/v1/{self.owner}/keys/revoked", file.read(), retain=True)
        self.assertRegex(session.stderr.readline(), "was revoked")
        session.stdin.close()
        session.wait(20)
        self.assertRegex(self.omis(": version()", key=key, status=2), "was revoked")
        self.assertIn('"scry ', self.omis(": version()"))  # other keys are taken


class Why(ControlCase):
    @scrytest.thorough  # test_anywhere.py asks such a job, too
    def test_deadlock(self):
        """Ranks that wait for each other in a circle: asked now, through the broker, and told as on the node."""
        mpi = next(mpi for mpi in mpitest.MPIS if mpitest.available(mpi))
        program = mpitest.compile_program(mpi, os.path.join(scrytest.SOURCE, "examples", "mpi_deadlock.c"), name="mpi_deadlock")
        self.start_job(*mpitest.MPIS[mpi]["run"], "-n", "4", program, env=mpitest.QUIET, stdout=subprocess.DEVNULL)
        answers = []

        def stuck():
            done = self.box.run(self.box.scry("why", "--json", self.url()), env=self.away)
            answers.append(done.stdout + done.stderr)
            return done.returncode == 3
        scrytest.wait_until(stuck, 60, lambda: f"scry why says so: {answers[-1]}")
        answer = json.loads(answers[-1])
        (finding,) = answer["mpi"]["findings"]
        self.assertEqual((finding["kind"], sorted(finding["ranks"])), ("deadlock", [0, 1, 2, 3]))
        self.assertFalse(answer["note"])
        text = self.box.run(self.box.scry("why", self.url()), env=self.away).stdout
        self.assertIn("deadlock: 4 ranks wait for each other in a circle", text)
        # whoever may only observe may ask so
        key = self.issue("--rights", "observe", name="observer")
        done = self.box.run(self.box.scry("why", self.url()), env={**self.away, "SCRY_KEY": key})
        self.assertIn("deadlock: 4 ranks wait for each other in a circle", done.stdout)
        self.assertNotIn("note:", done.stdout)


class Attacks(ControlCase):
    """By somebody who may read and write everything at the broker."""

    def ask(self):
        self.omis(f': proc_attach3([], {self.root}, "") proc_send_signal([], 0)')

    def test_replay(self):
        """Each message of a session that killed nothing, again, in each order: no request is carried out twice."""
        self.start_job()
        self.ask()
        scrytest.wait_until(lambda: self.records("request"), 10)
        self.reader.wait(lambda: len(self.reader.of("/request")) > 2)
        captured = [m.payload for m in self.reader.of("/request")]
        for payload in captured + captured[::-1]:
            self.reader.publish(f"scry/v1/{self.owner}/{self.job}/request", payload)
        self.omis(": version()")
        self.assertEqual(len(self.records("request")), 1)

    @scrytest.thorough  # it waits for what expires
    def test_kept_back(self):
        """Requests that the broker kept until their sender was gone: the session has never begun, so nothing is done."""
        with brokertest.Mosquitto(self.box, "other") as other:
            self.start_job()
            # everything that the job says is there, but what is asked does not get to it
            client = other.client("scry/v1/#")
            for name in ("state", "beat"):
                client.publish(f"scry/v1/{self.owner}/{self.job}/{name}", self.reader.of(f"/{name}")[-1].payload, retain=True)
            url = f"{other.url}//{self.owner}/{self.job}"
            done = self.box.run(self.box.scry("omis", "--connect", url, "-c", f': proc_attach3([], {self.root}, "") proc_send_signal([], 9)'),
                                env=self.away)
            self.assertEqual(done.returncode, 2)
            kept = [m.payload for m in client.of("/request")]
        self.assertTrue(kept)
        for payload in kept:
            self.reader.publish(f"scry/v1/{self.owner}/{self.job}/request", payload)
        self.omis(": version()")
        self.assertIsNone(self.running.poll())
        self.assertFalse(self.records("request"))

    def test_memory_of_the_publisher(self):
        """Its memory is the job's: it has a limit, and it is the first that the system ends. None of it gets into a core."""
        self.start_job()
        pid = next(self.box.processes("scry-publisher"))
        with open(f"/proc/{pid}/limits", encoding="ascii") as file:
            limits = file.read()
        self.assertRegex(limits, r"Max core file size +1 +1 ")
        if not scrytest.build_options().get("b_sanitize", "none").startswith("address"):
            self.assertRegex(limits, r"Max data size +167772160 ")
        with open(f"/proc/{pid}/oom_score_adj", encoding="ascii") as file:
            self.assertEqual(file.read().strip(), "1000")

    def test_forged_and_damaged(self):
        self.start_job()
        self.ask()
        good = self.reader.wait(lambda: self.reader.of("/request")[1:])[0].payload
        topic = f"scry/v1/{self.owner}/{self.job}/request"
        for payload in (b"", b"x", b"\0" * 1000, good[:-1], good[:40], good + b"x", bytes(500_000),
                        bytes([good[0] ^ 1]) + good[1:], good[:50] + bytes([good[50] ^ 128]) + good[51:]):
            self.reader.publish(topic, payload)
        for message in self.reader.messages[:]:
            if "/reply/" in message.topic:
                self.reader.publish(topic, message.payload)  # answers are no requests
        self.assertIn('"scry ', self.omis(": version()"))
        self.assertEqual(len(self.records("request")), 1)
        note = scrytest.wait_until(lambda: [r for r in self.records("warning") if r["note"] == "requests_refused"], 10)[0]
        self.assertRegex(note["text"], r"through the broker were refused: \d+ damaged")

    def test_another_hour(self):
        """The job's clock is set: what was sent before is refused, and no attack."""
        wall = self.box.path("work", "wall")
        labtest.set_wall(wall, 0)
        self.start_job(env={"LD_PRELOAD": labtest.wall_clock(self.box.path("work")), "SCRY_LAB_WALL": wall})
        self.ask()
        late = self.reader.wait(lambda: self.reader.of("/request"))[0].payload
        labtest.set_wall(wall, 600)
        for payload in (late, late, b"x"):
            self.reader.publish(f"scry/v1/{self.owner}/{self.job}/request", payload)
        note, = scrytest.wait_until(lambda: [r for r in self.records("warning") if r["note"] == "requests_refused"], 10)
        self.assertRegex(note["text"], r"through the broker were refused: 1 damaged$")

    def test_another_job(self):
        """A request for one job, sent to another one of the same user."""
        self.start_job()
        self.ask()
        captured = [m.payload for m in self.reader.of(f"{self.job}/request")]
        first, first_dir = self.job, self.dir
        other = self.start_run("--broker", self.broker.url, "--", "sleep", "600")
        self.addCleanup(other.wait, 20)
        self.addCleanup(other.send_signal, signal.SIGTERM)
        def second():
            return [m for m in self.reader.of("/state") if json.loads(m.payload)["job"] != first and json.loads(m.payload)["address"]]
        [*_, state] = self.reader.wait(second)
        job = json.loads(state.payload)["job"]
        for payload in captured:
            self.reader.publish(f"scry/v1/{self.owner}/{job}/request", payload)
        self.assertIn('"scry ', self.omis(": version()", job=job))
        self.dir = json.loads(state.payload)["dir"]
        self.assertFalse(self.records("request"))
        # a key for one job alone does not open the other one
        key = self.issue("--rights", "control", "--job", first, name="one")
        self.assertIn('"scry ', self.omis(": version()", key=key, job=first))
        self.assertIn("is for jobs", self.omis(": version()", key=key, job=job, status=2))

    def test_answers_of_others(self):
        """Whoever answers in the job's place is not believed; the real answer is."""
        self.start_job()
        stop = []
        def answer(_mqtt, _ctx, message):
            if message.topic.endswith("/request"):
                stop.append(message.topic)
        self.ask()
        replies = self.reader.wait(lambda: [m for m in list(self.reader.messages) if "/reply/" in m.topic])
        # the answers of an earlier session to a later one
        spy = self.broker.client("scry/v1/+/+/request")
        session = self.box.start(self.box.scry("omis", "--connect", self.url()), env=self.away,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        scrytest.wait_until(lambda: spy.messages, 10)
        later = scrytest.wait_until(lambda: [m.topic for m in self.reader.messages if "/reply/" in m.topic and m.topic != replies[0].topic], 10)[0]
        for message in replies:
            self.reader.publish(later, message.payload)
            self.reader.publish(later, message.payload[::-1])
        session.stdin.write(": version()\n")
        session.stdin.close()
        self.assertIn('"scry ', session.stdout.read())
        self.assertEqual(session.wait(20), 0)

    def test_lying_broker(self):
        """One that repeats, reorders, and cuts the connection: each request is carried out once, and answered."""
        self.start_job()
        with brokertest.LyingBroker(self.broker) as liar:
            for name in ("duplicate", "reorder"):
                if hasattr(liar, name):
                    setattr(liar, name, True)
            url = f"{liar.url}/{self.owner}/{self.job}"
            requests = [word for i in range(5) for word in ("-c", f': proc_attach3([], {self.root}, "") proc_send_signal([], 0) print([{i}])')]
            done = self.box.run(self.box.scry("omis", "--connect", url, *requests), env=self.away)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([int(n) for n in re.findall(r"^1,\[(\d)\]", done.stdout, re.M)], list(range(5)), done.stdout)
        scrytest.wait_until(lambda: len(self.records("request")) >= 5, 10)
        self.assertEqual(len(self.records("request")), 5)


if __name__ == "__main__":
    scrytest.main()
