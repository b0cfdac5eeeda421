# SPDX-License-Identifier: Apache-2.0
"""A laboratory of hosts: machines of their own as far as programs can see, made of namespaces, with a network between them.

    class Reach(labtest.LabCase):
        hosts = ("n1", "n2", "n3")                   # self.lab; self.box is the first one
        def test_reach(self):
            n1, n2 = self.lab.host("n1"), self.lab.host("n2")
            program = n2.start_example("threads", "2")
            with n1.omis() as omis:
                omis.request(': node_attach2("n2")')
            self.lab.cut("n2")                       # no frame gets through any more; heal() mends it
            self.lab.delay("n3", 50, loss=0.01)      # 50 ms each way

A host is a Sandbox (scrytest.py): what is run or started on it has the host's name, network, processes, /tmp, /run, /dev/shm
and home, finds all hosts by name, and gets everywhere by ssh without a question. The files of host n2 are those of
lab.path("n2"), as its path() says, outside and on the host itself; lab.path("here") is on each host its own, so that what an
MPI starts elsewhere finds its folder, HOME and the state directory at the same path, as on a cluster. With shared=True, `work`,
`home` and `jobs` are the same files on all hosts, as on a cluster with one file system. With visible=True each host sees the
files of the others, at lab.path("n2").

Users: programs run as root, with ordinary=True as a user without any privilege.

Process ids: with own_pids each host counts for itself, and a started program has .inside, its number there; its .pid is of
the process outside that stands for it. Without, numbers are the same everywhere.

Clocks: `clocks={"n2": 1000}` is a host that was started 1000 s earlier (CLOCK_MONOTONIC and BOOTTIME). No namespace has
wall clocks: `walls={"n2": -3}` preloads a library that puts back what the host's programs read, 3 s here; set_wall changes it.

A lab is made in a second or two. With `one_lab` the cases of a class have the same one after each other: what a case began is ended, what
it wrote removed, the network mended.

Everything ends with the test, however it ends: the first process of each host waits for the end of its standard input.
A lab needs root, and is skipped, with the reason, where the kernel forbids one.
"""

import contextlib
import functools
import glob
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

import scrytest
import sshtest

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ("ip", "unshare", "nsenter", "sshd", "ssh", "ssh-keygen", "setsid")
SHARED = ("work", "home", "jobs")
# Below /tmp, which each host has for itself, these stay what they are.
KEPT = [each for each in (scrytest.SOURCE, scrytest.BUILD) if not each.startswith(scrytest.SOURCE + "/")]
ORDINARY = 4242  # a user that no machine has
IP, UNSHARE, NSENTER, SSHD = "/sbin/ip", "/usr/bin/unshare", "/usr/bin/nsenter", "/usr/sbin/sshd"

# The first process of a host. It is told when its network interface is there.
FIRST = """
mount --make-rprivate /
mount -t tmpfs -o mode=755 run /run
mkdir /run/sshd /run/tmp
mount -t tmpfs -o mode=1777 shm /dev/shm
mount --bind /tmp /run/tmp
mount -t tmpfs -o mode=1777 tmp /tmp
bind() {
    case $1 in /tmp/*) from=/run$1 ;; *) from=$1 ;; esac
    if [ -d "$from" ]; then mkdir -p "$2"; fi
    mount --bind "$from" "$2"
}
while [ $# -gt 0 ]; do bind "$1" "$2"; shift 2; done
umount -l /run/tmp
hostname "$NAME"
echo ready
read -r told
printf '%s\n' "link set lo up" "addr add 10.77.0.$NUMBER/24 dev eth0" "addr add fd77::$NUMBER/64 dev eth0 nodad" \
    "link set eth0 up" | ip -batch -
echo up
exec env --ignore-signal=CHLD cat
"""

