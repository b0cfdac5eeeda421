/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the tracer share: threads, processes, address spaces, and the functions over them.
 *
 * The program has one thread. Statuses from wait4 are handled by stop_handle (stops.c), which never waits; requests
 * of the monitor (requests.c) may wait for threads to stop by pump_until (main.c), which hands statuses to stop_handle
 * meanwhile. One place decides whether a thread runs: thread_update (thread.c). Structures that die while a request is
 * being served stay readable (`dead`) until it ends.
 *
 * A breakpoint is an int3. Its original instruction is executed elsewhere: control flow is emulated, everything else
 * runs as a copy followed by a jump back, in a slot behind the end of a code segment (space.c), so that a hit costs
 * one stop and the int3 is never taken away while other threads run.
 */
#ifndef SCRY_TRACER_TRACEE_H
#define SCRY_TRACER_TRACEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include <uthash.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "tracer/tracer.h"
#include "tracer/protocol.h"

#define TIMEOUT_LOOK_NS (wait_policies[WAIT_HELD].look_ms * WAITS_NS_PER_MS)

enum {
    INSN_SIZE = 15,      /* the longest instruction */
    SLOT_SIZE = 32,      /* instruction and an absolute jump: 15 + 14 */
    RED_ZONE = 128,      /* bytes below rsp that belong to the running function (System V ABI, 3.2.2) */
    CALL_STUB_SIZE = 16, /* at the start of a scratch area */
    INT3 = 0xcc,
};

/* ---- instructions (insn_x86_64.c) ---- */
enum insn_kind {
    INSN_COPY,    /* runs anywhere, once relocated */
    INSN_NOP,     /* emulated: only moves on */
    INSN_PUSH,    /* emulated: push of a 64-bit register */
    INSN_JUMP,    /* emulated: all control flow */
    INSN_SYSCALL, /* must run in its place */
    INSN_IN_PLACE,
};

struct insn {
    enum insn_kind kind;
    uint8_t length;
    bool is_call, is_pushf;
    uint8_t bytes[INSN_SIZE + 1];
};

/* Decodes the instruction at addr from up to 16 bytes; unknown ones are INSN_IN_PLACE with length 0. */
void insn_decode(struct insn *ret_insn, uint64_t addr, const uint8_t *bytes, size_t len);

/* Writes the relocated copy and the jump back for a slot at `slot`. -ERANGE if its operand cannot be reached there. */
int insn_relocate(const struct insn *insn, uint64_t addr, uint64_t slot, uint8_t ret_bytes[SLOT_SIZE]);

struct thread;
struct unwind_object;
/* Performs the instruction on regs and the thread's memory. -EOPNOTSUPP: it must run in its place. */
int insn_emulate(const struct insn *insn, uint64_t addr, struct thread *thread, struct user_regs_struct *regs);

/* ---- address spaces (space.c) ---- */
struct breakpoint_user {
    struct breakpoint_user *next;
    struct process *process;
    uint64_t id;
    struct code_program *program; /* NULL: report */
    pid_t step_tid;               /* != 0: ends this thread's step over a call ... */
    uint64_t step_sp;             /* ... once its stack pointer is at or above this */
};

struct breakpoint {
    uint64_t addr;
    bool inserted;
    uint32_t guarded;
    uint8_t original;
    struct insn insn;
    uint64_t slot; /* 0: none */
    struct breakpoint_user *users;
    UT_hash_handle hh;
};

struct scratch { /* unused executable bytes at the end of a segment */
    struct scratch *next;
    uint64_t start, end;
    uint64_t stub_size; /* CALL_STUB_SIZE, or 0 where there is only room for a slot */
    uint64_t slots_end; /* slots are [start + stub_size, slots_end) */
    uint8_t *original;
    bool stub_written;
    uint32_t guarded; /* the stub */
};

struct space {
    unsigned references; /* processes: more than one after vfork */
    int mem_fd;
    struct breakpoint *breakpoints; /* also earlier ones: to distinguish late hits from the program's own int3 */
    unsigned inserted_count;
    struct scratch *scratches;
    bool scratch_searched;
    bool settled;            /* no thread is inside a fork that began before we traced it */
    bool lost_child;         /* a thread was killed that may have made a child and not told of it */
    struct thread *in_place; /* runs an instruction in its place; the others pause */
    bool in_place_running;
    uint64_t in_place_addr;
    struct unwinder *unwinder;
};

