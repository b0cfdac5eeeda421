# SPDX-License-Identifier: Apache-2.0
"""Steering a job through a broker: what works as on its node, and what everybody tries who should not."""

import json
import os
import re
import signal
import time

import brokertest
import jobtest
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
            os.kill(pid, signal.SIGKILL)

    def start_job(self, *command, options=(), keys=True):
        if keys:
            self.scry("keys", "init")
        self.reader = self.broker.client("scry/v1/#")
        self.running = self.start_run("--broker", self.broker.url, "--sample", "0.2", *options, "--", *(command or ["sleep", "600"]))
        state = self.reader.wait(lambda: [m for m in self.reader.of("/state") if json.loads(m.payload)["info"].get("command", {}).get("pid")])
        self.state = json.loads(state[-1].payload)
        self.job, self.dir = self.state["job"], self.state["dir"]
        self.root = self.state["info"]["command"]["pid"]
        self.addCleanup(self.end_job)
        return self.job

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
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def issue(self, *options, name="guest"):
        path = self.box.path("tmp", f"{name}.pem")
        self.scry("keys", "issue", "--name", name, *options, "-o", path)
        return path

    def records(self, kind):
        with open(os.path.join(self.dir, "spool", "records.jsonl"), encoding="utf-8") as file:
            return [record for record in map(json.loads, file) if record["type"] == kind]


class Control(ControlCase):
    def test_requests(self):
        self.start_job()
        self.assertIn("OMIS_OK", self.omis(": version()"))
        print(self.omis(f': proc_attach3([], {self.root}, "") proc_get_info([], 512)'))


if __name__ == "__main__":
    scrytest.main()
