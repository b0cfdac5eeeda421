/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The area: memory shared by one traced process (its agent) and the monitor. One file in the runtime directory for one
 * incarnation of a process. The monitor makes and sizes it and both map it, so neither's death loses what the other
 * wrote, and a new monitor finds it. In the order of the file:
 *
 *   struct area          geometry, switches (monitor writes), state and crash note (agent writes)
 *   struct area_forks    what the processes that it forks, and all that these fork, have in common
 *   filter               AREA_FILTER bytes by area_filter_index(function): AREA_ENTER | AREA_EXIT, 0: nothing there
 *   slots                open-addressed hash of functions: what to do at their calls, and their counts
 *   places               hash of where functions are called from: what entries in the trace name
 *   sites                open-addressed hash of hook return addresses and call sites: what to capture there
 *   programs             capture programs (shm/capture.h) and action lists, bump-allocated by the monitor, never reused
 *   threads              one block a living thread, and beside it the outermost calls that are open on its own stack, and
 *                        the calls that it has counted
 *   states               one word a packet: who has it
 *   packets              CTF packets (shm/record.h), all of one size: threads take free ones, fill them and give them
 *                        to the monitor, which writes them to disk and frees them
 *
 * Each side checks what it reads from the other against the geometry that it read once (struct area_view): a program
 * that overwrites this memory may lose its trace, nothing else. Freestanding, async-signal-safe.
 *
 * The handshake: the agent connects to the monitor's agent socket (SOCK_SEQPACKET), sends struct agent_hello, and gets
 * struct agent_welcome with three descriptors (SCM_RIGHTS): area, doorbell, cells. It maps them and closes all: no
 * descriptor stays in the program. From then on both sides only meet in this memory. Ringing: area_ring(). A program
 * with MPI has a second area (shm/mpi_area.h): the agent asks for it with the same hello, for the interposer. The two
 * may come in any order, at any time; the monitor knows by pid and `image` that they are of one life of a process.
 */
#ifndef SCRY_SHM_AREA_H
#define SCRY_SHM_AREA_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shm/code.h"

enum {
    AREA_VERSION = 15,
    AREA_FILTER = 65536,
    AREA_PAGE = 4096,
    AREA_THREAD_SIZE = 3 * AREA_PAGE,
    AREA_COUNTS = AREA_PAGE / 32,     /* functions whose calls a thread counts by itself */
    AREA_FRAMES = AREA_PAGE / 64 - 1, /* open calls of a thread in its block */
    AREA_DEEPEST = 131072,            /* calls inside each other that are followed */
    AREA_SLOTS = 1 << 17,             /* functions of one process; beyond them calls are counted in functions_omitted */
    AREA_SITES = 1 << 17,
    AREA_PLACE_PROBES = 16, /* a place is one of so many rows from its own on: hooks look at all of them */
    AREA_PROBES = 64,       /* rows that a lookup in slots or sites reads */
    AREA_THREADS = 8192,
    AREA_PROGRAMS = 32 << 20, /* bytes; sparse */
    AREA_PROGRAMS_MIN = 256 << 10,
    AREA_SMALLEST = 4 << 20,
    AREA_PACKET_SIZE = 32768,
    AREA_BUFFER_MIN = 1 << 20, /* bytes of packets: 32 */
    AREA_NAME_SIZE = 16,
    AREA_RAISE_VALUES = 3072, /* bytes of captured values that a raised event carries */
    AREA_PATH = 4096,
    AREA_RANGES = 8,
    AREA_CLOSINGS = 64, /* to remember */
};
#define AREA_MAGIC UINT32_C(0x59524353) /* "SCRY" */
/* Set in the function of a slot whose library was closed. Another library may come to lie there; its functions get
 * slots of their own. The slot keeps its number and its records. */
#define AREA_CLOSED (UINT64_C(1) << 63)
#define DOORBELL_MAGIC UINT32_C(0x4c4c4542) /* "BELL" */

/* ---- the handshake ---- */

