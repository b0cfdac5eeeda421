# SPDX-License-Identifier: Apache-2.0
"""Programs that do what few programs do (targets/odd.c, and some in other languages): under scry each prints the same and ends
the same as without. In thorough runs each, built in many ways, at each level; else those that live by what scry has to leave
alone, once."""

import os
import re
import shutil
import subprocess

import scrytest
from jobtest import JobCase

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "targets", "odd.c")
HOOKS = ["-finstrument-functions", "-fno-optimize-sibling-calls"]
# {how it is built: compiler and its options}; the first is the one of all runs.
BUILDS = {
    "hooks": ["gcc", "-O0", *HOOKS],
    "hooks at -O2": ["gcc", "-O2", *HOOKS],
    "hooks, position dependent, with CET": ["gcc", "-O1", "-no-pie", "-fcf-protection=full", *HOOKS],
    "hooks, all symbols at once": ["gcc", "-O2", "-Wl,-z,now", "-rdynamic", "-fno-plt", *HOOKS],
    "plain": ["gcc", "-O2"],
    "static": ["gcc", "-O1", "-static", *HOOKS],
    "static, position independent": ["gcc", "-O1", "-static-pie"],
    "clang": ["clang-14", "-O1", "-finstrument-functions"],
    "AddressSanitizer": ["gcc", "-O1", "-fsanitize=address", *HOOKS],
    "UndefinedBehaviorSanitizer": ["gcc", "-O1", "-fsanitize=undefined", *HOOKS],
    "ThreadSanitizer": ["gcc", "-O1", "-fsanitize=thread", *HOOKS],
    "stack protector, gprof": ["gcc", "-O1", "-fstack-protector-all", "-pg", *HOOKS],
}
# {level: options of scry run}
LEVELS = {
    "all": ["--trace", "all", "--args"],
    "default": [],
    "flight recorder": ["--trace", "all", "--overflow", "flight", "--mpi", "trace"],
    "scripts": ["--trace", "all", "--locals", "--script", "lines"],
}
# {program: in which builds it cannot be compared, why}
APART = {
    "memory_large": (r"Sanitizer", "its shadow does not fit"),
    "memory_places": (r"Sanitizer", "the shadow lies there"),
    "memory_all_read": (r"Sanitizer", "its redzones are read"),
    "limits_memory": (r"Sanitizer", "address space is the shadow's"),
    "signals_overflow": (r"Sanitizer", "has the handler of SIGSEGV"),
    "signals_overflow_dies": (r"Sanitizer", "says addresses"),
    "signals_all": (r"gprof|Sanitizer", "their signal handlers are there, or not yet"),
    "signals_timers": (r"gprof|Thread", "has the timer; hands signals on late"),
    "signals_nested": (r"Thread", "hands signals on late"),
    "confined_strict": (r"Sanitizer|gprof", "it makes system calls of its own"),
    "confined_kill_works": (r"Sanitizer|gprof", "it makes system calls of its own"),
    "confined_kill_forks": (r"Sanitizer|gprof", "it makes system calls of its own"),
    "confined_kill_dies": (r"Sanitizer|gprof", "it makes system calls of its own"),
    "confined_errno": (r"Sanitizer", "it needs memory"),
    "files_close_all": (r"Sanitizer", "it closes what is theirs"),
    "flow_libraries": (r"static|Sanitizer", "nothing is loaded"),
    "limits_data": (r"Sanitizer", "its data is the shadow's"),
    "threads_raw": (r"Sanitizer", "knows no such thread"),
    "flow_backtrace": (r"static", "not in its own libc"),
    "flow_coroutines": (r"Sanitizer", "knows no such stacks"),
    "limits_locked": (r"Sanitizer", "the shadow cannot be locked"),
    "signals_each_kills": (r"Sanitizer|gprof", "some are its own"),
    "limits_files": (r"Sanitizer", "it needs files"),
}
CORE = r"(threads|exec|limits|confined)_(?!cpu|semaphores|many)|signals_bad_masks"
PROGRAMS = {
    "perl": ["perl", "-e", "$SIG{ALRM}=sub{die 'late'};alarm 100;for(1..20){my$p=fork;if(!$p){exit $_}waitpid$p,0;print$?>>8,\"\\n\"}die 'end'"],
    "awk": ["awk", "BEGIN{while((\"seq 100\"|getline x)>0)s+=x;print s;print \"to sort\"|\"sort\";close(\"sort\");exit 3}"],
    "sh": ["sh", "-c", "trap 'echo trap $?' EXIT; set -u; (exit 3); echo $?; x=$(yes|head -1000|md5sum); echo $x; kill -USR1 $$"],
    "bash": ["bash", "-c", "set -o pipefail; coproc cat; echo a >&${COPROC[1]}; read -r b <&${COPROC[0]}; echo $b; false|true; echo ${PIPESTATUS[*]} $?; "
                           "mapfile -t l < <(seq 5); echo ${#l[@]}; exec 9<<<here; cat <&9; kill $COPROC_PID; wait; echo $unset; ${x?gone}"],
    "python": ["/usr/bin/python3", "-c", "import multiprocessing as m,sys,threading\nwith m.get_context('fork').Pool(3) as p: print(p.map(abs,range(-9,0)))\n"
               "t=[threading.Thread(target=print,args=(i,)) for i in range(3)]\nfor x in t: x.start();x.join()\nsys.exit('said')"],
    "python, spawned": ["/usr/bin/python3", "-c", "import subprocess as s\nfor i in range(10): print(s.run(['sh','-c',f'exit {i}'],preexec_fn=lambda:None).returncode)\n1/0"],
    "tcl": ["tclsh", "ODD.tcl"],
    "node": ["node", "-e", "const{Worker,isMainThread}=require('worker_threads');new Worker('console.log(2+2);process.exit(3)',{eval:true}).on('exit',c=>{console.log(c);process.exitCode=c})"],
    "make": ["make", "-j3", "-Otarget", "-f", "ODD.mk"],
    "xargs": ["sh", "-c", "seq 200 | xargs -P4 -n10 echo | sort -n | head -3; seq 3 | xargs -I@ sh -c 'exit 255'"],
    "timeout": ["timeout", "-s", "KILL", "0.2", "sleep", "30"],
    "nested": ["sh", "-c", "SCRY run -q -- sh -c 'echo inside; exit 4'; echo $?"],
    "unshare": ["unshare", "-Urpf", "--mount-proc", "sh", "-c", "echo $$; id -u; ls /proc | grep -c '^[0-9]'"],
    "setarch": ["setarch", "-R", "sh", "-c", "cat /proc/self/personality"],
    "nice": ["nice", "-n", "5", "sh", "-c", "ulimit -s 512; ulimit -a | grep -v pending; nice"],
    "env": ["env", "-i", "/bin/sh", "-c", "echo $PATH; env | grep -c ."],
    "chroot": ["sh", "-c", "mkdir -p r && chroot r /bin/none; echo $?"],
    "gdb": ["gdb", "-nx", "-batch", "-ex", "run", "-ex", "p $_exitcode", "--args", "/bin/sh", "-c", "exit 5"],
    "strace": ["strace", "-fqq", "-e", "trace=none", "-e", "signal=none", "sh", "-c", "echo traced; (exit 2); exit 6"],
}
FILES = {
    "ODD.mk": "all: a b c\n\nsub: ; @echo sub\na b: sub; @echo $@\nc: a; @echo $@; exit 2\n",
    "ODD.tcl": "foreach i {3 1 2} {lappend l [exec echo $i]}\nputs [lsort $l]\nset f [open |cat r+]\nputs $f hello\nflush $f\nputs [gets $f]\nerror ended\n",
}


