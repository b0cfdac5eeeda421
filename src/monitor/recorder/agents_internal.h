/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the agents' side of the monitor share: the structs of jobs, of agents and of the registry, and what
 * one file has for the others. Files (agent_files.h), names (agent_names.h), what is recorded (agent_select.h) and its
 * way to disk (collect.h) have headers of their own.
 */
#ifndef SCRY_MONITOR_RECORDER_AGENTS_INTERNAL_H
#define SCRY_MONITOR_RECORDER_AGENTS_INTERNAL_H

#include <pthread.h>
#include <uthash.h>

#include "base/system/loop.h"
#include "base/system/memory_dir.h"
#include "jobdir/trace/write.h"
#include "monitor/recorder/agent_files.h"
#include "monitor/recorder/agent_names.h"
#include "monitor/recorder/agent_select.h"
#include "monitor/recorder/agents.h"
#include "monitor/recorder/collect.h"
#include "shm/record.h"
#include "shm/waits.h"
#include "symbols/client/client.h"

enum {
    COLLECT_BUDGET = 4 << 20, /* bytes of packets written before other work has its turn */
    THREADS_RESERVED = 64,    /* blocks of threads that surely have memory at first */
    AGENT_LIMIT = 16384,      /* traced processes at once */
    CONNECTION_LIMIT = 4096,  /* that have not said hello yet; */
    CONNECTION_SHARE = 4,     /* and at most a fourth of the open files */
    RULE_NOTES = 64,          /* demands of a job that are remembered until they are met */
    NOTED_LIMIT = 16,         /* programs of a job without hooks that are remembered by name */
    PROBLEM_SIZE = 512,
    BRIEF_PROGRAMS = 64,
    MODE_OWN = 0xff, /* in agent.modes: as the program has it */
};

/* ---- jobs ---- */

/* Children of fork that called a traced function; see struct area_forks. */
struct forks_counts {
    uint64_t left_alone, unreached;
};

struct trace_job {
    char *dir;
    char *home; /* of a part of a job: the job's directory, that programs may name instead; NULL: it is no part */
    struct trace_settings settings;
    struct job_place {
        uint64_t device, inode;
        int64_t born_ns; /* wall time; 0: the file system does not say, or it is not known */
    } place;
    bool ended;                           /* nobody follows it any more; goes with its last agent */
    bool replaced;                        /* its directory was removed, and another made of that name */
    bool replaces;                        /* this is the other one */
    bool limited;                         /* max_bytes is reached, or the disk is full */
    unsigned agents;                      /* living and draining ones */
    uint64_t bytes_before;                /* of traces that were there before */
    uint64_t events, discarded;           /* of agents that are gone */
    uint64_t written;                     /* bytes of packets, of all */
    struct job_disk {                     /* as it was when last read (collect_trace.c) */
        uint64_t looked_ns, looked_bytes; /* when, and how much the job had */
        uint64_t step;                    /* so much may be written until it is read again */
        uint64_t last;                    /* so much when the job is limited */
        bool full;                        /* the job is limited for want of room: */
        bool roomy;                       /* there is enough of it again, */
        uint64_t rest_until_ns;           /* and it goes on, but not before that */
        unsigned rests;                   /* how often it was full */
        int reserve;                      /* a file without a name that keeps room for names; -1: none */
    } disk;
    struct noted_program { /* that calls none of our hooks */
        char *exe;
        bool looked;
        enum noted_why why;
    } noted[NOTED_LIMIT];
    size_t noted_count;
    bool hooked;                    /* some process had them */
    uint32_t brief[BRIEF_PROGRAMS]; /* agent_area.c */
    struct rule_note {
        uint32_t serial;     /* of a demand */
        bool met;            /* in some process */
        enum note_kind kind; /* what is wrong in some process; NOTE_NONE: nothing */
        char function[65], reason[160];
    } rule_notes[RULE_NOTES];
    unsigned rule_note_count;
    bool unreachable;     /* the socket that its programs know was not there for a while */
    unsigned mpi_no_room; /* processes whose calls of MPI are not counted, for a limit of address space; */
    uint64_t mpi_room;    /* what that leaves the first */
    unsigned constructed; /* libraries whose constructors ran too early to be traced */
    unsigned late;        /* processes that went on untraced because the monitor did not answer in time */
    struct refused_process
        *refused_list;         /* those that could not be traced for another reason, each once however often */
    unsigned refused;          /* it asked, up to REFUSED_LIMIT */
    struct forks_counts forks; /* of areas that are gone, but for pages that are kept */
    char refused_why[PROBLEM_SIZE - 64]; /* of the first */
    struct kept_note problem;            /* the first one is the cause of the others */
    struct kept_note unmatched;          /* worth a word if nothing was recorded at all */
    UT_hash_handle hh;
};