enum agent_hello_flag {
    AGENT_HAS_HOOKS = 1,          /* something in the program calls the hooks; else do not wait for an answer */
    AGENT_NO_ROOM = 2,            /* sent after a welcome: the area could not be mapped; no answer */
    AGENT_NO_FILES = 4,           /* the same: the limit of open files let no descriptors through */
    AGENT_HAS_MPI = 8,            /* report MPI calls (shm/mpi_told.h): counts like hooks */
    AGENT_BY_MPI = 16,            /* there is an MPI library, which maps much later: take little of `room` */
    AGENT_MPI_NO_ROOM = 32,       /* MPI calls are not counted: that would take too much of `room`; no answer */
    AGENT_CONSTRUCTED = 64,       /* constructors of libraries ran before the agent's, and may have called the hooks, */
    AGENT_COUNTS_MPI = 128,       /* asks for the MPI area instead, for the interposer; `mpi` is filled in */
    AGENT_NO_DATA = 256,          /* as AGENT_NO_ROOM: the limit of data (RLIMIT_DATA) leaves too little; no answer */
    AGENT_LEFT_ALONE = 512,       /* a child of fork that is not traced, where it can be said nowhere else; no answer */
    AGENT_PATCHES = 1024,         /* it can put jumps into functions without hooks: `patches` */
    AGENT_CONSTRUCTED_SHIFT = 16, /* of so many */
};
/* The part of a limited address space (RLIMIT_AS), 1/PART, that the area may take. With MPI it is smaller: its
 * libraries, segments and threads are mapped long after the room was measured. */
enum { AREA_ROOM_PART = 8, AREA_ROOM_PART_MPI = 32 };

/* What the interposer says of a process with MPI. */
struct hello_mpi {
    uint32_t version;    /* MPIA_AREA_VERSION */
    uint32_t calls_hash; /* CALLS_HASH: both sides have the same table */
    uint32_t library;    /* enum mpi_library */
    int32_t hint_rank;   /* from the launcher's environment, -1: not said */
    int32_t hint_size;
    uint32_t metrics;    /* what the process itself asks for besides: MPIA_METRIC_MESSAGES (SCRY_MPI=messages) */
    char namespace[128]; /* PMIX_NAMESPACE, PMI_JOBID ...: tells jobs apart that one scry run started; "" */
};

struct agent_hello { /* agent to monitor; only `size` bytes of it are sent: each process of a job says it */
    uint32_t magic, version;
    uint32_t size; /* up to the end of the second text */
    int32_t pid, ppid;
    uint32_t flags;        /* enum agent_hello_flag */
    int32_t incarnation;   /* counts execs and forks of this program image: 0 the first */
    uint64_t fork_of;      /* serial of the area of the parent that was forked, 0: started by exec */
    uint64_t load_address; /* of the agent library */
    uint64_t room;         /* of address space, below RLIMIT_AS, in bytes; UINT64_MAX: no limit */
    uint64_t image;        /* the same in all hellos of one program that a process executes, another in the next's */
    struct hello_mpi mpi;  /* with AGENT_COUNTS_MPI; else zeroes */
    char texts[2 * AREA_PATH]; /* SCRY_JOB: the job directory, or ""; NUL; readlink of /proc/self/exe; NUL */
};
enum { AGENT_HELLO_HEAD = offsetof(struct agent_hello, texts) };

/* Are the `size` received bytes a whole hello: its head, two complete texts below AREA_PATH each, and nothing after
 * them? Then *ret_exe is the second; the first is hello->texts. */
static inline bool agent_hello_whole(const struct agent_hello *hello, size_t size, const char **ret_exe)
{
    if (size <= AGENT_HELLO_HEAD || size > sizeof *hello || hello->size != size)
        return false;
    size_t length = size - AGENT_HELLO_HEAD, job = 0, exe;
    while (job < length && hello->texts[job])
        job++;
    for (exe = job + 1; exe < length && hello->texts[exe];)
        exe++;
    if (exe + 1 != length || job >= AREA_PATH || exe - job > AREA_PATH)
        return false;
    *ret_exe = hello->texts + job + 1;
    return true;
}

struct agent_welcome { /* monitor to agent; status 0 comes with the three descriptors */
    uint32_t magic, version;
    int32_t status;   /* 0, or -errno: do nothing at all */
    uint32_t hold_ms; /* how long at most main may be held for `go` */
    char reason[200];
};

/* ---- slots: functions ---- */

