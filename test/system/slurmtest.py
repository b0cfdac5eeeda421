# SPDX-License-Identifier: Apache-2.0
"""A private Slurm for tests: munged, slurmctld and two slurmd of this machine, as the user who runs the tests, on free
ports of the loopback interface, with all their files in the sandbox. They are stopped by process id.

    class Batch(scrytest.TestCase):
        def setUp(self):
            super().setUp()
            self.slurm = slurmtest.Slurm(self.box)       # a case without Slurm is skipped, and says why
            self.addCleanup(self.slurm.close)

shared(case) is one for all cases of a file, which are those of one test after the other.
"""

import contextlib
import glob
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import unittest

import scrytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol")
PLUGIN = os.path.join(scrytest.BUILD, "src", "batch", "scry_spank.so")
NODES = 2


def why_not():
    """Why there can be no Slurm here, or None."""
    missing = [name for name in PROGRAMS if not shutil.which(name, path=scrytest.SYSTEM_PATH)]
    if missing:
        return f"not installed: {', '.join(missing)} (munge, slurmctld, slurmd, slurm-client)"
    if not os.path.exists(PLUGIN):
        return "scry_spank.so is not built: it needs slurm/spank.h (libslurm-dev)"
    return None


CGROUPS = "/sys/fs/cgroup"
CONTROLLERS = ("freezer", "memory", "cpuacct")


def why_no_cgroups():
    """Why Slurm cannot have control groups here, or None. Of version 2 it wants a systemd to ask."""
    for name in CONTROLLERS:
        if not os.path.exists(os.path.join(CGROUPS, name, "tasks")):
            return f"no control groups of version 1: there is no {name}"
        if not os.access(os.path.join(CGROUPS, name), os.W_OK) or os.getuid() != 0:
            return "only root may make control groups"
    return None