struct space *space_new(void);
struct space *space_get(struct space *space);
void space_put(struct space *space);
/* The latest of those that are no process's any more, but may be a lost child's: it inherited what was in them. NULL
 * behind the last. */
const struct space *space_lost(unsigned index);
/* The memory as the program sees it: without int3 of ours. Return what was transferred, or -EIO. */
int space_read(struct process *process, uint64_t addr, void *ret_bytes, size_t len);
int space_read_some(struct process *process, uint64_t addr, void *ret_bytes, size_t len, size_t *ret_done);
int space_write(struct process *process, uint64_t addr, const void *bytes, size_t len);
int space_mem_fd(struct process *process); /* or -1 */
/* As it is. */
ssize_t space_read_raw(struct process *process, uint64_t addr, void *ret_bytes, size_t len);
ssize_t space_write_raw(struct process *process, uint64_t addr, const void *bytes, size_t len);
/* Finds room for the copy of an instruction and writes it; 0 if there is none. */
uint64_t space_slot_new(struct process *process, const struct insn *insn, uint64_t addr);
/* Address of a byte of ours to which called functions return; 0 if there is no room. */
uint64_t space_call_stub(struct process *process);
/* Called functions return from now on without the tracer: where the int3 was, rt_sigreturn is called. */
void space_leave_stubs(struct process *process);
bool space_is_call_stub(const struct space *space, uint64_t addr);
/* What a stub lies over. */
void space_stub_original(const struct space *space, uint64_t stub, uint8_t ret_bytes[CALL_STUB_SIZE]);
/* If pc lies in a slot: the address in the program that it stands for. */
bool space_translate(const struct space *space, uint64_t pc, uint64_t *ret_pc);
/* Gives the scratch areas their bytes back. With keep_stubs, functions in progress can still return by themselves. */
void space_restore_scratch(struct process *process, bool keep_stubs);
void space_restore_bytes(struct process *process, const struct scratch *scratch, bool keep_stub);
/* Is a stub there that this scratch area of another process may have had? */
bool space_has_stub(struct process *process, const struct scratch *scratch);

/* ---- processes and threads (thread.c) ---- */
enum stop_kind {
    STOP_SIGNAL, /* signal-delivery-stop */
    STOP_TRAP,   /* by PTRACE_INTERRUPT, or new */
    STOP_GROUP,
    STOP_SYSCALL_ENTER,
    STOP_SYSCALL_EXIT,
    STOP_EVENT, /* fork, clone, exec, vfork-done */
    STOP_EXIT,
};

struct call {
    struct call *next;
    struct user_regs_struct regs;
    bool break_done;
    uint64_t addr;      /* the function */
    uint64_t return_sp; /* rsp when the function has returned to the stub */
    void *xstate;
    size_t xstate_size;
    bool loads; /* for process->load: nobody's business */
};

struct thread {
    pid_t tid;
    struct process *process;
    struct thread *next, *prev; /* of the process */
    UT_hash_handle hh;
    struct thread *next_dead;

    bool dead;
    bool in_stop;        /* in a ptrace-stop; otherwise running, or listening in a group-stop */
    bool listening;      /* PTRACE_LISTEN: in a group-stop, waiting for SIGCONT */
    bool fresh;          /* auto-attached, its first stop has not come */
    pid_t parent_tid;    /* of a fresh one: who announced it */
    bool exited;         /* past its EVENT_EXIT: a leader stays a zombie until the last thread ends */
    bool interrupted;    /* PTRACE_INTERRUPT was sent since it last ran */
    bool seen_stop;      /* it has stopped since it was seized: what it does since then, we see */
    bool unsettled;      /* must stop once before int3 may be written: may be inside fork */
    bool leaving;        /* detach at the next opportunity */
    enum stop_kind stop; /* while in_stop */
    int signal;          /* to be delivered when it resumes */
    uint32_t guarded_signal;