WALL_CLOCK = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long offset(void)
{
    static const char *said;
    if (!said) {
        const char *path = getenv("SCRY_LAB_WALL");
        int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        said = fd < 0 ? MAP_FAILED : mmap(NULL, 32, PROT_READ, MAP_SHARED, fd, 0);
        close(fd);
    }
    return said == MAP_FAILED ? 0 : atol(said);
}
int clock_gettime(clockid_t id, struct timespec *now)
{
    int status = (int)syscall(SYS_clock_gettime, id, now);
    if (status == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        now->tv_sec += offset();
    return status;
}
time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}
int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *at = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}
"""


def wall_clock(folder):
    """The library to preload; `folder` is one to write into. SCRY_LAB_WALL names the file that set_wall writes."""
    path = os.path.join(folder, "wall.c")
    with open(path, "w", encoding="ascii") as file:
        file.write(WALL_CLOCK)
    source = scrytest.kept(path)
    return scrytest.compiled("wall.so", ["cc", "-O2", "-shared", "-fPIC", source], source)


def set_wall(path, seconds):
    with open(path, "r+b" if os.path.exists(path) else "wb") as file:
        file.write(f"{seconds:<31}\n".encode())


@functools.cache
def why_not():
    """Why there can be no lab here, or None."""
    missing = [name for name in PROGRAMS if not shutil.which(name, path=scrytest.SYSTEM_PATH)]
    if missing:
        return f"not installed: {', '.join(missing)} (iproute2, util-linux, openssh-server)"
    if os.getuid() != 0:
        return "only root may make hosts of namespaces"
    probe = "mount --make-rprivate / && mount -t tmpfs x /run && ip link add one type veth peer name other && ip link add sw type bridge"
    done = subprocess.run([UNSHARE, "--net", "--mount", "--uts", "--pid", "--time", "--fork", "--mount-proc", "sh", "-c", probe],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return f"the kernel forbids it: {done.stderr.strip()}" if done.returncode else None


class Program(scrytest.Program):
    """What was started on a host with its own process ids: nsenter, which waits for its child, the program itself."""

    @functools.cached_property
    def outside(self):
        """The program's own number outside."""
        def itself():
            for pid in scrytest.children(self.pid):
                if not scrytest.process_command_line(pid).startswith((NSENTER.encode(), b"setsid\0")):
                    return pid
            return None if self.poll() is None else -1
        return scrytest.wait_until(itself, message="the program is started on the host")

    @functools.cached_property
    def inside(self):
        """The program's number on its host."""
        return int(scrytest.process_status(self.outside)["NSpid"].split()[-1])

    def send_signal(self, sig):
        if self.poll() is None and self.outside > 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.outside, sig)