def masked(text):
    """Without what differs from run to run by itself."""
    text = re.sub(r"==\d+==|\b0x[0-9a-f]{6,}\b", "N", text)
    return re.sub(r"(process|pid|LWP|line \d+:) +\d+", r"\1 N", text)


class Odd(JobCase):
    case_seconds = 3000

    def outcome(self, command, env):
        folder = self.box.path("work", "odd")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        os.chmod(folder, 0o777)
        for name, text in FILES.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        try:
            done = subprocess.run(command, check=False, capture_output=True, cwd=folder, env=env, stdin=subprocess.DEVNULL,
                                  timeout=60 * scrytest.SCALE)
        except subprocess.TimeoutExpired:
            return "late"
        status = 128 - done.returncode if done.returncode < 0 else done.returncode
        return status, masked(done.stdout.decode("utf-8", "replace")), masked(done.stderr.decode("utf-8", "replace"))

    def compare(self, name, command, levels):
        """What it does without scry twice, since that has to be the same before anything can be compared."""
        env = self.box.env
        bare = self.outcome(command, env)
        with self.subTest(program=name):
            self.assertNotEqual(bare, "late")
        for level in levels:
            with self.subTest(program=name, level=level):
                run = self.box.scry("run", "-q", *LEVELS[level], "--", *command)
                found = self.outcome(run, env)
                if found != bare and self.outcome(command, env) == bare:
                    self.assertEqual(found, bare)

    def built(self, build):
        compiler = BUILDS[build]
        if not shutil.which(compiler[0]):
            self.skipTest(f"needs {compiler[0]}")
        name = "odd_" + re.sub(r"\W+", "_", build)
        return scrytest.compiled(name, [*compiler, "-g", "-w", "-D_GNU_SOURCE", SOURCE, "-pthread", "-lm"], SOURCE)

    def names(self, program, build):
        names = self.box.run([program], cwd=self.box.path("work")).stdout.split()
        self.assertGreater(len(names), 90)
        return [name for name in names if not re.search(APART.get(name, ("^$",))[0], build)]

    def test_hooks(self):
        program = self.built("hooks")
        for name in self.names(program, "hooks"):
            if scrytest.THOROUGH or re.match(CORE, name):
                self.compare(name, [program, name], LEVELS if scrytest.THOROUGH else ["all"])

    @scrytest.thorough  # the programs of others
    def test_languages(self):
        for name, command in PROGRAMS.items():
            if shutil.which(command[0]):
                self.compare(name, [word.replace("SCRY", self.box.scry()[0]) for word in command], LEVELS)

    @scrytest.thorough  # built in other ways
    def test_builds(self):
        for build in list(BUILDS)[1:]:
            with self.subTest(build=build):
                program = self.built(build)
                for name in self.names(program, build):
                    self.compare(name, [program, name], ["all", "default"])


if __name__ == "__main__":
    scrytest.main()