enum area_filter_bit {
    AREA_ENTER = 1,   /* look up the slot at entries */
    AREA_EXIT = 2,    /* look at the shadow stack at exits; stays after AREA_ENTER was cleared, for the open calls */
    AREA_QUIET = 128, /* agent: a function that comes here is not even tallied any more; the monitor takes it away */
};

enum area_mode {                      /* bits of a slot's mode; 0: off */
                 AREA_COUNT = 1,      /* calls and times in the slot */
                 AREA_RECORD = 2,     /* entry and exit records */
                 AREA_VALUES = 4,     /* with captured values, where there are programs for the site */
                 AREA_CALLER = 8,     /* with the caller's locals at entries */
                 AREA_RATED = 16,     /* at most area.rate recorded calls a second */
                 AREA_ACT_ENTER = 32, /* run or raise slot.enter_list */
                 AREA_ACT_EXIT = 64,
                 AREA_TALLY =
                     128, /* in place of AREA_RECORD: only how often, in `thinned`. The agent's choice, see thin */
};

struct area_slot {             /* one cache line */
    _Atomic uint64_t function; /* its address in the process; 0: free. Set once, by compare-and-exchange */
    _Atomic uint32_t mode;
    _Atomic uint32_t enter_list, exit_list; /* offset in programs of a struct area_list; 0: none */
    _Atomic uint32_t rate_left;             /* agent: recorded calls left in this second */
    _Atomic uint64_t rate_second;           /* agent */
    _Atomic uint64_t calls, ticks;          /* AREA_COUNT, but for those in struct area_count; else calls whose records
                                               were overwritten or not written */
    _Atomic uint64_t thinned;               /* calls not recorded because of the rate, or of AREA_TALLY; with a bit: */
    _Atomic uint32_t born;                  /* one more than area.closes when it was made; 0: not known yet */
    _Atomic uint32_t closed;                /* the closing that made it AREA_CLOSED, or AREA_CLOSED_...; 0: none */
};
#define AREA_AT_LEAST (UINT64_C(1) << 63) /* it was quiet: others were not even counted */
/* For a recorded function: the record of this call will not be read. */
static inline void area_call_unkept(struct area_slot *slot)
{
    if (!(atomic_load_explicit(&slot->mode, memory_order_relaxed) & AREA_COUNT))
        atomic_fetch_add_explicit(&slot->calls, 1, memory_order_relaxed);
}

/* In place of the number of a closing: the monitor found the library closed, and calls meanwhile may belong to the one
 * or the other library. */
#define AREA_CLOSED_UNSURE UINT32_MAX
#define AREA_CLOSED_SEEN (UINT32_MAX - 1)
_Static_assert(sizeof(struct area_slot) == 64, "a slot is a cache line");

/* ---- places: where functions are called from ---- */

/* The agent makes a place at the first recorded call from there, and never removes it. `callsite` is set first, by
 * compare-and-exchange, and `hook` last: a reader that finds both has the rest. Two threads that make the same place at
 * once may get one each. */
struct area_place {
    _Atomic uint64_t callsite; /* return address into the caller; with AREA_CLOSED: a library it was in is gone */
    _Atomic uint64_t hook;     /* return address of the entry hook: of inlined functions it says where they are */
    _Atomic uint32_t slot;     /* index */
    _Atomic uint32_t born;     /* as in a slot */
    _Atomic uint32_t closed;
    uint32_t reserved;
};
_Static_assert(sizeof(struct area_place) == 32, "hooks shift by 5");

/* ---- sites ---- */

/* One byte before the return address of an inlined function's entry hook is its caller, in the same frame. */
struct area_site {
    _Atomic uint64_t address; /* hook's return address, or the call's return address in the caller; 0: free */
    _Atomic uint32_t values;  /* offset in programs of a struct area_program: what to record; 0: none */
    _Atomic uint32_t layout;  /* how that is laid out: id in the trace (symbols/layout/layout.h) */
    _Atomic uint32_t params;  /* offset of a program that emits numbers for action lists; 0: none */
    _Atomic uint32_t unwind;  /* at entry sites: program that emits the caller's 17 registers; 0: none */
};

struct area_program { /* in `programs`, 8-byte aligned */
    uint32_t size;    /* of code, bytes */
    uint32_t reserved;
    uint8_t code[]; /* shm/capture.h */
};

/* ---- action lists of events ct_function_called and ct_function_returned ---- */