class Host(scrytest.Sandbox):
    """One machine of a lab."""

    def __init__(self, lab, name, number):
        super().__init__(root=lab.path(name))
        self.lab, self.name, self.number, self.address = lab, name, number, f"10.77.0.{number}"
        self.pid = self.first = self.sshd = None
        self.kept = None  # of a lab that stays: the numbers of what stays with it
        # What a program sees is the same on each host.
        self.env = {key: value.replace(self.root, lab.path("here")) for key, value in self.env.items()}
        self.env.update(USER=lab.user.pw_name, LOGNAME=lab.user.pw_name, SHELL="/bin/sh")
        if name in lab.walls:
            self.env.update(LD_PRELOAD=wall_clock(lab.path()), SCRY_LAB_WALL=lab.here("wall"))
            lab.set_wall(name, lab.walls[name])
        if lab.visible:  # one pause() holds whoever comes first on any host
            self.env["SCRY_TEST_PAUSES"] = lab.path(next(iter(lab.hosts), name), "pauses")
        for each in SHARED if lab.shared else ():
            shutil.rmtree(self.path(each))
            os.symlink(lab.path("shared", each), self.path(each))
        os.mkdir(self.path("etc"))

    def boot(self):
        """Starts the first process; it says "ready"."""
        lab = self.lab
        binds = [(each, each) for each in dict.fromkeys(KEPT) if each.startswith("/tmp/")]
        own = lab.root if lab.visible else self.root
        binds += [(own, own), (self.root, lab.path("here"))]
        binds += [(lab.path("shared"), lab.path("shared"))] if lab.shared else []
        binds += [(lab.path("etc", each), f"/etc/{each}") for each in ("hosts", "passwd")]
        # By these numbers, too, programs tell machines apart.
        for name, path in (("boot_id", "/proc/sys/kernel/random/boot_id"), ("machine-id", "/etc/machine-id")):
            if os.path.exists(path):
                with open(self.path("etc", name), "w", encoding="ascii") as file:
                    file.write(f"{uuid.uuid4()}\n" if name == "boot_id" else f"{uuid.uuid4().hex}\n")
                binds.append((self.path("etc", name), path))
        offset = lab.clocks.get(self.name, 0)
        own = ["--pid", "--mount-proc"] if lab.own_pids else []
        self.first = subprocess.Popen(
            [UNSHARE, "--net", "--mount", "--uts", "--ipc", *own, "--time", f"--monotonic={offset}", f"--boottime={offset}",
             "--fork", "--kill-child", "sh", "-ec", FIRST, "first", *(word for pair in binds for word in pair)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "NAME": self.name, "NUMBER": str(self.number)})

    def expect(self, word):
        line = self.first.stdout.readline().strip()
        if line != word:
            raise AssertionError(f"host {self.name} said {line!r} instead of {word!r}")

    def enter(self, command, options, root=False):
        drop = ["setpriv", "--reuid", ORDINARY, "--regid", ORDINARY, "--clear-groups"]
        command = [*(drop if self.lab.ordinary and not root else []), *command]
        cwd, options["cwd"] = options.get("cwd", self.lab.here("work")), "/"
        own = ["--pid"] if self.lab.own_pids else ["--no-fork"]
        # The program leads a session here, too: of nsenter's it would see no number.
        return [NSENTER, f"--target={self.pid}", "--net", "--mount", "--uts", "--ipc", "--time", *own, f"--wdns={cwd}", "--",
                *(["setsid"] if self.lab.own_pids else []), *map(str, command)]

    @property
    def Popen(self):  # the class that start() uses
        return Program if self.lab.own_pids else scrytest.Program

    def run(self, command, timeout=100, **options):
        # Not even a time-out may leave the program behind that nsenter waits for.
        try:
            return super().run(command, timeout, **options)
        except subprocess.TimeoutExpired:
            self.kill_all()
            raise

    def processes(self, prefix="", mark=None):
        """All processes of the host but the first, whatever is in their environment; by their numbers outside."""
        here = os.readlink(f"/proc/{self.pid}/ns/net")
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) not in (self.pid, self.first.pid):
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{entry}/ns/net") == here:
                        name = os.path.basename(os.readlink(f"/proc/{entry}/exe").removesuffix(" (deleted)"))
                        if name.startswith(prefix):
                            yield int(entry)

    def outside(self, pid):
        """The number outside of the host's process `pid`, None when it is gone."""
        if not self.lab.own_pids:
            return pid
        for each in self.processes():
            if scrytest.process_status(each).get("NSpid", "").split()[-1:] == [str(pid)]:
                return each
        return None

    def monitor_pid(self):
        """The number outside of this host's monitor."""
        try:
            with open(self.path("run", "monitor.pid"), encoding="ascii") as file:
                pid = self.outside(int(file.read().split()[0]))
        except (FileNotFoundError, ValueError, IndexError):
            return None
        return None if pid is None or scrytest.process_gone(pid) else pid

    def start_sshd(self):
        names = ("PATH", "TMPDIR", "LD_PRELOAD", *(name for name in self.env if name.startswith(("SCRY_", "OMPI_", "SLURM_"))))
        words = " ".join(f'"{name}={self.env[name]}"' for name in names if name in self.env)
        with open(self.path("etc", "sshd_config"), "w", encoding="utf-8") as file:
            file.write(f"HostKey {self.lab.here('home', '.ssh', 'id_ed25519')}\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n"
                       f"StrictModes no\nPidFile none\nUseDNS no\nMaxStartups 100\nSetEnv {words}\n"
                       f"Subsystem sftp internal-sftp\n{sshtest.KEX}")
        self.sshd = subprocess.Popen(self.enter([SSHD, "-D", "-f", self.path("etc", "sshd_config"), "-E",
                                                 self.path("etc", "sshd.log")], {}, root=True),
                                     stdin=subprocess.DEVNULL, env=self.env, start_new_session=True)

    def has_sshd(self):
        with open(f"/proc/{self.pid}/net/tcp", encoding="ascii") as file:
            return any(line.split()[1].endswith(":0016") for line in file.readlines()[1:])

    def kill_all(self, but=()):
        """As a power cut: everything on the host ends, only the host itself remains."""
        def none_left():
            left = [pid for pid in self.processes() if pid not in but and not scrytest.process_gone(pid)]
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not left
        scrytest.wait_until(none_left, message=lambda: f"the processes {list(self.processes())} end")

    def kill_case(self):
        """What a case began in a lab that stays, at once."""
        self.kill_all(self.kept)

    def _renew(self):
        """As it was when the lab was kept."""
        self.kill_case()
        own, mounted = f"/proc/{self.pid}/root", {each.split("/")[2] for each in (self.lab.root, *KEPT) if each.startswith("/tmp/")}
        for folder in (*map(self.path, ("run", "jobs", "home", "tmp", "bin", "libexec", "lib", "ext", "work", "pauses")), f"{own}/dev/shm", f"{own}/tmp"):
            for entry in os.scandir(folder):
                if entry.name == ".ssh" or entry.name in mounted:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path)
                else:
                    os.unlink(entry.path)
        self._place_programs(os.symlink)
        self.started, self.sessions = [], []
        if self.name in self.lab.walls:
            self.lab.set_wall(self.name, self.lab.walls[self.name])
        if self.sshd and self.sshd.poll() is not None:  # the host was killed
            self.start_sshd()
            scrytest.wait_until(self.has_sshd, message="sshd listens")
            self.keep()

    def keep(self):
        self.kept = set(self.processes())

    def _remove(self):
        if self not in scrytest.open_boxes:
            return
        if self.kept is not None:
            self._renew()
            return
        if self.pid and not scrytest.process_gone(self.pid):
            self.kill_all()
        if self.first:
            self.first.stdin.close()
            self.first.kill()
            self.first.wait()
            self.first.stdout.close()
        if self.sshd:
            self.sshd.wait()
        scrytest.open_boxes.remove(self)
        shutil.rmtree(self.root, ignore_errors=True)