    /* why it must not run */
    bool stopped;    /* tracer_stop */
    uint64_t hold;   /* an event is being handled */
    unsigned pauses; /* internal, for the moment */

    pid_t new_child;  /* announced by a fork event, its first stop not seen; the event is reported then */
    pid_t held_child; /* thread that waits for the same hold */

    bool regs_valid, regs_dirty;
    bool parked; /* the kernel has other registers than `regs`: see thread_park */
    struct user_regs_struct regs;
    bool break_done; /* the hit at break_addr was handled: resuming there steps over it */
    uint64_t break_addr;
    bool redo; /* a signal came before the instruction at redo_addr was done: the next hit is the same */
    uint64_t redo_addr, redo_sp;

    enum tracer_step_mode step;
    bool trap_due;     /* a PTRACE_SINGLESTEP was done whose SIGTRAP has not been seen: it must not reach the program */
    bool stepped;      /* its SIGTRAP was seen; the step is done when it has stopped once more */
    uint64_t pushf_sp; /* the step is a pushf there: the trap flag is taken out of what it pushed */
    /* Where a step over a call ends, or a handler that runs before the step: at our breakpoint, if the thread is not
     * stepped through the call, too. */
    uint64_t over_addr, over_sp;
    bool over_handler;
    uint64_t step_pc, step_sp; /* of TRACER_STEP_BOTH: where the step began; 0: inside such a call */
    struct call *calls;        /* tracer_call in progress, innermost first */

    bool in_syscall;
    uint32_t syscall_number;
    uint64_t syscall_args[6];
};

/* It executes what we want, not the program. */
static inline bool thread_loads(const struct thread *thread)
{
    return thread->calls && thread->calls->loads;
}

struct process {
    pid_t pid;
    struct thread *threads;
    struct space *space;
    bool wanted;     /* seized for the monitor; otherwise a child that is traced until it can be left alone */
    unsigned pauses; /* internal, for the moment */
    bool spawning;   /* until its first exec */
    bool releasing;
    bool keep_stubs;         /* a thread was detached inside a call */
    struct space *inherited; /* the parent's, until our copy of its memory is clean */
    struct tracer_watch watch;
    bool syscalls;     /* the watch names any */
    struct load *load; /* tracer_load in progress, or what came of the last one */
    UT_hash_handle hh;
    struct process *next_dead;
    bool dead;
};

extern struct thread *all_threads;
extern struct process *all_processes;

struct process *process_new(pid_t pid, struct space *space_taken);
struct process *process_find(pid_t pid);
pid_t process_live_tid(const struct process *process); /* one whose /proc entries still say something */
void process_remove(struct process *process);          /* with everything that refers to it */
struct thread *thread_new(struct process *process, pid_t tid);
struct thread *thread_find(pid_t tid);
void thread_remove(struct thread *thread);
void graveyard_clear(void);

bool thread_may_run(const struct thread *thread);
void thread_update(struct thread *thread); /* makes it stop or run, as it should */
/* The only ways to interrupt a thread and to let it go on. They are reported to whoever watches switches. false: errno. */
bool thread_interrupt(struct thread *thread);
bool thread_go(struct thread *thread, int request, int signal);
void thread_pause(struct thread *thread);
void thread_unpause(struct thread *thread);
void process_update(struct process *process);
void process_unpause(struct process *process);
/* Pauses the thread and waits until it is in a ptrace-stop. On success the caller unpauses it. */
int thread_halt(struct thread *thread);
int process_halt(struct process *process);
/* Does /proc say that the thread is inside the kernel, so that it will stop before it is in user mode again? */
bool thread_is_blocked(const struct thread *thread);

int thread_load_regs(struct thread *thread); /* into regs, with slot addresses translated */
int thread_flush_regs(struct thread *thread);
/* For a thread that stays in its stop: the kernel gets the registers with which it goes on if this program is killed.
 */
void thread_park(struct thread *thread);
void thread_regs_changed(struct thread *thread); /* by somebody who wants it to go on there */