struct area_action {
    uint32_t csr;   /* its serial: named when raised */
    uint32_t raise; /* 1: hold the thread and hand over to the monitor; 0: run program */
    _Atomic uint32_t enabled;
    uint32_t program_at; /* offset of a struct code_program in `programs` (its count of insns only); 0: none. With
                            raise: a filter that has to pass */
};

struct area_list { /* in `programs` */
    uint32_t count;
    uint32_t reserved;
    struct area_action actions[];
};

/* ---- patches: jumps to hooks, in functions that were compiled without ---- */

struct area_patch {
    uint64_t at;       /* address in the process */
    uint8_t before[8]; /* the first AREA_JUMP bytes: what is there, or else it is left alone; */
    uint8_t after[8];  /* and the jump to its stub */
};
enum { AREA_JUMP = 5 };

/* Of one module, in `programs`. The agent applies all of them when main is let go. Behind the items: the code of the stubs, the
 * first 8 bytes of which become the address of the agent's hook. */
struct area_patches {
    uint64_t next;       /* offset of another; 0: none */
    uint64_t stubs;      /* address, where nothing is mapped yet */
    uint32_t stubs_size; /* of what is to be mapped: whole pages */
    uint32_t code_size;  /* of the stubs */
    uint32_t count, reserved;
    struct area_patch items[]; /* by address */
};

enum area_patching { /* how that went */
                     AREA_PATCHED_NOT,
                     AREA_PATCHED,
                     AREA_PATCHED_SOME,  /* some functions were not as they are in the file */
                     AREA_PATCH_REFUSED, /* the kernel lets no code be changed, */
                     AREA_PATCH_NO_ROOM, /* or no memory be had near it */
                     AREA_PATCH_THREADS, /* there was more than one thread */
                     AREA_PATCH_DEBUGGER, /* a debugger had started it, whose breakpoints may be in the midst of a jump, */
                     AREA_PATCH_SHADOW, /* return addresses are guarded by the processor's shadow stack */
};

/* ---- threads ---- */

enum area_thread_state { AREA_THREAD_FREE, AREA_THREAD_LIVE, AREA_THREAD_ENDED /* monitor: drain, then free */ };
enum area_hold { AREA_HOLD_NONE, AREA_HOLD_POSTED, AREA_HOLD_RELEASED };

/* An event handed to the monitor; the thread waits on hold until it is released. */
struct area_raise {
    _Atomic uint32_t hold; /* enum area_hold; a futex */
    uint32_t exit;         /* 0: called, 1: returned */
    uint32_t slot;         /* index */
    uint32_t depth;
    uint64_t time, entry_time;      /* ticks */
    uint64_t site, callsite, frame; /* hook's return address, return address into the caller, stack address */
    uint32_t csr;                   /* the first that wants it; the monitor matches all */
    uint32_t layout, values_size;
    uint32_t param_count;
    int64_t params[CODE_PARAMS];
    uint8_t param_types[CODE_PARAMS]; /* enum code_type */
    uint8_t values[AREA_RAISE_VALUES];
};

struct area_thread { /* the first page of AREA_THREAD_SIZE, so that threads share no cache line */
    /* What hooks look at, in one cache line; and none of it 4096 bytes from what they write to a frame. */
    _Atomic uint32_t state;
    uint32_t tid;
    /* The write position, as an offset from the start of the file; [packet head .. cursor) is reserved. pending != 0: a
     * hook is writing, and from there on records may be unfinished: read up to min(cursor, pending). Only the thread
     * itself writes these. */
    _Atomic uint64_t cursor;
    _Atomic uint64_t pending;
    _Atomic uint64_t end;       /* of its packet; 0: has none */
    _Atomic uint32_t packet;    /* index; UINT32_MAX: none */
    uint32_t stack_id;          /* which stack it runs on, see RECORD_STACK */
    _Atomic uint64_t last_time; /* ticks of the last record */
    _Atomic uint32_t depth;     /* frames on its shadow stack */
    uint32_t serial;            /* its packets' thread_serial */
    _Atomic uint64_t frames;    /* address in the process of its shadow stack, struct agent_frame[] */

