/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracer, seen from the monitor: a separate process (scry-tracer) that owns every ptrace attachment and every int3,
 * started at the first need. It runs lowered action lists itself. When the monitor's end of the socket closes, it
 * removes breakpoints, repairs program counters, lets stopped threads run, detaches everything and exits: the targets
 * never notice. If it is killed, its guard takes the breakpoints out (tracer/guard.c).
 *
 * All calls are synchronous and bounded (TRACER_TIMEOUT_NS, longer while the tracer has no processor); events that
 * arrive meanwhile are queued and handed out by tracer_dispatch. One thread. Errors: -ESRCH (gone), -EPERM (not
 * allowed, or traced by somebody else: err says by whom), -EIO (memory not accessible), -ETIME (a thread would not stop
 * in time), -EPIPE (the tracer died).
 */
#ifndef SCRY_TRACER_TRACER_H
#define SCRY_TRACER_TRACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "base/data/err.h"
#include "shm/code.h"
#include "shm/waits.h"

enum {
    TRACER_SYSCALLS = 1024,     /* numbers a watch can name */
    TRACER_XSTATE_SIZE = 16384, /* at most */
    TRACER_FRAMES = 65536,      /* of one backtrace, at most */
};
#define TRACER_TIMEOUT_NS (wait_policies[WAIT_TRACER].limit_ms * WAITS_NS_PER_MS)

struct tracer;

enum tracer_event_kind {
    TRACER_BREAK,         /* about to execute the instruction at addr */
    TRACER_STEP,          /* executed one instruction (tracer_step); number: of which modes it is a step */
    TRACER_SYSCALL_ENTER, /* number, args */
    TRACER_SYSCALL_EXIT,  /* number, result */
    TRACER_SIGNAL,        /* signo is about to be delivered; args of a fault: the address (as siginfo has it) and the
                             thread's stack pointer; of SIGFPE, unless somebody sent it: its si_code */
    TRACER_NEW_PROCESS,   /* fork, vfork or clone without CLONE_THREAD: child; it is stopped, too, while held */
    TRACER_NEW_THREAD,    /* child is the new thread, stopped while held */
    TRACER_EXEC, /* the process has a new program; tid is now pid, the other threads are gone; breakpoints are gone */
    TRACER_THREAD_EXIT, /* the thread is about to end, its memory and registers are still there; held like other events
                         */
    TRACER_GONE,        /* the process ended or was detached by force; not held */
    TRACER_INTERRUPTS,  /* the thread will be interrupted; not held, and reported at once (see tracer_watch) */
    TRACER_RESUMES,     /* it will be resumed; likewise */
    TRACER_CALL_ENDED,  /* what tracer_call called has returned, and the registers are what they were: addr, result
                           (rax),  args[0] (the low half of xmm0), args[1] (tracer_call_place.slot); held if that is
                           watched */
    TRACER_LOADED,      /* tracer_load has come to its end: see tracer_load_result; not held */
    TRACER_LOADABLE,    /* the thread was waited for (tracer_load.tells), and it is time to try again; held */
    TRACER_LET_GO, /* of no process: while the monitor was stopped, args[0] threads that were held were let go on, and
                      args[1] events were not reported */
};

struct tracer_event {
    enum tracer_event_kind kind;
    pid_t pid, tid;
    uint64_t hold; /* the thread waits until tracer_release_hold(hold); 0: nobody waits */
    uint64_t time_ns;
    uint64_t addr;
    int signo;
    pid_t child;
    uint32_t number; /* of the system call; of a step enum tracer_step_mode */
    uint32_t arg_count;
    uint64_t args[6]; /* at the exit those that it was called with */
    int64_t result;
};

typedef void tracer_event_fn(void *ctx, const struct tracer_event *event);

/* Starts the program at `path` with a socket. `cells_fd`: the memory of CODE_CELLS cells, or -1. */
int tracer_start(struct tracer **ret_tracer, const char *path, int cells_fd, tracer_event_fn *fn, void *ctx,
                 struct err *err);