/* ---- stops.c ---- */
void stop_handle(pid_t tid, int status);
/* Those that wait for so long to be told of are let go: who made them was killed. True: others wait. */
bool stop_adopt_unknowns(uint64_t limit_ns);
bool process_reports(const struct thread *thread); /* are its events anybody's business? */

/* ---- events and waiting (main.c) ---- */
void event_send(struct tracer_event *event);                        /* not held */
void event_hold(struct thread *thread, struct tracer_event *event); /* sends it and holds the thread */
void hold_release(uint64_t hold);
void reply_send(const struct wire_message *request, int code, uint64_t a, const void *bytes, size_t len);
typedef bool pump_fn(void *ctx);
/* Handles statuses until done(ctx), or 0 after a while: -ETIME. */
int pump_until(pump_fn *done, void *ctx);
void pump_ready(void);   /* handles what there is, without waiting */
void tick_request(void); /* breakpoint_in_place_try is called again soon */
void look_request(void); /* timeout_tick and stop_adopt_unknowns are, every TIMEOUT_LOOK_NS, as long as they say so */
extern code_cell *cells;
extern pid_t monitor_pid;
extern bool monitor_gone;
extern char **original_environment;

/* ---- main.c ---- */
bool timeout_over(void); /* the monitor is stopped: nobody is to wait for it */

/* ---- call_x86_64.c ---- */
/* wait4(-1, status, __WALL) that returns 0 at once if *flag is or becomes set by a signal handler that calls
 * wait_abort: no wake-up is lost between the look at the flag and the wait. */
pid_t wait_unless(volatile int *flag, int *ret_status);
void wait_abort(void *ucontext);

/* ---- breakpoint.c ---- */
#define BREAKPOINT_LOAD UINT64_MAX /* the id of load.c */
int breakpoint_set(struct process *process, uint64_t addr, uint64_t id, const struct code_program *program,
                   uint8_t *ret_original, struct err *err);
void breakpoint_clear(struct process *process, uint64_t addr, uint64_t id);
void breakpoint_clear_process(struct process *process); /* all its users */
void breakpoint_clear_step(struct thread *thread);
struct breakpoint *breakpoint_find(const struct space *space, uint64_t addr);
void breakpoint_hit(struct thread *thread, struct breakpoint *breakpoint);
/* Changes the registers of a thread at the breakpoint to those with which it goes on; `alone`: without us. */
enum breakpoint_past { PAST_OWN /* to the program's own int3 */, PAST_SLOT, PAST_EMULATED, PAST_IN_PLACE /* no way */ };
enum breakpoint_past breakpoint_past(struct thread *thread, struct breakpoint *breakpoint,
                                     struct user_regs_struct *regs, bool alone);
/* Prepares the thread to go on behind the breakpoint at which it stands. False: it must not be resumed now. */
bool breakpoint_step_over(struct thread *thread, struct breakpoint *breakpoint, int *inout_request);
void breakpoint_in_place_stopped(struct thread *thread); /* or died */
void breakpoint_in_place_try(struct space *space);
void breakpoint_clean_child(struct process *child); /* of what it inherited */
/* Of what it may have inherited: nobody knows who made it. */
void breakpoint_clean_stranger(struct process *child);
/* Writes memory of the program, keeping int3 bytes. */
int breakpoint_write(struct process *process, uint64_t addr, const void *bytes, size_t len);

/* ---- attach.c ---- */
int attach_seize(pid_t pid, struct err *err);
/* Seizes the threads of a process that are not known yet. How many, or -errno. */
int attach_seize_new(struct process *process);
void attach_release(struct process *process);
bool attach_is_traced(pid_t tid); /* by us, known or not: it is attached when its maker makes it */
/* Consumes what our int3 left behind and detaches; the thread is in a stop. */
void attach_detach_thread(struct thread *thread);
/* Is a SIGTRAP queued for the thread that our int3 or step caused? */
bool attach_trap_pending(const struct thread *thread);
void attach_try_leave(struct process *process); /* an unwanted child: detaches it once that is safe */
bool attach_shares_memory(pid_t parent, pid_t child);
int attach_settle(struct process *process, struct err *err);
void attach_release_all(void);