    _Atomic uint64_t discarded;  /* cumulative: records that found no room */
    _Atomic uint64_t lost_exits; /* of these, exits; reported by RECORD_LOST when there is room */
    _Atomic uint64_t events;     /* records written */
    _Atomic uint64_t faults;     /* bad addresses found while values were read */
    char name[AREA_NAME_SIZE];   /* as in /proc/PID/task/TID/comm when it was first seen */
    /* for the next monitor: ticks up to which its records are on disk, number of discarded records reported */
    uint64_t written_to, written_discarded;
    struct area_raise raise;
    _Atomic uint64_t values_ticks; /* time of reading values, by samples */
    _Atomic uint32_t own_depth;    /* frames on the thread's own stack while it runs on another one */
};
_Static_assert(sizeof(struct area_thread) <= AREA_PAGE, "a thread block is a page");

/* Calls of a function that one thread has counted, as of AREA_COUNT: so that no thread waits for another's cache line.
 * They add to those in the slot. A function has one of two places, if these were not others' first; else its slot
 * counts. The thread alone writes them; when it has ended, the monitor moves them to the slots (area_counts_move). */
struct area_count {
    _Atomic uint32_t slot; /* index + 1; 0: free */
    uint32_t reserved;
    _Atomic uint64_t calls, ticks, thinned;
};
_Static_assert(sizeof(struct area_count) * AREA_COUNTS == AREA_PAGE, "a page, and hooks shift by 5");

enum agent_frame_flag {
    FRAME_RECORDED = 1, /* its entry was recorded; alone: the exit can take the short way */
    FRAME_WAITING = 2,  /* its entry is recorded when it turns out long enough */
    FRAME_COUNT = 4,    /* count it at the exit */
    FRAME_VALUES = 8,   /* record values at its exit */
    FRAME_ENDED = 32,   /* the lowest of those being removed */
    FRAME_DROPPED = 16, /* its entry found no room: its exit counts as discarded, too */
    FRAME_WAITED = 64,  /* and this after a wait that ran out */
};

/* One open call, in the process's own memory; the monitor reads it from there for snapshots. The outermost AREA_FRAMES
 * of a thread's own stack are in the second page of its block, after an empty one: so the monitor has them if the
 * process is killed. */
struct agent_frame {
    uint64_t function;
    uint64_t callsite; /* return address into the caller */
    uint64_t site;     /* return address of the entry hook */
    uint64_t sp;       /* at the entry hook */
    uint64_t time;     /* ticks at entry */
    uint32_t slot;     /* index */
    uint32_t flags;    /* enum agent_frame_flag */
    uint64_t packet_seq;
    uint64_t values_at; /* agent's own: values that wait for --min-time */
};
_Static_assert(sizeof(struct agent_frame) * (AREA_FRAMES + 1) == AREA_PAGE, "frames fill a page");

/* ---- packets ---- */

enum area_packet_state { /* low 8 bits of a packet's word; above them the order in which packets were filled */
                         AREA_PACKET_FREE,
                         AREA_PACKET_TAKEN,  /* a thread writes it */
                         AREA_PACKET_FULL,   /* may be written out; in flight mode also reused, oldest first */
                         AREA_PACKET_READ,   /* the monitor writes it out */
                         AREA_PACKET_UNMADE, /* it has no memory: writing to it could be a fault */
                         AREA_PACKET_MAKING, /* a thread is about to have memory for it: nobody reads it */
};

enum area_thin {
    AREA_THIN_NOT,
    AREA_THIN_TALLY, /* a function whose records cost more than they tell is only tallied from then on, */
    AREA_THIN_QUIET, /* and not even that any more if that, too, costs as much as the function: AREA_QUIET */
};
enum area_policy { AREA_DROP, AREA_WAIT, AREA_FLIGHT };
enum area_agent_state { AREA_STARTING, AREA_RUNNING, AREA_OFF /* fault of its own: see fault */, AREA_EXITED };
enum area_reader { AREA_READ_DIRECT, AREA_READ_SYSCALL, AREA_READ_VICTIM }; /* how doubtful memory is read */

/* Noted at a fatal signal before it is passed on. */
struct area_crash {
    _Atomic uint32_t valid; /* set last */
    int32_t signal, code;
    int32_t tid;
    uint64_t address, time;
    uint64_t regs[18]; /* gregs by DWARF numbers 0-16 (16 = rip), 17 = flags */
    uint32_t depth;    /* return addresses by frame pointers or the shadow stack, innermost first */
    uint32_t reserved;
    uint64_t stack[64];
};

