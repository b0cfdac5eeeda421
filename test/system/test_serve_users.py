# SPDX-License-Identifier: Apache-2.0
"""One address for all users of a machine: nginx knows who somebody is, and each user's own scry serve answers."""

import base64
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import unittest

import brokertest
import scrytest
import servetest

ONE, OTHER, PROXY = "nobody", "daemon", "www-data"
SERVERS = "/run/scry-serve"  # of the how-to

ASK = """
import socket, sys
with socket.socket(socket.AF_UNIX) as sock:
    sock.settimeout(60)
    sock.connect(sys.argv[1])
    try:
        sock.sendall(sys.argv[2].encode())
        while data := sock.recv(65536):
            sys.stdout.buffer.write(data)
    except (BrokenPipeError, ConnectionResetError):
        pass
"""


def ask_as(user, path, request):
    """What somebody hears who connects to a socket."""
    return subprocess.run([sys.executable, "-c", ASK, path, request], user=user, group=pwd.getpwnam(user).pw_gid, extra_groups=[], cwd="/", check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120).stdout


def recipe():
    """What examples/site says to nginx."""
    with open(os.path.join(scrytest.SOURCE, "examples", "site", "nginx.conf"), encoding="utf-8") as file:
        return file.read()


@unittest.skipUnless(os.getuid() == 0, "only root can be several users")
@unittest.skipUnless(shutil.which("nginx"), "nginx is not installed: tools/install-deps --test")
class Users(servetest.ServeCase):
    user = ONE

    def setUp(self):
        super().setUp()
        self.other = scrytest.Sandbox(OTHER)
        self.addCleanup(self.other.close)
        self.place = tempfile.mkdtemp(prefix="scry", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.place)
        os.chmod(self.place, 0o755)
        for user in (ONE, OTHER, PROXY):
            os.mkdir(os.path.join(self.place, user))
            shutil.chown(os.path.join(self.place, user), user)
        self.port = brokertest.free_port()
        self.servers = {ONE: self.serve(self.box, ONE), OTHER: self.serve(self.other, OTHER, "--rights", "observe")}
        self.start_nginx()

    def socket(self, user):
        return os.path.join(self.place, user, "sock")

    def serve(self, box, user, *arguments):
        return servetest.Server(box, "--origin", f"http://127.0.0.1:{self.port}/scry/", "--proxy", f"{PROXY}:{self.socket(user)}", *arguments)

    def start_nginx(self):
        """With what the how-to says; people have passwords."""
        own = os.path.join(self.place, PROXY)
        with open(os.path.join(own, "people"), "w", encoding="ascii") as file:
            file.writelines(f"{user}:{{PLAIN}}of-{user}\n" for user in (ONE, OTHER))
        shutil.chown(os.path.join(own, "people"), PROXY)
        http, _, location = recipe().partition("\n\n")
        places = "".join(f"{name}_temp_path {own}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        with open(os.path.join(own, "conf"), "w", encoding="ascii") as file:
            file.write(f"daemon off;\nmaster_process off;\npid {own}/pid;\nerror_log {own}/log;\nevents {{}}\nhttp {{\naccess_log off;\n{places}{http}\n"
                       f"server {{\nlisten 127.0.0.1:{self.port};\n"
                       f"{location.replace(SERVERS, self.place).replace('/etc/nginx/people', own + '/people')}\n}}\n}}\n")
        proxy = pwd.getpwnam(PROXY)
        nginx = subprocess.Popen(["nginx", "-c", f"{own}/conf", "-e", f"{own}/log"], user=proxy.pw_uid, group=proxy.pw_gid, extra_groups=[])
        self.addCleanup(nginx.wait)
        self.addCleanup(nginx.kill)
        scrytest.wait_until(self.answers, message=lambda: open(f"{own}/log", encoding="utf-8").read())

    def answers(self):
        try:
            return self.servers[ONE].ask("scry/").status == 401
        except OSError:
            return False

    def ask(self, user, path, method="GET", body=None, **headers):
        """As a browser of this user does."""
        key = base64.b64encode(f"{user}:of-{user}".encode()).decode()
        return self.servers[ONE].ask("scry/" + path, method, body, **{"Authorization": f"Basic {key}", **headers})

    def jobs_of(self, user, **headers):
        return [row["name"] for row in self.ask(user, "api/jobs", **headers).json["jobs"]]

    def test_each_has_what_is_theirs(self):
        """Both at one address, without a link: who has logged in at the proxy has the jobs, the tasks and the rights of that user."""
        self.job("--name", "of-one", "--", "true")
        self.other.run(self.other.scry("run", "-q", "--name", "of-other", "--", "true"))
        self.assertEqual(self.ask(ONE, "").status, 200)
        for user in (ONE, OTHER):
            self.assertEqual(self.ask(user, "api/session").json["user"], user)
        self.assertEqual((self.jobs_of(ONE), self.jobs_of(OTHER)), (["of-one"], ["of-other"]))
        job = self.ask(OTHER, "api/jobs").json["jobs"][0]["id"]
        for path in ("", "/report", "/files", "/files/job.json", "/records"):
            self.assertEqual(self.ask(ONE, f"api/jobs/{job}{path}").status, 404, path)
        made = self.ask(ONE, "api/tasks", "POST", {"name": "who", "program": "/usr/bin/id", "arguments": ["-u"], "launch": {"by": "plain"}})
        self.assertEqual(made.status, 201, made.body)
        task = made.json["id"]
        self.assertEqual(self.ask(ONE, f"api/tasks/{task}/queue", "POST", {}).status, 200)
        scrytest.wait_until(lambda: self.ask(ONE, f"api/tasks/{task}").json["state"] == "done", message="the task ends")
        self.assertEqual(self.ask(ONE, f"api/tasks/{task}/output/runs/1.out").body, b"%d\n" % pwd.getpwnam(ONE).pw_uid)
        self.assertEqual(self.ask(OTHER, f"api/tasks/{task}").status, 404)
        self.assertEqual(self.ask(OTHER, "api/tasks", "POST", {"name": "t", "program": "/bin/true"}).error, "rights")
        self.assertEqual(self.ask(ONE, "api/links", "POST", {}).error, "rights", "links are for who is on the machine")

    def test_records_come_at_once(self):
        """Nothing between the job and the browser keeps events back."""
        process, job = self.start_job("--sample", "0.1", "--", "sh", "-c", "while ! test -e stop; do sleep 0.05; done")
        key = base64.b64encode(f"{ONE}:of-{ONE}".encode()).decode()
        events = servetest.Events(self.servers[ONE], f"scry/api/jobs/{job}/records", Authorization=f"Basic {key}")
        events.wait(lambda seen: len(seen) > 5, "records come")
        with open(self.box.path("work", "stop"), "w", encoding="ascii"):
            pass
        events.wait(lambda seen: seen[-1][0] == "end", "the end")
        process.wait(60)

    def test_nobody_else_comes_by_the_socket(self):
        """Not another user, not the user, not root: only the proxy. And what a proxy's headers say of a user counts for nothing."""
        self.job("--name", "of-one", "--", "true")
        request = "GET /api/jobs HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n%s\r\n" % (self.port, "".join(
            f"{name}: {OTHER}\r\n" for name in ("X-Remote-User", "Remote-User", "X-Forwarded-User", "X-Forwarded-For")))
        for user in (OTHER, ONE, "root"):
            self.assertEqual(ask_as(user, self.socket(ONE), request), "", user)
            self.assertEqual(ask_as(user, self.socket(OTHER), request), "", user)
        heard = ask_as(PROXY, self.socket(ONE), request)
        self.assertEqual([row["name"] for row in json.loads(heard.partition("\n\n")[2])["jobs"]], ["of-one"])
        with self.assertRaises(subprocess.CalledProcessError):
            ask_as(PROXY, self.box.path("run", "serve.sock"), request)

    def test_nobody_gets_to_another_server(self):
        """Not without a password, nor by another one's name, path, header or page."""
        self.job("--name", "of-one", "--", "true")
        wrong = base64.b64encode(f"{ONE}:of-{OTHER}".encode()).decode()
        for key in ("", f"Basic {wrong}", f"Bearer {'A' * 43}"):
            self.assertEqual(self.ask(OTHER, "api/jobs", Authorization=key or None).status, 401)
        self.assertEqual(self.jobs_of(OTHER, X_Remote_User=ONE, X_Forwarded_User=ONE), [])
        for path in (f"../{ONE}/api/jobs", f"..%2f{ONE}/api/jobs", f"%2e%2e/{ONE}/sock:/api/jobs", f":/../{ONE}/sock:/api/jobs"):
            self.assertNotIn(b"of-one", self.ask(OTHER, path).body, path)
        for headers in ({"Origin": "https://evil.example"}, {"Origin": None}, {"Origin": "null"}):
            self.assertEqual(self.ask(ONE, "api/tasks", "POST", {"name": "t", "program": "/bin/true"}, **headers).error, "origin")
        for site in ("cross-site", "same-site"):
            self.assertEqual(self.ask(ONE, "api/jobs", Sec_Fetch_Site=site).error, "origin")
            self.assertEqual(self.ask(ONE, "", Sec_Fetch_Site=site).status, 200, "a link from elsewhere opens the pages")
        self.assertEqual(self.ask(ONE, "api/jobs", Sec_Fetch_Site="same-origin").status, 200)
        self.assertEqual(self.ask(ONE, "api/jobs", Host="evil.example").error, "host")

    def test_where_the_socket_may_be(self):
        """Where others could put one of theirs in its place, there is none; nor for a proxy that is nobody."""
        os.chmod(os.path.join(self.place, OTHER), 0o775)
        shared, missing = os.path.join(self.place, OTHER, "new"), "/nonexistent/sock"
        open_to_all = os.path.join(self.place, "all")
        os.makedirs(os.path.join(open_to_all, OTHER))
        shutil.chown(os.path.join(open_to_all, OTHER), OTHER)
        os.chmod(open_to_all, 0o777)
        for spec, said in ((f"{PROXY}:{shared}", f"others can write to {self.place}/{OTHER} "),
                           (f"{PROXY}:{open_to_all}/{OTHER}/sock", f"others can write to {open_to_all} "), (f"{PROXY}:{missing}", missing.rpartition("/")[0]),
                           (f"{PROXY}:sock", "absolute path"), (PROXY, "absolute path"), (f"no-such-user:{self.place}/x", "no-such-user"),
                           (f"{PROXY}:{self.socket(OTHER)}", "answers at")):
            box = scrytest.Sandbox(OTHER)
            self.addCleanup(box.close)
            if "answers" in said:
                os.chmod(os.path.join(self.place, OTHER), 0o755)
            done = box.run(box.scry("serve", "--proxy", spec))
            self.assertIn(done.returncode, (1, 2))
            self.assertIn(said, done.stderr)
        self.assertEqual(self.ask(OTHER, "api/session").status, 200, "the server that was there goes on")


scrytest.main()
