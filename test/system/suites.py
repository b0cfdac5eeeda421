# SPDX-License-Identifier: Apache-2.0
"""Test suites of others for test_suites.py: the source packages of the Debian that this is, fetched by apt and built with
hooks. What was fetched and built is kept in the build directory, test/suites.

A suite is suites/NAME.sh: `build` in the source's directory with $HOOKS, `list` for the names of its tests, `run` for
one of them (suites/suite.sh)."""

import contextlib
import glob
import os
import re
import shutil
import subprocess
import unittest

import scrytest

PLACE = os.path.join(scrytest.BUILD, "test", "suites")
RECIPES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "suites")
HOOKS = "-g -finstrument-functions -fno-optimize-sibling-calls"
PACKAGES = {"zlib": "zlib", "sed": "sed", "bash": "bash", "sqlite": "sqlite3"}


def _release():
    """The code name of this Debian, None if it is none."""
    try:
        with open("/etc/os-release", encoding="utf-8") as file:
            found = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', file.read(), re.M))
    except FileNotFoundError:
        return None
    return found.get("VERSION_CODENAME") if found.get("ID") == "debian" else None


def _read(*patterns):
    for path in sorted(path for pattern in patterns for path in glob.glob(pattern)):
        with open(path, encoding="utf-8", errors="replace") as file:
            yield file.read()


def sources(release, lists, stanzas):
    """The lines for sources that go with those for packages of a release: of texts as in sources.list, and of texts as in
    sources.list.d/*.sources."""
    found = []
    for text in lists:
        for options, uri, suite, parts in re.findall(r"^deb\s+(?:\[([^]]*)\]\s+)?(\S+)\s+(\S+)\s+(.*?)\s*$", text, re.M):
            if suite == release and "main" in parts.split():
                found.append(f"deb-src {f'[{options}] ' if options else ''}{uri} {suite} main")
    for text in stanzas:
        for stanza in re.split(r"\n\s*\n", re.sub(r"^#.*\n", "", text, flags=re.M)):
            fields = {key.lower(): value.split() for key, value in re.findall(r"^([\w-]+):((?:.*\n?)(?:[ \t].*\n?)*)", stanza, re.M)}
            if "deb" in fields.get("types", []) and release in fields.get("suites", []) and \
                    "main" in fields.get("components", []) and fields.get("enabled") != ["no"]:
                key = fields.get("signed-by", [])
                options = f"[signed-by={key[0]}] " if len(key) == 1 else ""
                found += [f"deb-src {options}{uri} {release} main" for uri in fields["uris"]]
    return found


class Sources:
    """apt with sources and a state of its own: nothing of the machine's configuration is touched."""

    def __init__(self):
        self.place = os.path.join(PLACE, "apt")
        self.updated = False

    def apt(self, *arguments, cwd=None):
        options = {"Dir::Etc::sourcelist": f"{self.place}/sources.list", "Dir::Etc::sourceparts": "/dev/null",
                   "Dir::State::lists": f"{self.place}/lists", "Dir::Cache": f"{self.place}/cache",
                   "APT::Sandbox::User": "root", "Acquire::Retries": "2", "Acquire::http::Timeout": "30"}
        words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        return subprocess.run(["apt-get", "-q", *words, *arguments], check=False, cwd=cwd, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)

    def update(self):
        release = _release()
        if not release or not shutil.which("apt-get"):
            raise unittest.SkipTest("no Debian, whose sources could be fetched")
        lines = sources(release, _read("/etc/apt/sources.list", "/etc/apt/sources.list.d/*.list"),
                        _read("/etc/apt/sources.list.d/*.sources"))
        for folder in ("lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(self.place, folder), exist_ok=True)
        with open(f"{self.place}/sources.list", "w", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
        done = self.apt("update")
        if done.returncode or not lines:
            raise unittest.SkipTest(f"sources cannot be fetched: {' '.join(done.stdout.split()[-40:])}")
        self.updated = True

    def fetch(self, package):
        """The original source of a package, unpacked; its directory."""
        place = os.path.join(PLACE, package)
        tree = os.path.join(place, "source")
        if os.path.exists(tree):
            return tree
        if not self.updated:
            self.update()
        os.makedirs(place, exist_ok=True)
        done = self.apt("source", "--download-only", package, cwd=place)
        if done.returncode:
            raise unittest.SkipTest(f"sources cannot be fetched: {' '.join(done.stdout.split()[-40:])}")
        [archive] = [name for name in os.listdir(place) if re.search(r"\.orig\.tar\.\w+$", name)]
        fresh = f"{tree}.new"
        shutil.rmtree(fresh, ignore_errors=True)
        os.mkdir(fresh)
        subprocess.run(["tar", "-xf", os.path.join(place, archive), "--strip-components=1", "--no-same-owner", "-C", fresh],
                       check=True)
        os.rename(fresh, tree)
        return tree


SOURCES = Sources()


def package_of(name):
    """The source package; of Python that of the system's own version."""
    if name != "python":
        return PACKAGES[name]
    done = subprocess.run(["/usr/bin/python3", "-c", "import sys; print('python%d.%d' % sys.version_info[:2])"], check=False,
                          stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def command(name, what, *tests):
    return ["sh", os.path.join(RECIPES, "suite.sh"), name, what, *tests]


def built(name):
    """The directory of a suite that is built; unittest.SkipTest if it cannot be fetched."""
    tree = SOURCES.fetch(package_of(name))
    stamp, log = f"{tree}.built", f"{tree}.log"
    with open(os.path.join(RECIPES, f"{name}.sh"), encoding="utf-8") as file:
        how = HOOKS + re.search(r"^build\(.*?^\}", file.read(), re.M | re.S)[0]
    with contextlib.suppress(FileNotFoundError), open(stamp, encoding="utf-8") as file:
        if file.read() == how:
            return tree
    if os.path.exists(log):  # another way of building, or a build that was broken off
        shutil.rmtree(tree)
        tree = SOURCES.fetch(package_of(name))
    with open(log, "wb") as file:
        done = subprocess.run(command(name, "build"), check=False, cwd=tree, stdin=subprocess.DEVNULL, stdout=file,
                              stderr=file, env={**os.environ, "HOOKS": HOOKS, "MAKEFLAGS": f"-j{os.cpu_count()}"})
    if done.returncode:
        with open(log, encoding="utf-8", errors="replace") as file:
            raise AssertionError(f"{name} cannot be built, see {log}: {file.read()[-2000:]}")
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(how)
    return tree