struct area {
    uint32_t magic, version;
    /* geometry: set by the monitor before the agent sees the area, never changed */
    uint32_t header_size, slot_count, site_count, thread_count, packet_size, packet_count;
    uint64_t filter_at, slots_at, places_at, sites_at, programs_at, programs_size, threads_at, states_at, packets_at,
        size;
    uint64_t serial; /* of the area, unique in the life of the runtime directory */
    int32_t pid;
    uint32_t bell; /* the doorbell's id: a monitor after a removal of the runtime directory has another one */

    /* ---- the monitor's switches ---- */
    _Alignas(64) _Atomic uint32_t go; /* futex: main is held until it is not 0 */
    _Atomic uint32_t on;              /* 0: nothing is recorded, counted or run */
    _Atomic uint32_t unknown_mode;    /* of functions that have no slot when first called, in the ranges; 0: ignore */
    _Atomic uint32_t policy, reader;
    _Atomic uint32_t max_depth; /* of recorded calls inside each other; 0: no limit */
    _Atomic uint32_t rate;      /* recorded calls a second of a function that is AREA_RATED */
    _Atomic uint32_t wait_us;   /* AREA_WAIT: how long a thread waits for room, if a monitor can make some */
    _Atomic uint64_t min_ticks; /* calls shorter than this leave no record */
    _Atomic uint64_t programs_used;
    _Atomic uint64_t ticks_per_second;       /* of the time stamp counter, as calibrated */
    _Atomic uint32_t selection;              /* grows with every change of the selection that was completed */
    _Atomic uint32_t freed;                  /* futex: grows when packets became free (AREA_WAIT) */
    _Atomic uint32_t range_count;            /* 0: unknown_mode holds everywhere */
    _Atomic uint64_t ranges[AREA_RANGES][2]; /* from, to (exclusive): addresses of functions */
    _Atomic uint32_t messages;               /* 1: messages of MPI are recorded (RECORD_MESSAGE) */
    _Atomic uint32_t thin;                   /* enum area_thin */
    _Atomic uint32_t forks_thin;             /* 1: children of fork that come in quick succession are not traced */
    _Atomic uint64_t patches;                /* offset in programs of a struct area_patches; 0: none. Set before `go` */
    _Atomic uint32_t promised; /* the program itself may have memory for packets below this index, if none is free */

    /* ---- the agent's side ---- */
    _Alignas(64) _Atomic uint32_t agent_state;
    _Atomic uint32_t modules;      /* grows with dlopen and dlclose; the monitor looks again */
    _Atomic uint32_t modules_seen; /* monitor: up to where it has looked; dlopen waits for it a little; futex */
    _Atomic uint32_t holding;      /* 1 while main is held */
    _Atomic uint64_t packet_order; /* takes a number for each packet that was filled */
    _Atomic uint32_t full_packets; /* roughly */
    _Atomic uint32_t raised;       /* grows with each raised event */
    _Atomic uint64_t functions_omitted, threads_omitted, too_deep; /* calls, threads, calls */
    _Atomic uint64_t unplaced; /* calls on too small stacks for signals, of threads that have nothing of it yet */
    _Atomic uint64_t flight_overwritten;         /* packets */
    _Atomic uint64_t flight_overwritten_records; /* entries and exits in them */
    _Atomic uint64_t waits_ran_out; /* AREA_WAIT: no room came within wait_us, or there is no monitor; after a few in a
                                       row nobody waits until packets are freed */
    _Atomic uint64_t waits_dropped; /* records discarded because of these */
    _Atomic uint32_t tallies;       /* functions that are AREA_TALLY, or were */
    _Atomic uint32_t mpi; /* 1: MPI calls are reported; set before `modules` grows: then they get their slots */
    /* Closed libraries that called the hooks: their number, where the last ones lay (by their numbers, from 1), and the
     * calls of dlclose in progress, in which libraries may be gone that are not reported yet. */
    _Atomic uint32_t closes, closing;
    _Atomic uint64_t closings[AREA_CLOSINGS][2]; /* from, to (exclusive) */
    char fault[200];                             /* why the agent switched itself off, or another message */
    struct area_crash crash;
    _Atomic uint32_t patching;     /* enum area_patching */
    _Atomic uint64_t exits_unseen; /* calls of patched functions whose end was not seen: too many were open */
    _Atomic uint64_t left;         /* ticks when it began to exit, or to execute another program; 0: not yet */
    _Atomic uint32_t forked;       /* 1: it has, so that others may have its struct area_forks */