def free_ports(count):
    """Of those that no connection gets by itself, before the daemon has it."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        least = int(file.read().split()[0])
    found = []
    with contextlib.ExitStack() as stack:
        while len(found) < count:
            each, port = stack.enter_context(socket.socket()), random.randrange(least // 2, least)
            with contextlib.suppress(OSError):  # somebody has it
                each.bind(("127.0.0.1", port))
                found.append(port)
    return found


class Slurm:
    """`plugin`: what stands in plugstack.conf behind the plugin's path. `cgroups`: jobs are in control groups, which
    limit their memory; a case is skipped where that is not possible. `hosts`: hosts of a lab with visible=True (labtest.py),
    one node each; else all nodes are this machine."""

    def __init__(self, box, plugin="", cgroups=False, hosts=()):
        why = why_not() or (why_no_cgroups() if cgroups else None)
        if why:
            raise unittest.SkipTest(f"no Slurm: {why}")
        self.box = box
        self.daemons = []
        self.cgroups = cgroups
        self.hosts = list(hosts)
        self.nodes = []
        self.root = box.path("slurm")
        for name in ("", "munge", "state", "log"):
            os.makedirs(self.path(name), mode=0o755, exist_ok=True)
        self._write("slurm.conf", self._configuration())
        self._write("cgroup.conf", f"CgroupPlugin=cgroup/v1\nCgroupMountpoint={CGROUPS}\nConstrainRAMSpace=yes\n")
        self.lend(box, plugin)
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def lend(self, box, plugin=""):
        """From now on its jobs are those of a sandbox. What a site's installation has: the plugin, and scry in a place that it knows."""
        self.box = box
        plugin = plugin or f"scry={box.path('bin', 'scry')} task={box.path('libexec', 'scry-task')}"
        self._write("plugstack.conf", f"optional {PLUGIN} {plugin}\n")
        for each in (box, *self.hosts):
            each.env["SLURM_CONF"] = self.path("slurm.conf")

    def take_back(self):
        """Nothing is left of any job."""
        for job in self.run("squeue", "-h", "-o", "%A").stdout.split():
            self.run("scancel", job)
        scrytest.wait_until(lambda: self._is_up() and not self.run("squeue", "-h").stdout, message=self.said)
        scrytest.wait_until(self._no_step, 10, "slurmstepd ends")

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def _write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def _configuration(self):
        kind = "cgroup" if self.cgroups else "linuxproc"
        controller, *ports = free_ports(1 + NODES)
        host, user = socket.gethostname().split(".")[0], pwd.getpwuid(os.getuid()).pw_name
        address = "127.0.0.1"
        if self.hosts:
            host, address = self.box.name, self.box.address
        lines = [
            "ClusterName=scrytest", f"SlurmctldHost={host}({address})", f"SlurmctldPort={controller}",
            "AuthType=auth/munge", f"AuthInfo=socket={self.path('munge', 's')}", "CredType=cred/munge",
            f"SlurmUser={user}", f"SlurmdUser={user}", f"StateSaveLocation={self.path('state')}",
            f"SlurmctldPidFile={self.path('slurmctld.pid')}", f"SlurmdPidFile={self.path('slurmd.%n.pid')}",
            f"SlurmctldLogFile={self.path('log', 'slurmctld')}", f"SlurmdLogFile={self.path('log', '%n')}",
            f"SlurmdSpoolDir={self.path('spool%n')}",
            f"PlugStackConfig={self.path('plugstack.conf')}", "SlurmdParameters=config_overrides",
            f"ProctrackType=proctrack/{kind}", f"TaskPlugin=task/{'cgroup' if self.cgroups else 'none'}", "SwitchType=switch/none", "MpiDefault=none",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_Core_Memory", "JobAcctGatherType=jobacct_gather/none",
            "KillWait=2", "ReturnToService=2", "SchedulerParameters=sched_interval=1,sched_min_interval=0",
            "AccountingStorageType=accounting_storage/none", "JobCompType=jobcomp/none", "DefMemPerNode=100",
        ]
        for each in self.hosts:
            self.nodes.append(each.name)
            os.mkdir(self.path("spool" + each.name))
            lines.append(f"NodeName={each.name} NodeAddr={each.address} Port={ports[0]} CPUs=8 RealMemory=4000")
        for port in () if self.hosts else ports:
            self.nodes.append(f"n{port}")  # a control group has the node's name, and tests run side by side
            os.mkdir(self.path("spool" + self.nodes[-1]))
            lines.append(f"NodeName={self.nodes[-1]} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=8 RealMemory=4000")
        lines.append(f"PartitionName=main Nodes={','.join(self.nodes)} Default=YES MaxTime=INFINITE State=UP")
        return "\n".join([*lines, ""])

    def _daemon(self, name, *command, at=None):
        at, options = at or self.box, {"cwd": self.root}
        words = at.enter(command, options)
        with open(self.path("log", name + ".out"), "ab") as log:
            daemon = at.Popen(words, env=at.env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                              start_new_session=True, **options)
        self.daemons.append(daemon)
        return daemon

    def _start(self):
        munge = self.path("munge")
        with open(os.open(self.path("munge", "key"), os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(os.urandom(256))
        self._daemon("munged", "/usr/sbin/munged", "--foreground", "--force", "--num-threads=1",
                     *(f"--{option}={munge}/{name}" for option, name in (
                         ("socket", "s"), ("key-file", "key"), ("pid-file", "pid"), ("log-file", "log"),
                         ("seed-file", "seed"))))
        scrytest.wait_until(lambda: os.path.exists(self.path("munge", "s")), message=self.said)
        self._daemon("slurmctld", "/usr/sbin/slurmctld", "-D", "-f", self.path("slurm.conf"))
        for i, node in enumerate(self.nodes):
            self._daemon(f"slurmd-{node}", "/usr/sbin/slurmd", "-D", "-N", node, "-f", self.path("slurm.conf"),
                         at=self.hosts[i] if self.hosts else None)
        scrytest.wait_until(self._is_up, timeout=30, message=self.said)

    def _is_up(self):
        done = self.box.run(["sinfo", "-h", "-o", "%D %t"])
        return done.stdout.split() == [str(len(self.nodes)), "idle"]

    def said(self):
        """What the daemons have said, for messages of failed tests."""
        said = []
        for path in sorted(glob.glob(self.path("log", "*"))):
            with open(path, encoding="utf-8", errors="replace") as file:
                said.append(f"== {os.path.basename(path)}\n" + "".join(file.readlines()[-8:]))
        return "\n".join(said)

    def run(self, *command, **options):
        return self.box.run(command, **options)

    def submit(self, *arguments, script="", **options):
        """sbatch; returns the job's number. Its output goes to work/NUMBER.out and .err."""
        done = self.box.run(["sbatch", "--parsable", "-o", self.box.path("work", "%j.out"), "-e",
                             self.box.path("work", "%j.err"), *arguments], input=script, **options)
        if done.returncode != 0:
            raise AssertionError(f"sbatch: {done.stderr}")
        return int(done.stdout)

    def state(self, job):
        shown = self.box.run(["scontrol", "-o", "show", "job", str(job)]).stdout
        return dict(word.split("=", 1) for word in shown.split() if "=" in word)

    def ended(self, job, timeout=30):
        """Waits for the job's end; what scontrol says of it."""
        def over():
            state = self.state(job)
            return state if state.get("JobState") in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL") else None
        return scrytest.wait_until(over, timeout=timeout, message=lambda: f"{self.state(job)}\n{self.said()}")

    def output(self, job, kind="out"):
        with open(self.box.path("work", f"{job}.{kind}"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def close(self):
        """Ends the daemons; slurmd first, which ends what its jobs have left."""
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.daemons = []
        scrytest.wait_until(self._no_step, 10, "slurmstepd ends")
        for top in [os.path.join(CGROUPS, name, f"slurm_{node}") for name in CONTROLLERS for node in self.nodes]:
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):  # a process of the job ends just now: it is the kernel's business then
                    os.rmdir(folder)

    def _no_step(self):
        """One whose job ended just now would try for minutes to tell slurmctld."""
        left = list(self.box.processes("slurmstepd", f"SLURM_CONF={self.path('slurm.conf')}"))
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left


_shared = {}


def shared(case, plugin="", cgroups=False):
    """The only one of its kind in a file, with daemons in a sandbox of its own; lent to the case, and ended with the file."""
    if cgroups not in _shared:
        home = scrytest.Sandbox()
        unittest.addModuleCleanup(home.close)
        _shared[cgroups] = Slurm(home, cgroups=cgroups)
        unittest.addModuleCleanup(_shared[cgroups].close)
    slurm = _shared[cgroups]
    slurm.lend(case.box, plugin)
    case.addCleanup(slurm.take_back)
    return slurm
