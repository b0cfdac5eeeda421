/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_BASE_SYSTEM_PROCESS_H
#define SCRY_BASE_SYSTEM_PROCESS_H

#include "base/data/err.h"

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * Starts another program (posix_spawn) with signals as a fresh process has them: none is blocked, none is ignored. It gets
 * no descriptors but those named here.
 *
 * Only these fork by hand: who waits before it executes what it is told to (job/launch/launch.c, task/process.c, tracer/attach.c);
 * children with the memory of their parent (worker_start, job/output/relay.c, job/places/sandboxed_child.h, task/background.c, scry doctor); who leaves
 * a parent that waits (daemon, link, mirror, symbols/helper); tracer/client.c, whose child asks for a signal at its parent's end
 * first. batch/ uses no other room, and what is inside the target leaves fork and exec to the program.
 */

/* Instead of a descriptor: /dev/null; the caller's own of that number; a new pipe (spawn_piped). */
enum { SPAWN_NULL = -1, SPAWN_SAME = -2, SPAWN_PIPE = -3 };
enum { SPAWN_KEPT_FD = 3 }; /* the number that `kept` has in the program */

enum spawn_group {
    SPAWN_SAME_GROUP,
    SPAWN_OWN_GROUP,   /* Ctrl-C is not for it */
    SPAWN_OWN_SESSION, /* nor does the terminal end it */
};

struct spawn {
    const char *path;
    char *const *argv;
    char *const *environment; /* NULL: the caller's */
    int in, out, error;       /* from 3 on, unless two of them cannot get into each other's way */
    int kept;                 /* 0: none */
    enum spawn_group group;
    const char *directory; /* NULL: the caller's */
};

/* 0 or -errno: the program could not be executed, for example. Whoever calls waits for *ret_pid. In threads, too. */
int spawn_program(const struct spawn *spawn, pid_t *ret_pid);
/* The same with a new pipe for each of `in`, `out` and `error` that is SPAWN_PIPE. ret_ends[number] is our end of it, O_CLOEXEC; -1: none. */
int spawn_piped(const struct spawn *spawn, pid_t *ret_pid, int ret_ends[3]);

/* Starts one that is nobody's child, in a session of its own, in the root directory, with the umask 077; nice_by as of nice(2). 0 or -errno. */
int spawn_detached(const struct spawn *spawn, int nice_by);

/* Waits for a child's end. Its status, as of waitpid(2); 0 if something else has taken it (SIGCHLD is ignored). */
int child_reap(pid_t pid);

/*
 * What a user is called in all that is recorded, published and signed: all programs have to agree on it, or a user's keys
 * and jobs are not of the same user.
 */

#define USER_NAME_BYTES 256

/* The name in the user database; where it has none (containers, a directory service that is away) the number, as ls -l
 * shows it. Never empty; longer names are cut. Returns ret_name. Not thread-safe (getpwuid). */
const char *user_name(uid_t uid, char *ret_name, size_t size);

/*
 * Names that ps shows for processes that must not be called scry: `pkill -9 scry` kills the monitor, and a signal to
 * all processes of that name is for scry run.
 */

/* scry-tracer, which has breakpoints in the job's programs, and its guard (tracer/guard.c). Both remove their
 * breakpoints and end by themselves. */
#define TRACER_PROCESS_NAME "job-tracer"
#define GUARD_PROCESS_NAME "job-guard"
/* Children of scry run (job/launch/signals.h, job/record/writer.h, job/observe/observer.h, job/run/publish.h). */
#define WITNESS_PROCESS_NAME "job-signals"
#define WRITER_PROCESS_NAME "job-writer"
#define OBSERVER_PROCESS_NAME "job-observer"
#define PUBLISHER_PROCESS_NAME "job-publisher"
#define PROFILE_PROCESS_NAME "job-profile"
#define PARTS_PROCESS_NAME "job-parts"
/* Those that pass on and keep what a job writes (job/output/relay.h): of different names, so that who ends one leaves the others. */
#define RELAY_PROCESS_NAME "job-relay"
#define STANDBY_PROCESS_NAME "job-standby"
#define KEEPER_PROCESS_NAME "job-keeper"
#define TERMINAL_PROCESS_NAME "job-terminal" /* leads the session of a job that has a terminal of its own */

/* Is it one of these, or scry, or what that starts for all jobs of a user? What ends a job leaves it alone. */
bool process_is_scrys(const char *name);

/* One by which people end, stop or continue a whole job: it goes to all its processes, any other to its command alone, which may
 * pass it on. */
bool process_signal_is_for_all(int signo);

/* Where the libraries are that scry loads into programs. */

#define AGENT_LIBRARY "libscry-agent.so"

/* Finds the agent: $SCRY_AGENT_LIB, beside the program (installed or built), the compiled-in place. 0, or -ENOENT with
 * what to do. */
int agent_library(char *ret_path, int size, struct err *err);

/* The directory of the libraries for MPI programs: $SCRY_MPI_DIR, beside the agent, or as built. "": none. */
void agent_library_mpi(char ret_dir[PATH_MAX], const char *library);

/* What a siginfo tells of a fault. */

/* Is si_addr the address of an access that failed? Not if somebody sent the signal, and not of what the processor
 * refuses otherwise: that has no address. */
static inline bool siginfo_has_address(const siginfo_t *info)
{
    return (info->si_signo == SIGSEGV && (info->si_code == SEGV_MAPERR || info->si_code == SEGV_ACCERR)) ||
           (info->si_signo == SIGBUS && info->si_code == BUS_ADRERR);
}

#endif