void tracer_stop_all(struct tracer *tracer); /* asks it to release everything and exit, waits for that, frees */

int tracer_fd(const struct tracer *tracer); /* readable: call tracer_dispatch */
pid_t tracer_pid(const struct tracer *tracer);
bool tracer_died(const struct tracer *tracer);    /* found out by a call; the next tracer_dispatch says so, too */
bool tracer_pending(const struct tracer *tracer); /* events were queued during a call: call tracer_dispatch */
/* Passes on the events that are there, not later ones, and only for a moment: tracer_pending says whether more are
 * left. 0, or -EPIPE if the tracer died. */
int tracer_dispatch(struct tracer *tracer);
/* Receives what the tracer has sent so far. */
void tracer_receive(struct tracer *tracer);

/* ---- processes ---- */
/* Attaches to all threads of a process, without stopping it longer than needed. Idempotent. */
int tracer_seize(struct tracer *tracer, pid_t pid, struct err *err);
/* Removes everything and detaches; a process not seized is fine. Threads that were stopped run. */
int tracer_release(struct tracer *tracer, pid_t pid);

struct tracer_spawn {
    const char *path;        /* executable */
    const char *const *argv; /* with argv[0], NULL-terminated */
    const char *const *envp; /* NULL: inherited from the monitor */
    const char *io[3];       /* file names for stdin, stdout, stderr; NULL or "": inherited */
};
/* Starts a program and leaves it seized and stopped (as by tracer_stop) at its first instruction. */
int tracer_spawn(struct tracer *tracer, const struct tracer_spawn *spawn, pid_t *ret_pid, struct err *err);

/* What to report about a seized process; replaces the earlier watch. Other things pass silently. */
struct tracer_watch {
    uint64_t signals; /* bit signo - 1 */
    bool new_process, new_thread, thread_exit;
    /* TRACER_INTERRUPTS, TRACER_RESUMES: sent before the act, and reported when received, also during calls and by
     * tracer_receive. */
    bool switches;
    bool calls; /* TRACER_CALL_ENDED holds the thread; without this it is only reported */
    uint64_t syscall_enter[TRACER_SYSCALLS / 64], syscall_exit[TRACER_SYSCALLS / 64];
};
int tracer_watch(struct tracer *tracer, pid_t pid, const struct tracer_watch *watch);

/* ---- run states ---- */
/* Stops and continues single threads of seized processes (idempotent). On return every thread has stopped; ret_codes
 * (may be NULL) shows those that have not. A thread that is held by an event counts as stopped. Threads created by a
 * stopped process start unstopped. */
int tracer_stop(struct tracer *tracer, const pid_t *tids, size_t count, int *ret_codes);
int tracer_continue(struct tracer *tracer, const pid_t *tids, size_t count, int *ret_codes);
int tracer_release_hold(struct tracer *tracer, uint64_t hold);

/* From now on a running thread runs step by step, with a TRACER_STEP event after each, until the mode is NONE. If a
 * breakpoint follows a step, the step is reported first, and the breakpoint when the thread goes on. */
enum tracer_step_mode {
    TRACER_STEP_NONE,
    TRACER_STEP_INTO,
    TRACER_STEP_OVER, /* a call is one instruction */
    TRACER_STEP_BOTH = TRACER_STEP_INTO | TRACER_STEP_OVER,
};
int tracer_step(struct tracer *tracer, pid_t tid, enum tracer_step_mode mode);