class Lab:
    """Hosts by name, joined by one network; see above."""

    def __init__(self, *names, own_pids=True, shared=False, visible=False, clocks=None, walls=None, ssh=True, ordinary=False, first=Host):
        why = why_not()
        if why:
            raise unittest.SkipTest(f"no lab: {why}")
        if ordinary and not scrytest.readable_by_all(os.path.join(scrytest.BUILD, "src")):
            raise unittest.SkipTest(f"an ordinary user does not get to {scrytest.BUILD}")
        begin = time.monotonic()
        self.root = tempfile.mkdtemp(prefix="lab", dir="/tmp")
        scrytest.open_boxes.append(self)
        self.own_pids, self.shared, self.visible = own_pids, shared, visible
        self.clocks, self.walls = clocks or {}, walls or {}
        self.ordinary = ordinary
        self.user = pwd.struct_passwd(("lab", "*", ORDINARY, ORDINARY, "", "", "/bin/sh")) if ordinary else pwd.getpwuid(os.getuid())
        self.switch, self.relays, self.hosts = None, {}, {}
        try:
            for each in SHARED if shared else ():
                os.makedirs(self.path("shared", each))
            self._write_etc(names)
            for number, name in enumerate(names, 1):
                self.hosts[name] = (first if number == 1 else Host)(self, name, number)
            self._keys()
            if ordinary:
                self._give_away()
            self._start()
            if ssh:
                self._start_ssh()
        except BaseException:
            self.abandon()
            raise
        self.seconds = time.monotonic() - begin

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def host(self, name):
        return self.hosts[name]

    def __iter__(self):
        return iter(self.hosts.values())

    def here(self, *parts):
        """A path that is on each host its own file."""
        return self.path("here", *parts)

    def set_wall(self, name, seconds):
        """From now on the host's programs read a wall clock that is so far ahead; the host is one of `walls`."""
        set_wall(self.path(name, "wall"), seconds)

    def _write_etc(self, names):
        os.mkdir(self.path("etc"))
        with open(self.path("etc", "hosts"), "w", encoding="ascii") as file:
            file.write("127.0.0.1 localhost\n::1 localhost\n")
            file.writelines(f"10.77.0.{number} {name}\nfd77::{number} {name}-6\n" for number, name in enumerate(names, 1))
        with open("/etc/passwd", encoding="utf-8") as source, open(self.path("etc", "passwd"), "w", encoding="utf-8") as file:
            for line in source:
                fields = line.rstrip("\n").split(":")
                if fields[0] == self.user.pw_name:  # what ssh takes for the home, whatever HOME says
                    fields[1], fields[5], fields[6] = "*", self.here("home"), "/bin/sh"
                file.write(":".join(fields) + "\n")
            if self.ordinary:
                file.write(f"{self.user.pw_name}:*:{ORDINARY}:{ORDINARY}::{self.here('home')}:/bin/sh\n")

    def _give_away(self):
        """The hosts' files to the ordinary user."""
        os.chmod(self.root, 0o755)
        for host in self:
            for folder, folders, names in os.walk(host.root):
                for path in [folder, *(os.path.join(folder, name) for name in folders + names)]:
                    os.chown(path, ORDINARY, ORDINARY, follow_symlinks=False)

    def _keys(self):
        """One pair for everything in this lab: host keys and the user's."""
        key = self.path("etc", "key")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", key], check=True)
        with open(key + ".pub", encoding="ascii") as file:
            public = file.read().strip()
        for folder in dict.fromkeys(os.path.realpath(host.path("home")) for host in self):
            os.mkdir(os.path.join(folder, ".ssh"), 0o700)
            for name, text in (("authorized_keys", public), ("known_hosts", f"* {public}")):
                with open(os.path.join(folder, ".ssh", name), "w", encoding="ascii") as file:
                    file.write(text + "\n")
            shutil.copy(key, os.path.join(folder, ".ssh", "id_ed25519"))

    def _ip(self, *lines):
        subprocess.run([NSENTER, f"--target={self.switch.pid}", "--net", IP, "-batch", "-"], input="\n".join(lines) + "\n",
                       text=True, check=True)

    def _start(self):
        self.switch = subprocess.Popen([UNSHARE, "--net", "sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6; "
                                        "echo ready; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                       start_new_session=True)
        for host in self:
            host.boot()
        self.switch.stdout.readline()
        self._ip("link add bridge type bridge forward_delay 0", "link set bridge up")
        for host in self:
            host.expect("ready")
            host.pid, = scrytest.children(host.first.pid)
            self._ip(f"link add p{host.number} type veth peer name eth0 netns {host.pid}",
                     f"link set p{host.number} master bridge", f"link set p{host.number} up")
            host.first.stdin.write("network\n")
            host.first.stdin.flush()
        for host in self:
            host.expect("up")

    def _start_ssh(self):
        for host in self:
            host.start_sshd()
        for host in self:
            scrytest.wait_until(host.has_sshd, message=lambda: f"sshd listens\n{self.said()}")

    def cut(self, name):
        """Nothing reaches the host any more, and nothing comes from it; connections hang, as with a dead switch."""
        self._ip(f"link set {self._port(name)} nomaster")

    def heal(self, name):
        self._ip(f"link set {self._port(name)} master bridge")

    def _port(self, name):
        return f"{'r' if name in self.relays else 'p'}{self.hosts[name].number}"

    def delay(self, name, milliseconds=0, loss=0.0):
        """From now on everything from and to the host takes so long, each way, and this share of all frames is lost."""
        if name not in self.relays:
            number = self.hosts[name].number
            self._ip(f"link add q{number} type veth peer name r{number}", f"link set q{number} up", f"link set r{number} up",
                     f"link set p{number} nomaster", f"link set r{number} master bridge")
            self.relays[name] = subprocess.Popen(
                [NSENTER, f"--target={self.switch.pid}", "--net", sys.executable, os.path.join(HERE, "labrelay.py"),
                 f"p{number}", f"q{number}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        relay = self.relays[name]
        relay.stdin.write(f"{milliseconds} {loss}\n")
        relay.stdin.flush()
        if relay.stdout.readline() != "ok\n":
            raise AssertionError(f"the wire of host {name} is broken")

    def abandon(self):
        """Quickly and by force; the hosts' programs go with them."""
        for host in list(self):
            host.kept = None
            with contextlib.suppress(AssertionError):
                host.abandon()
        for process in [*self.relays.values(), *([self.switch] if self.switch else [])]:
            process.stdin.close()
            process.kill()
            process.wait()
            process.stdout.close()
        shutil.rmtree(self.root, ignore_errors=True)
        if self in scrytest.open_boxes:
            scrytest.open_boxes.remove(self)

    def keep(self):
        """From now on the end of a host is that of a case: what runs now goes on, and all else is made as it was."""
        for host in self:
            host.keep()

    def renew(self):
        """For the next case."""
        for name, host in self.hosts.items():
            host.close()
            if name in self.relays:
                self.delay(name)
            self.heal(name)

    def close(self):
        try:
            for host in list(self):
                host.kept = None
                if host in scrytest.open_boxes:
                    host.close()
        finally:
            self.hosts = {}
            self.abandon()

    def said(self):
        """What the hosts' logs say, for messages of failed tests."""
        said = []
        for path in sorted(glob.glob(self.path("*", "run", "*.log")) + glob.glob(self.path("*", "etc", "*.log"))):
            with open(path, encoding="utf-8", errors="replace") as file:
                said.append(f"== {os.path.relpath(path, self.root)}\n" + "".join(file.readlines()[-8:]))
        return "\n".join(said)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


class LabCase(scrytest.TestCase):
    """A test case with a lab of its own, or with that of its class; `options` are those of Lab."""

    hosts = ("n1", "n2")
    options = {}
    one_lab = False

    def make_box(self):
        cls = type(self)
        if not self.one_lab:
            self.lab = Lab(*self.hosts, **self.options)
            self.addCleanup(self.lab.close)
        elif "lab" not in vars(cls):
            cls.lab = Lab(*self.hosts, **self.options)
            cls.addClassCleanup(cls.lab.close)
            self.make_daemons()
            self.lab.keep()
        if self.one_lab:
            self.addCleanup(self.lab.renew)
        return self.lab.host(self.hosts[0])

    def hasten_home(self, times):
        """scrytest.hasten() for what begins on the first host in this case: the lab of a class is one for all its cases."""
        self.box.env["SCRY_TEST_HASTE"] = str(times)
        self.addCleanup(self.box.env.pop, "SCRY_TEST_HASTE")

    def make_daemons(self):
        """What else is to stay with the lab of a class."""