/* ---- agents ---- */

enum { REFUSED_LIMIT = 1 << 16 };
struct refused_process {
    struct {
        uint64_t start_ticks;
        int64_t pid;
    } key;
    UT_hash_handle hh;
};

struct demand; /* agent_demand.c */
struct slot_params;
struct compile_run; /* agent_compile.c */
struct compiled_set;
struct helper_job;

struct mpi_process; /* monitor/mpi */

struct agent { /* an entry of the registry: from its first hello until a process ends or executes another program */
    struct agents *agents;
    struct trace_job *job; /* NULL: of no job, nothing is recorded */
    struct agent *next, *previous;
    UT_hash_handle hh; /* living ones, by pid */
    pid_t pid, ppid;
    uint64_t start_ticks;
    uint64_t image; /* as its hellos have it */
    char *exe;
    int pidfd;
    struct loop_source *exit_source;
    struct area_file files[AREA_KINDS];
    struct mpi_process *mpi; /* NULL: has no MPI part */
    struct agent_rank {
        uint32_t library;        /* enum mpi_library; 0: not known */
        int32_t incarnation;     /* N of its files of statistics; -1: not chosen yet */
        int32_t hint, hint_size; /* as the launcher said; -1: did not */
    } rank;
    bool ended, adopted, announced, orphans_taken;
    bool gone;       /* of one that has ended: its program is over, so that nobody writes to its area */
    bool drained;    /* of one that has ended: its functions are on disk and freed */
    bool as_left;    /* by the monitor before this one: nothing is changed until somebody says what is wanted */
    bool forked;     /* from a traced process */
    bool starting;   /* its buffer is as small as can be yet */
    bool opens_late; /* a child of fork: its trace is made after it was let go */
    uint64_t room;   /* of address space that the area may take */
    uint64_t ended_ns, ended_ticks; /* when that was seen; ticks 0: it was over before this monitor began */

    struct area_view view;     /* view.area NULL: its functions are not traced */
    uint32_t released;         /* packets that are the program's to use, */
    uint32_t made;             /* and of these, those that have memory; it may have some for the others itself */
    uint32_t threads_reserved; /* blocks that have memory */
    bool grow_failed;

    struct trace_writer *writer;     /* NULL: nothing is recorded */
    struct agent_switches *switches; /* NULL: when it had a processor is not recorded */
    struct profile *profile;
    struct collect_thread *threads;
    uint64_t *known; /* bit set of slots, behind them places, that are in the trace, */
    uint64_t *named; /* and of those that have a name, not only their address, or a module */
    uint64_t events, discarded, damaged;
    uint64_t skipped; /* entries and exits of packets that did not fit below the limit */
    uint64_t overwritten_seen, overwritten_events_seen; /* by the flight recorder: of which thread is known */
    uint64_t partial_ns, synced_ns, opened_ns;
    bool bare_told;                        /* that functions have no values because of -g1 */
    bool counts;                           /* some function is only counted */
    struct area_calls *open_counted;       /* of those, when it ended */
    bool rated;                            /* there was a --rate: calls may be missing */
    bool more;                             /* packets were left for the next turn */
    uint64_t longest_min_ns, least_min_ns; /* shorter calls may be missing, all the time; 0: none */
    bool switched;                         /* least_min_ns is known */
    unsigned least_max_depth;              /* deeper calls may be missing; 0: none */
    struct kept_note problem, unmatched;   /* the latter by the selection in force */

    struct module *modules;
    struct shared_index **indexes; /* of the modules */
    size_t module_count;
    uint32_t *modules_seen;           /* of each, how many libraries had been closed when it was surely there */
    struct unloaded_module *unloaded; /* the last ones that were unloaded, the oldest first */
    size_t unloaded_count;
    struct unloaded_sites *unloaded_sites; /* what was captured in them */
    uint32_t modules_looked;               /* the program's count of changes that this is of */
    bool unnamed;                          /* functions got a number for a name because an index was missing */