    /* ---- the monitor's notes for its successor, should it be killed: what is on disk ---- */
    uint64_t written_bytes, written_events; /* in the trace that it writes now */
    uint64_t writing_bytes, writing_events; /* the same when the current packet is written */
    uint64_t skipped_events;                /* of packets that were not written, in all traces of this area */
    uint64_t next_layout;                   /* ids of layouts in sites and records are below */
};
_Static_assert(sizeof(struct area) <= AREA_PAGE, "the header is a page");

/* ---- children of fork ---- */

/* A page that a program's first process maps, and that all its descendants by fork keep (those that execute another program do
 * not): what they have in common, and what those of them say that have no area. For that, no system call, descriptor or right is
 * needed. The monitor takes from it what can be any numbers. */
struct area_forks {
    _Atomic uint64_t paid_ms; /* the time up to which traced children have used up what all may have */
    _Atomic uint32_t
        left_alone; /* children that called a traced function and were not traced: forks_thin; with a bit: */
    _Atomic uint32_t unreached; /* that were not traced since they could not reach the monitor */
};
#define AREA_FORKS_CLOSED (UINT32_C(1) << 31) /* the monitor: nobody reads this any more */

/* ---- the doorbell: one file for all agents of a monitor ---- */

struct doorbell {
    uint32_t magic, version;
    _Atomic uint32_t rung;     /* futex: grows */
    _Atomic uint32_t sleeping; /* the monitor waits: only then a wake-up is needed */
    _Atomic int32_t monitor_pid;
    uint32_t id;                          /* never 0 */
    _Atomic uint64_t monitor_start_ticks; /* held threads release themselves when this process is gone */
};