/* ---- registers and code; threads that run are stopped for the moment ---- */
int tracer_get_regs(struct tracer *tracer, pid_t tid, struct user_regs_struct *ret_regs);
int tracer_set_regs(struct tracer *tracer, pid_t tid, const struct user_regs_struct *regs);
int tracer_get_xstate(struct tracer *tracer, pid_t tid, void *ret_bytes, size_t *inout_size); /* NT_X86_XSTATE */
int tracer_set_xstate(struct tracer *tracer, pid_t tid, const void *bytes, size_t size);
/* Jumps: rip = addr, a system call in progress is not restarted. */
int tracer_goto(struct tracer *tracer, pid_t tid, uint64_t addr, struct err *err);
/* Calls the function at addr as if from here. When it returns, the thread's registers are restored. The return address
 * is not the program's: *ret_place says what to show instead. */
enum { TRACER_STUB_SIZE = 16 };
struct tracer_call_place {
    uint64_t slot;                      /* where the return address lies */
    uint64_t pc;                        /* where the thread goes on */
    uint64_t stub;                      /* the return address: code of ours */
    uint8_t original[TRACER_STUB_SIZE]; /* what it lies over */
};
int tracer_call(struct tracer *tracer, pid_t tid, uint64_t addr, struct tracer_call_place *ret_place, struct err *err);

/*
 * Loads a library into a seized process, and calls a function of it: one of its threads calls dlopen(path),
 * dlsym(symbol) and symbol(data), which returns a long. It begins only where that is safe: no thread is inside the
 * dynamic linker or fork; the calling thread is in the program's own code, or waits in a system call that the program
 * made, on its own stack, with room there, and not inside malloc, other functions of the C library, MPI, or a signal
 * handler. During the call, signals to it wait, everything else goes on, and nothing of it is an event. Afterwards its
 * registers, signal mask and errno are restored.
 *
 * 0: begun, TRACER_LOADED reports the end. -EAGAIN: not possible now, err says why: try again in a while. -EOPNOTSUPP:
 * never in this process, err says why. -EBUSY: one is in progress.
 */
struct tracer_load {
    const char *path, *symbol;
    const void *data; /* is copied onto the thread's stack: valid until the function returns */
    size_t data_size; /* up to TRACER_LOAD_DATA */
    bool tells;       /* after -EAGAIN: a thread is waited for where it comes back to the program's code from where it
                       * must not be, and TRACER_LOADABLE reported then; until the next tracer_load, or once */
};
enum { TRACER_LOAD_DATA = 16384 };
int tracer_load(struct tracer *tracer, pid_t pid, const struct tracer_load *load, struct err *err);
/* 0: what the function returned; -errno: err says why it was not called (-EINPROGRESS: not yet). */
int tracer_load_result(struct tracer *tracer, pid_t pid, int64_t *ret_result, struct err *err);

struct tracer_frame {
    uint64_t pc;  /* of the innermost: where it is; of others: the return address */
    uint64_t cfa; /* canonical frame address: the "fp" of the specification */
};
/* At most max_depth frames (0: all, up to TRACER_FRAMES), into a malloc'ed array the caller frees. */
int tracer_backtrace(struct tracer *tracer, pid_t tid, size_t max_depth, struct tracer_frame **ret_frames,
                     size_t *ret_count, struct err *err);

/* ---- memory; our own int3 bytes are hidden from reads and kept by writes; the process need not be seized ---- */
int tracer_write_memory(struct tracer *tracer, pid_t pid, uint64_t addr, const void *bytes, size_t len);

/* ---- breakpoints ---- */
/* Sets (or extends) the breakpoint at addr in a seized process. `id` names this user of it; several share one int3.
 * With a program the hit runs it in the tracer and is not reported for this id; its parameters are the six integer
 * argument registers of the System V ABI, which is what they are at the start of a function. ret_original (may be
 * NULL): the byte that int3 replaced. -EIO where there is no code. */
int tracer_break_set(struct tracer *tracer, pid_t pid, uint64_t addr, uint64_t id, const struct code_program *program,
                     uint8_t *ret_original, struct err *err);
int tracer_break_clear(struct tracer *tracer, pid_t pid, uint64_t addr, uint64_t id);

#endif