    uint8_t *modes; /* of slots, as the settings want them */
    bool selected, selection_waits;
    bool applies_soon;          /* in the next turn: it gets its area before its selection is looked for */
    struct selection_override { /* agent_select; the later ones win */
        struct selection *selection;
        uint32_t mode;
        struct selection_override *next;
    } * overrides;
    struct loop_source *hold_timer;
    struct compile_run *compile_run;
    bool compile_failed; /* of the runs that followed each other */
    uint64_t *compiled;  /* bit set of slots whose captures are in place or could not be compiled */
    uint32_t next_layout;
    struct agent_layout_text *layouts;
    uint32_t layouts_noted; /* so many are LAYOUT_NOTED */
    uint64_t *layouts_seen; /* bit set of those that records have; up to next_layout when it was made: */
    uint32_t layouts_seen_end;
    unsigned layouts_turns;           /* how often the metadata were written for some */
    bool layouts_new;                 /* some are in use that are not on disk yet */
    bool mpi_captured, mpi_waits;     /* agent_mpi.c: of all calls; for a compilation to be over */
    bool mpi_described;               /* its rank is in its trace */
    bool limited;                     /* its trace cannot grow any more */
    bool only_mpi;                    /* it said hello for MPI alone, without hooks */
    bool layouts_lost;                /* records may have some that only a monitor before this one knew */
    uint64_t held[AREA_THREADS / 64]; /* bit set of blocks whose raised event is being handled */
    struct demand *demands;           /* in the order in which they came */
    bool demands_stale;               /* libraries came or went, and they are not resolved anew yet */
    struct slot_params *slot_params;  /* hash by slot */
};

struct agent_connection {
    struct agents *agents;
    int fd;
    struct loop_source *source;
    bool heard; /* it is being answered */
    struct agent_connection *next, *previous;
};

struct agents {
    struct monitor *monitor;
    const struct agents_mpi *mpi;
    char *runtime;
    char *rings;              /* where the doorbell and the areas are */
    char *spill;              /* a folder on disk for areas if there is no room in memory; NULL: there is none */
    struct memory_dir memory; /* that is rings */
    char socket_path[128];
    int listen_fd, listen_file; /* listen_file: to know it again at its path */
    struct loop_source *listen_source;
    struct agent_connection *connections;
    unsigned connection_count;
    struct command_reader *commands; /* NULL: processes are not heard */
    struct trace_job *jobs;
    struct agent *by_pid, *list;
    unsigned count;
    uint64_t last_serial;
    struct forks_page *forks; /* agent_area.c */
    unsigned forks_count;

    /* the doorbell and the thread that waits at it */
    struct doorbell *bell;
    int bell_fd, ring_fd;
    struct loop_source *ring_source;
    pthread_t ringer;
    bool ringer_runs;
    uint32_t rung_before; /* the doorbell, when it was opened: the ringer starts from there, however late it starts */
    _Atomic bool ringer_stop;
    _Atomic uint32_t acknowledged, ringer_over;

    struct loop_source *timer, *deferred;
    struct loop_source *start_timer; /* agent_area.c */
    uint64_t timer_ns;
    uint64_t faults;     /* map_guard_faults(), those whose process was identified */
    unsigned collecting; /* depth: no agent is freed in that time */

    /* the time stamp counter */
    uint64_t first_ticks, first_ns, ticks_per_second, event_ticks;

    /* what buffers may have: as it was found at memory_ns, less what was taken since; and all that was taken */
    uint64_t memory_ns, memory_limit, memory_left, memory_taken, memory_promised;
    char *groups; /* our control groups, as /proc has them; NULL: not known */

    struct switch_feed *switches; /* agent_switches.c; NULL: none is watched */

    struct shared_index *indexes;
    struct compiled_set *compiled_sets;
    uint64_t set_uses;
    struct helper_job *helpers;
    unsigned helpers_running;
    uint64_t helpers_started, helpers_failed; /* failed: took too long, or said what is no answer */
    bool helper_missing;                      /* scry-symbols is not installed */

    void *scratch; /* of collect.c */

    void (*on_event)(void *ctx, const struct agent_event *event);
    void *event_ctx;
    void (*on_change)(void *ctx, struct agent *agent, bool came);
    void *change_ctx;
    void (*on_ring)(void *ctx);
    void *ring_ctx;
};

/* agents.c */
struct agent *agent_new(struct agents *agents, pid_t pid, const char *job, const char *exe, struct err *err);
struct agent *agents_known(struct agents *agents, pid_t pid); /* a living one, whatever is traced of it; NULL */
void agent_enter(struct agent *agent);                        /* into the registry; one that has ended, too */
/* Its area of functions is there: from here on it is collected. With a parent that it was forked from it is to do what
 * that does. */