static inline void area_ring(struct doorbell *bell)
{
    atomic_fetch_add_explicit(&bell->rung, 1, memory_order_release);
    if (atomic_load_explicit(&bell->sleeping, memory_order_seq_cst))
        syscall(SYS_futex, &bell->rung, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* ---- looking things up ---- */

#define AREA_FILTER_FACTOR UINT32_C(0x9e3779b1)
static inline uint32_t area_filter_index(uint64_t function)
{
    return (uint32_t)function * AREA_FILTER_FACTOR >> 16;
}

static inline uint32_t area_hash(uint64_t address)
{
    return (uint32_t)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
}

/* The address of a slot's function; 0: it has none. */
static inline uint64_t area_slot_address(const struct area_slot *slot)
{
    return atomic_load_explicit(&slot->function, memory_order_acquire) & ~AREA_CLOSED;
}

/* The same; 0 if its library was closed. */
static inline uint64_t area_slot_live(const struct area_slot *slot)
{
    uint64_t function = atomic_load_explicit(&slot->function, memory_order_acquire);
    return function & AREA_CLOSED ? 0 : function;
}

/* What one side works with: pointers and limits, read once and checked (area_check). */
struct area_view {
    struct area *area;
    uint8_t *base;
    struct area_forks *forks;
    uint8_t *filter;
    struct area_slot *slots;
    struct area_place *places;
    struct area_site *sites;
    uint8_t *programs;
    uint8_t *threads; /* AREA_THREAD_SIZE each */
    _Atomic uint64_t *states;
    uint32_t slot_mask, place_mask, place_end, site_mask, thread_count, packet_size, packet_count;
    uint64_t programs_size, packets_at, size;
}; /* places have indexes below place_end, which is more than place_mask + 1 */

/* The geometry for a buffer of `buffer_bytes` (rounded down to whole packets, at least AREA_BUFFER_MIN), `slots`
 * functions, and as many places and sites (a power of two, 1024 .. AREA_SLOTS) and `threads` (1 .. AREA_THREADS); the
 * header of an area of that size. Returns the size of the file. */
uint64_t area_plan(struct area *ret_header, uint64_t buffer_bytes, uint32_t slots, uint32_t threads);
/* The same for a program with little address space: everything together in about `most` bytes, at least
 * AREA_SMALLEST. */
uint64_t area_plan_within(struct area *ret_header, uint64_t most);
/* Reads the geometry of a mapped area of `size` bytes. false: no area, another version, or its geometry does not fit.
 */
bool area_take(struct area_view *ret_view, void *base, uint64_t size);

/* The slot of a function, or NULL. With `insert`, a new one (mode 0) if there is none; NULL: no room. */
struct area_slot *area_slot_find(const struct area_view *view, uint64_t function, bool insert);
/* The place from which the function of a slot is called; made if new. NULL: no room. */
struct area_place *area_place_find(const struct area_view *view, uint64_t callsite, uint64_t hook, uint32_t slot);
struct area_site *area_site_find(const struct area_view *view, uint64_t address, bool insert);

/* The slot that an entry's first word stands for (shm/record.h); UINT32_MAX: none. */
uint32_t area_entry_slot(const struct area_view *view, uint32_t word);

static inline struct area_thread *area_thread_at(const struct area_view *view, uint32_t index)
{
    return (struct area_thread *)(void *)(view->threads + (uint64_t)index * AREA_THREAD_SIZE);
}

/* Its open calls, at most AREA_FRAMES. Their number is `depth`, or `own_depth` while stack_id is not 0. */
static inline struct agent_frame *area_frames_of(const struct area_thread *block)
{
    return (struct agent_frame *)(uintptr_t)((const uint8_t *)block + AREA_PAGE) + 1;
}

/* The third page: AREA_COUNTS of them. */
static inline struct area_count *area_counts_of(const struct area_thread *block)
{
    return (struct area_count *)(uintptr_t)((const uint8_t *)block + 2 * (size_t)AREA_PAGE);
}

struct area_calls {
    uint64_t calls, ticks, thinned;
    bool at_least; /* thinned is */
};
/* For the monitor: what the slots and the first `threads` blocks have counted, by slot. */
void area_counts_sum(const struct area_view *view, uint32_t threads, struct area_calls *ret_sums);
/* Adds what an ended thread has counted to the slots, and wipes it. */
void area_counts_move(const struct area_view *view, struct area_thread *block);

/*
 * What a process reports about itself when its program begins, so that even the shortest processes are known. The agent
 * writes one such note to the fifo beside the agent socket (agent/hooks/start.c), and the monitor reads it
 * (monitor/recorder/agent_hello.c). A write of at most PIPE_BUF bytes is in the fifo completely or not at all,
 * whoever else writes. Without room, or without a reader, nobody waits.
 */

#define COMMAND_MAGIC UINT32_C(0x444d4373) /* "sCMD" */
#define COMMAND_FIFO "commands"

enum { COMMAND_CUT = 1 }; /* flags: there are more arguments, or more of the last */

struct command_note {
    uint32_t magic;
    uint16_t size, flags; /* size: of all of it */
    int32_t pid;
    uint32_t directory; /* bytes of texts that are the working directory, with its end; the first */
    uint64_t time_ns;   /* CLOCK_MONOTONIC */
    char texts[];       /* NUL-terminated: the directory ("": not known), the arguments; what is cut has no end */
};

enum { COMMAND_TEXTS = PIPE_BUF - sizeof(struct command_note) };

/*
 * What the monitor passes to the agent's library when it loads it into a running process (tracer_load): the argument of
 * scry_agent_late, and its result. Both come from one build; magic and version protect against mixtures.
 */

enum { LATE_MAGIC = 0x6574616c, LATE_VERSION = 1, LATE_DIR = 4096 };
#define LATE_FUNCTION "scry_agent_late"

struct late_start {
    uint32_t magic, version;
    char socket[108];       /* of the monitor, for agents */
    char mpi_dir[LATE_DIR]; /* where the interposers lie; "": beside the agent */
};

/* The result. */
enum late_result {
    LATE_DONE,      /* calls of MPI are caught from here on, or already were */
    LATE_OTHER,     /* another version of the library, or it was switched off here before */
    LATE_NO_MPI,    /* no MPI library that is known is in the process */
    LATE_NOT_TAKEN, /* the interposer is not there for this library, has no room, or the monitor did not take it */
};

#endif