/* ---- guard.c ---- */
void guard_start(void);      /* before anything is traced */
bool guard_ended(pid_t pid); /* it was the guard, and there is a new one */
/* Before an int3 is written: which byte is to be there if we are killed. The descriptor is that of the memory. 0: there
 * is no room for it, or no guard. */
uint32_t guard_trap(int fd, uint64_t addr, uint8_t safe);
void guard_trap_set(uint32_t number, uint8_t safe);
void guard_trap_forget(uint32_t *inout_number);      /* when the int3 is gone */
void guard_signal(struct thread *thread, int signo); /* in its signal-delivery-stop */
void guard_signal_forget(struct thread *thread);

/* ---- breakpoint.c (steps), call_x86_64.c, unwind.c, attach.c (spawning), stops.c (system calls) ---- */
int step_start(struct thread *thread, enum tracer_step_mode mode, struct err *err);
bool step_prepare(struct thread *thread);               /* just before it resumes: by PTRACE_SINGLESTEP? */
void step_trapped(struct thread *thread, bool handler); /* the SIGTRAP of its step has come; a handler was entered */
void step_done(struct thread *thread);

struct call_wanted {
    uint64_t addr;
    bool with_args;
    uint64_t args[2]; /* then the first two */
    const void *data; /* not NULL: it is put on the stack, and its address is args[data_arg] */
    size_t data_size;
    unsigned data_arg;
    const uint64_t *sigmask; /* that the thread has again if nobody is there when the function returns; NULL: its own */
};
int call_start(struct thread *thread, const struct call_wanted *wanted, struct tracer_call_place *ret_place,
               struct err *err);
/* The call whose function is to return to us with this stack pointer; NULL. */
const struct call *call_at(const struct thread *thread, uint64_t sp);
bool call_returned(struct thread *thread); /* at the stub: true if it was one of ours */
void call_drop(struct thread *thread);     /* forgets them */

/* Makes registers writable: a thread inside fork or clone is brought to the end of that call. */
int regs_leave_event(struct thread *thread, struct err *err);
int regs_get_xstate(struct thread *thread, void *ret_bytes, size_t *inout_size);
int regs_set_xstate(struct thread *thread, const void *bytes, size_t size);
/* Bit signo - 1. */
int regs_get_sigmask(const struct thread *thread, uint64_t *ret_mask);
int regs_set_sigmask(const struct thread *thread, uint64_t mask);

int syscall_watch(struct process *process, const struct tracer_watch *watch);

/* ret_whole (may be NULL): the backtrace ends where the thread began. */
int unwind_thread(struct thread *thread, size_t max_depth, struct buf *ret_frames, bool *ret_whole, struct err *err);
/* What lies at an address, as of the last backtrace in this address space; the names live until the next one. */
struct unwind_place {
    const char *file;     /* its name without folders; "": none */
    const char *function; /* NULL: not known */
};
struct unwind_place unwind_place(const struct process *process, uint64_t addr);
/* Calls fn for each object that is loaded, until it returns false. */
typedef bool unwind_object_fn(void *ctx, const char *file, const struct unwind_object *object);
void unwind_objects(const struct process *process, unwind_object_fn *fn, void *ctx);
/* The address of a function that the object defines for others; 0: none. */
uint64_t unwind_defined(const struct unwind_object *object, const char *name);
void unwinder_free(struct unwinder *unwinder);

int spawn_process(const char *bytes, size_t len, pid_t *ret_pid, struct err *err);

/* ---- load.c ---- */
/* See tracer_load. Strings and data are copied. */
int load_start(struct process *process, const struct tracer_load *wanted, struct err *err);
/* At a breakpoint of its. */
void load_arrived(struct thread *thread);
/* A function that was called for it has returned, and the registers are what they were. */
void load_returned(struct thread *thread, uint64_t result);
void load_dropped(struct process *process); /* a call of its will never return here */
int load_result(const struct process *process, int64_t *ret_result, struct err *err);
void load_free(struct load *load);

/* ---- load.c ---- */

void request_handle(const struct wire_message *request, char *payload, size_t len);

#endif