void agent_came(struct agent *agent, const struct agent *parent);
/* It runs on without its area of functions; what else is known of it stays. */
void agent_refused(struct agent *agent);
/* All of its functions is on disk, or there never was anything. */
void agent_drained(struct agent *agent);
void agent_mpi_done(struct agent *agent); /* its MPI part was freed: so is the entry, if it has ended */
void agent_open(struct agent *agent);     /* its trace, if that is still to be made */
/* Says so if the program has cut its area. */
void agent_area_check(struct agent *agent);
/* Of an agent or a job, the first problem is kept: it is the cause of the others. */
void agent_set_problem(struct agent *agent, struct note note);
static inline void job_set_problem(struct trace_job *job, struct note note)
{
    if (!job->problem.note.kind)
        note_keep(&job->problem, &note);
}
struct trace_job *job_get(struct agents *agents, const char *dir);
/* The same for what a program names: its job, or the part of it on this node. */
struct trace_job *job_of_program(struct agents *agents, const char *dir);
/* The process was there before the directory, which replaces that of the job it belonged to. */
bool job_is_older(const struct trace_job *job, pid_t pid);
void job_put(struct agents *agents, struct trace_job *job); /* frees it if nobody needs it */
bool agent_drains(const struct agent *agent);               /* it has ended, and not all of it is on disk */
void agent_ended(struct agent *agent);
/* The same of one that is known to be gone: what it said before that is heard first. Perhaps it said why it takes no
 * area. */
void agent_exited(struct agent *agent);
void agent_free(struct agent *agent);

void job_note_program(struct trace_job *job, const char *exe);
void job_note_late(struct trace_job *job); /* a process that was to be traced did not wait any longer; NULL: nothing */
void job_note_refused(struct trace_job *job, pid_t pid, const char *why); /* why: an err.text */

/* agent_hello.c */
int agent_hello_listen(struct agents *agents, struct err *err);
void agent_hello_close(struct agents *agents);
void agent_hello_hear(struct agents *agents);        /* all hellos that have come by now, within a turn's time */
bool agent_hello_waits(const struct agents *agents); /* a hello that was not read yet */

/* agent_switches.c: the time stamp counter, */
void agent_clock_start(struct agents *agents);
void agent_clock_calibrate(struct agents *agents); /* the first time it takes up to 20 ms */
uint64_t agent_clock_zero_ns(const struct agents *agents);
uint64_t agent_clock_ticks(void);
void agent_clock_sample(clockid_t clock, uint64_t *ret_ticks, uint64_t *ret_ns); /* both at the same moment */

/* and when its threads had a processor, beside its trace */
void agent_switches_start(struct agent *agent); /* from now on, unless it is, or cannot be: the trace says why */
void agent_switches_write(struct agent *agent, bool all); /* what there is; it may be put off, unless `all` */
void agent_switches_end(struct agent *agent);
void agents_switches_free(struct agents *agents);

/* agent_bell.c */
void agent_release_all(struct agent *agent); /* whoever waits */
int agent_bell_open(struct agents *agents, struct err *err);
int agent_bell_start(struct agents *agents); /* the thread; only once there is an agent */
void agent_bell_close(struct agents *agents);

/* agent_area.c; parent: that it was forked from, if that is known */
int agent_area_make(struct agent *agent, const struct agent *parent, struct err *err);
int agent_area_adopt(struct agent *agent, uint64_t size); /* of a file that is open */
void agent_area_started(struct agent *agent);             /* it was let go: as much as it should have at first */
void agent_area_learn(const struct agent *agent);         /* it has ended: was it short, and its buffer too large? */
void agent_area_grow(struct agent *agent);                /* more packets, if most are in use; more blocks of threads */
void agent_area_unmap(struct agent *agent);

/* what children of fork say that have none */
enum { FORKS_KEPT = 1024 };                /* pages of areas that are gone */
void agent_forks_end(struct agent *agent); /* before its area is unmapped: what its descendants say is still heard */
struct forks_counts agents_forks_count(const struct agents *agents, const struct trace_job *job);
void agents_forks_free(struct agents *agents, const struct trace_job *job); /* the job is over */

/* agent_helper.c: the program scry-symbols, in the background; few at once, the others wait. The function is called for
 * each answer, and with NULL at the end, after which the job is gone. */
struct helper_job *helper_start(struct agents *agents, const char *what, const char *const *files, size_t file_count,
                                struct buf *input_take, helper_fn *fn, void *ctx);
void helpers_free(struct agents *agents);
unsigned helpers_waiting(const struct agents *agents); /* for their turn */

#endif
