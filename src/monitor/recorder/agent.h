/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the agents' side of the monitor share: the structs of jobs, of agents and of the registry, and what
 * one file has for the others: last those of agent_select.c, agent_names.c and agent_files.c. The way to disk is in collect.h.
 */
#ifndef SCRY_MONITOR_RECORDER_AGENT_H
#define SCRY_MONITOR_RECORDER_AGENT_H

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uthash.h>

#include "base/system/loop.h"
#include "base/system/memory_dir.h"
#include "jobdir/trace/write.h"
#include "monitor/recorder/agents.h"
#include "shm/record.h"
#include "shm/waits.h"
#include "symbols/client/client.h"
#include "symbols/index/index.h"

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
};

/* All that wait at a word that is shared with a process go on. */
static inline void area_wake(void *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

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
    bool hooked;                    /* some process had them, or was patched */
    bool patches;                   /* some process asked to be */
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

struct agent_link;
struct agent_mapped;
struct agent_layouts;
struct agent_selection;
struct agent_compiled;
struct agent_patching;
struct agent_demands;
struct agent_recording;
struct compiled_set;
struct helper_job;
struct shared_index;
struct trace;
struct mpi_process; /* monitor/mpi */

/* What a process shares with us, each in a file of its own (agent_files.c). */
enum area_kind { AREA_FUNCTIONS, AREA_MPI, AREA_KINDS };
struct area_file {
    char *path; /* NULL: there is none, or it stays for the next monitor */
    int fd;     /* -1: there is none */
    uint64_t serial;
    uint64_t memory_taken, memory_promised; /* bytes */
    bool in_memory;                         /* in agents.memory */
};

/* An entry of the registry: from the first hello of a process until it ends or executes another program. What only some
 * files look at is in the parts below. */
struct agent {
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
    struct mpi_process *mpi; /* NULL: has no MPI part */
    struct agent_rank {
        uint32_t library;        /* enum mpi_library; 0: not known */
        int32_t incarnation;     /* N of its files of statistics; -1: not chosen yet */
        int32_t hint, hint_size; /* as the launcher said; -1: did not */
    } rank;
    bool ended, announced;
    bool gone;                      /* of one that has ended: its program is over, so that nobody writes to its area */
    bool drained;                   /* of one that has ended: its functions are on disk and freed */
    bool adopted;                   /* from the monitor before this one: what that has written of it is not known yet */
    bool as_left;                   /* by that one: nothing is changed until somebody says what is wanted */
    bool forked;                    /* from a traced process */
    bool opens_late;                /* a child of fork: its trace is made after it was let go */
    bool only_mpi;                  /* it has no hooks, and none of its functions is patched */
    bool limited;                   /* its trace cannot grow any more */
    bool mpi_captured, mpi_waits;   /* agent_mpi.c: of all calls; for a compilation to be over */
    bool mpi_described;             /* its rank is in its trace */
    uint64_t ended_ns, ended_ticks; /* when that was seen; ticks 0: it was over before this monitor began */
    struct area_file files[AREA_KINDS];
    struct area_view view;            /* view.area NULL: its functions are not traced */
    uint64_t held[AREA_THREADS / 64]; /* agent_bell.c: bit set of blocks whose raised event is being handled */
    struct trace_writer *writer;      /* NULL: nothing is recorded */
    struct kept_note problem;
    struct agent_patching *patching; /* agent_patch.c; NULL: functions without hooks stay as they are */
    struct agent_switches *switches; /* agent_switches.c; NULL: when it had a processor is not recorded */

    /* these there always are */
    struct agent_link *link;           /* agent_area.c: what the program has of its area */
    struct agent_mapped *mapped;       /* agent_names.c: modules and the names in them */
    struct agent_layouts *layouts;     /* agent_layouts.c: how values are laid out */
    struct agent_selection *selection; /* agent_select.c: what is to be recorded */
    struct agent_compiled *compiled;   /* agent_compile.c: captures */
    struct agent_demands *demands;     /* agent_demand.c: what event services ask for */
    struct agent_recording *recording; /* collect.h: what its trace has */
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
/* The job that a program names, or the part of it on this node; made if it is new. NULL: out of memory. */
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

struct job_sums {
    unsigned living, draining;
    uint64_t events, discarded;
};
struct job_sums agents_job_sums(const struct agents *agents, const struct trace_job *job); /* agents.c */

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

/* agent_area.c */
bool agent_link_new(struct agent *agent);
/* parent: that it was forked from, if that is known; room: of address space that it may take */
int agent_area_make(struct agent *agent, const struct agent *parent, uint64_t room, struct err *err);
int agent_area_adopt(struct agent *agent, uint64_t size); /* of a file that is open */
void agent_area_started(struct agent *agent);             /* it was let go: as much as it should have at first */
void agent_area_learn(const struct agent *agent);         /* it has ended: was it short, and its buffer too large? */
void agent_area_grow(struct agent *agent);                /* more packets, if most are in use; more blocks of threads */
void agent_area_unmap(struct agent *agent);
uint32_t agent_packets(const struct agent *agent); /* the first of its area, which the program may have */

/* what children of fork say that have none */
enum { FORKS_KEPT = 1024 };                /* pages of areas that are gone */
void agent_forks_end(struct agent *agent); /* before its area is unmapped: what its descendants say is still heard */
struct forks_counts agents_forks_count(const struct agents *agents, const struct trace_job *job);
void agents_forks_free(struct agents *agents, const struct trace_job *job); /* the job is over */

/* agent_adopt.c */
void agent_note(const struct agent *agent);   /* whose the areas are, for the next monitor; again when that changes */
void agents_adopt_all(struct agents *agents); /* what a monitor before this one has left */

/* agent_names.c */
bool agent_modules_new(struct agent *agent);
int agent_modules_refresh(struct agent *agent);                              /* reads them again, asks for indexes */
bool agent_modules_inherit(struct agent *agent, const struct agent *parent); /* of the process it was forked from */
void agent_modules_free(struct agent *agent);
bool agent_indexes_ready(const struct agent *agent); /* none is being built */
void agents_indexes_free(struct agents *agents);
int agent_names_open(struct agent *agent);            /* for a trace; 0 or -ENOMEM */
bool agent_names_lack(const struct agent *agent);     /* some function has a number for a name */
void agent_names_again(struct agent *agent);          /* indexes came */
void agent_named(struct agent *agent, uint32_t slot); /* it has its name in the trace by now */
/* Writes the name of a slot, or with RECORD_PLACE of a place, into the trace; a walk_function_fn of an agent. */
void agent_name(void *agent, uint32_t function);
/* The same, the first time that it occurs, and with a place also of its slot. */
void agent_know(struct agent *agent, uint32_t slot);
/* Bit set of what has occurred: slots, behind them places. */
uint64_t *agent_known(const struct agent *agent);
static inline uint32_t agent_known_place(const struct area_view *view, uint32_t place)
{
    return view->slot_mask + 1 + (place & ~RECORD_PLACE);
}

/* agent_layouts.c */
bool agent_layouts_new(struct agent *agent);
uint32_t agent_layouts_last(const struct agent *agent); /* the greatest number so far */
bool agent_layouts_unseen(const struct agent *agent); /* records may have some that are not in use yet, or not known */
void agent_layout_add(struct agent *agent, uint32_t id, const char *text);
void agent_layouts_write(struct agent *agent);                              /* to a trace made after them */
void agent_layouts_adopt(struct agent *agent, const struct trace *earlier); /* NULL: it cannot be read */
void agent_layouts_inherit(struct agent *agent, const struct agent *parent);
void agent_layouts_free(struct agent *agent);
/* Layouts of calls that may never come: in the trace from their first use. A new one's number, or RECORD_NO_LAYOUT. */
uint32_t agent_layout_new(struct agent *agent, const char *text);
void agent_layout_keep(struct agent *agent, uint32_t id, const char *text);
void agent_layout_used(struct agent *agent, uint32_t id);
void agent_layouts_walked(struct agent *agent); /* behind a packet: those that came up in it are in the trace */
bool agent_layout_seen(void *ctx, uint32_t id); /* as walk_layout_fn, of an agent */

/* agent_select.c */
bool agent_selection_new(struct agent *agent);
/* The functions that a selection means, which call the hooks or may be patched to. Stops where it returns something other than 0, and
 * returns that. */
typedef int meant_fn(void *ctx, struct agent *agent, size_t module, const struct index_function *function);
int agent_each_meant(struct agent *agent, const struct selection *selection, meant_fn *fn, void *ctx);
void agent_apply(struct agent *agent); /* settings to switches and slots; lets it go as soon as that can be */
bool agent_applies_long(
    const struct agent *agent);          /* so many functions have to be compared that an answer goes first */
void agent_indexed(struct agent *agent); /* an index that it waited for is there, or failed */
bool agent_inherit(struct agent *agent, const struct agent *parent); /* the parent's choice, as it is in place */
/* Whether something is to be recorded: an agent may be there only for what is done at calls of MPI. */
bool agent_records(const struct agent *agent);
void agent_go(struct agent *agent);
void agent_forks_update(struct agent *agent); /* after a change of what is demanded */
void agent_settle(struct agent *agent);       /* lets main go on if everything is in place */
void agent_filter_update(struct agent *agent);
bool agent_modes_new(struct agent *agent);
bool agent_records_values(const struct agent *agent, uint32_t slot); /* its calls are recorded with values */
void agent_mode_update(struct agent *agent, uint32_t slot);          /* settings and demands of one slot */
void agent_modules_changed(struct agent *agent);                     /* dlopen */
void agent_overrides_free(struct agent *agent);
void agent_select_free(struct agent *agent);

/* agent_compile.c */
enum { COMPILED_PROBLEMS = 32, COMPILED_EXPRESSION = 64 };
/* An expression is no number at entries or exits of some function, and never will be there. */
struct compiled_problem {
    char expression[COMPILED_EXPRESSION]; /* cut where it is longer */
    bool at_exit;
    struct number_problem problem;
};

bool agent_compiled_new(struct agent *agent);
/* Captures of the slots whose modes want values and that have none yet, in the background. */
void agent_compile(struct agent *agent);
bool agent_compiling(const struct agent *agent);
void agent_compile_again(struct agent *agent);                                  /* the settings of values changed */
bool agent_compiled_inherit(struct agent *agent, const struct agent *parent);   /* programs, sites and layouts */
uint32_t agent_capture_put(struct agent *agent, const void *code, size_t size); /* offset of it with its size; 0 */
bool agent_site_set(struct agent *agent, uint64_t address, uint32_t program, uint32_t layout);
/* Both at once: a thread must never take the bytes of one program for those of another. */
void agent_site_values(struct area_site *site, uint32_t values, uint32_t layout);
void agent_site_clear(struct area_site *site);
void agent_site_put_back(struct agent *agent, const struct area_site *was);
void agent_compile_slot_again(struct agent *agent, uint32_t slot); /* more is wanted of it than when it was compiled */
void agent_compile_ended(struct agent *agent); /* what is compiled for a job stops with its last process */
void agent_compile_free(struct agent *agent);
void agent_compiled_sets_free(struct agents *agents);
uint32_t agent_program_put(struct agent *agent, const void *bytes, size_t size); /* offset in programs; 0: no room */

/* agent_patch.c */
/* parent: it was forked from that one, which is patched, and has all jumps in place that there will be; NULL: it was not. */
bool agent_patching_new(struct agent *agent, const struct agent *parent);
bool agents_in_jump(struct monitor *monitor, pid_t pid, uint64_t address); /* as monitor->in_jump */
void agent_patching_free(struct agent *agent);
/* Whether functions of a module may be patched: they do not call the hooks. */
bool agent_module_patched(const struct agent *agent, size_t module);
bool agent_module_is_system(const struct module *module);    /* a library or program of the system */
bool agent_patch_can(const struct index_function *function); /* it may be patched, in such a module */
/* It is to be. false: no memory. */
bool agent_patch_want(struct agent *agent, size_t module, const struct index_function *function);
void agent_patch(struct agent *agent);         /* all are wanted; what then is laid ready comes before main goes on */
bool agent_patches(const struct agent *agent); /* it is at it */
void agent_patching_tell(struct agent *agent); /* to its trace, what was not done, once that is known */

/* agent_demand.c */
bool agent_demands_new(struct agent *agent);
bool agent_is_demanded(const struct agent *agent); /* there is some demand */
void agent_demands_expire(struct agent *agent);    /* libraries came or went: agent_demands_indexed follows */
uint32_t agent_demand_mode(const struct agent *agent, uint32_t slot); /* bits that demands add to a slot's mode */
bool agent_demand_wants(const struct agent *agent, uint32_t slot);    /* something compiled */
bool agent_demand_statics(const struct agent *agent);                 /* some demand wants them */
unsigned agent_demand_params(const struct agent *agent, uint32_t slot, const char *const **ret_params);
void agent_demands_compiled(struct agent *agent, bool ok);
/* Their parameters are no numbers in some function: struct compiled_problem. */
void agent_demands_problem(struct agent *agent, const struct buf *problems);
bool agent_demands_wait(const struct agent *agent); /* some is not in place yet */
void agent_demands_indexed(struct agent *agent);    /* modules or indexes changed */
void agent_demands_free(struct agent *agent);
/* What a monitor before this one wanted done at calls nobody wants any more: the lists go, and threads that wait for it
 * go on. */
void agent_demands_adopt(struct agent *agent);

/* agent_mpi.c */
/* As agent_function, if the slot is an MPI call; its text is static. */
bool agent_mpi_function(const struct agent *agent, uint32_t slot, struct index_function *ret_function,
                        uint64_t *ret_address);
/* Whether its calls are to be recorded. */
bool agent_mpi_records(const struct agent *agent);
/* Modes of MPI's slots by the settings of the job, and what is captured there, if the program reports its calls. */
void agent_mpi_apply(struct agent *agent);
/* The name and the layouts of an MPI call for the trace; false: the slot is another function's. */
bool agent_mpi_name(struct agent *agent, uint32_t slot);
/* Of an area that an earlier monitor made: a layout that a site has. */
void agent_mpi_adopt(struct agent *agent, uint64_t site, uint32_t layout);
/* What the sites of an MPI call emit for action lists, by names (mpi_params.h). 0 or -ENOSPC. */
int agent_mpi_params_put(struct agent *agent, uint32_t call, const char *const *names, unsigned count);

/* collect.c, collect_trace.c: packets to disk */
void collect_soon(struct agents *agents); /* in the next turn of the loop */
uint64_t collect_agent(struct agent *agent, uint64_t budget, bool partial, bool flight); /* bytes written */
int collect_open(struct agent *agent, struct err *err);                                  /* the trace directory */
uint64_t agent_until(const struct agent *agent);   /* the tick at which it ended, or now; 0: not known */
bool collect_was_brief(const struct agent *agent); /* it has ended soon, and recorded little */
void collect_release_reserve(struct trace_job *job);

/* agent_helper.c: the program scry-symbols, in the background; few at once, the others wait. The function is called for
 * each answer, and with NULL at the end, after which the job is gone. */
struct helper_job *helper_start(struct agents *agents, const char *what, const char *const *files, size_t file_count,
                                struct buf *input_take, helper_fn *fn, void *ctx);
void helpers_free(struct agents *agents);
unsigned helpers_waiting(const struct agents *agents); /* for their turn */

/*
 * What is to be recorded of a process, by the settings of its job and by services.
 */

enum { MODE_OWN = 0xff /* of `modes`: as the program has it */ };

struct agent_selection {
    uint8_t *modes; /* of slots, as the settings want them */
    bool selected, waits;
    bool applies_soon;          /* in the next turn: it gets its area before its selection is looked for */
    struct selection_override { /* agent_select; the later ones win */
        struct selection *selection;
        uint32_t mode;
        struct selection_override *next;
    } * overrides;
    struct loop_source *hold_timer;
    struct kept_note unmatched;            /* by the selection in force */
    bool counts;                           /* some function is only counted */
    bool rated;                            /* there was a --rate: calls may be missing */
    bool switched;                         /* least_min_ns is known */
    uint64_t longest_min_ns, least_min_ns; /* shorter calls may be missing, all the time; 0: none */
    unsigned least_max_depth;              /* deeper calls may be missing; 0: none */
};

/*
 * What is mapped into a process: modules, and the indexes of their functions, which all processes share.
 */

/* Of all agents. */
struct shared_index {
    char key[INDEX_KEY_SIZE];
    struct index *index; /* NULL: not built yet, or failed */
    bool failed, building;
    char problem[128];
    unsigned users;
    UT_hash_handle hh;
};

struct agent_mapped {
    struct module *modules;
    struct shared_index **indexes; /* of the modules */
    size_t count;
    uint32_t *seen;                   /* of each, how many libraries had been closed when it was surely there */
    struct unloaded_module *unloaded; /* the last ones that were unloaded, the oldest first */
    size_t unloaded_count;
    struct unloaded_sites *unloaded_sites; /* what was captured in them */
    uint32_t looked;                       /* the program's count of changes that this is of */
    bool unnamed;                          /* functions got a number for a name because an index was missing */
    uint64_t *known;                       /* agent_known; */
    uint64_t *named;                       /* of these, those that have a name, not only their address, or a module */
};

/* Whether functions of a module call the hooks. */
bool agent_module_hooked(const struct agent *agent, size_t module);
/* Into the trace, if there is one. */
void agent_module_write(struct agent *agent, const struct module *module);

/*
 * The files that processes share with us, and the folder that they are in (agent_files.c).
 */

#define AREA_MPI_PREFIX "mpi-"

/* Where areas and the doorbell are. */
int agent_rings_open(struct agents *agents, struct err *err);
/* Likewise where something of it is missing, or everything: the runtime directory is another one. */
int agent_rings_again(struct agents *agents, bool moved, struct err *err);
void agent_rings_close(struct agents *agents); /* nothing stays unless it is of use to the next monitor */
void agent_rings_each(struct agents *agents, void (*fn)(void *ctx, const char *folder, const char *name), void *ctx);
bool agent_rings_in_memory(const struct agents *agents, const char *folder);

typedef int area_fill_fn(struct agent *agent, void *ctx);
/* Makes the file and fills it; where there is no room in memory, once more on disk. 0 or -errno; -ENOMEM: the job's
 * limit of memory leaves no room. */
int area_file_make(struct agent *agent, enum area_kind kind, area_fill_fn *fill, void *ctx);
/* Allocates memory for a part of it. -ENOMEM or -ENOSPC if there is none, or if it could harm the job. */
int area_file_reserve(struct agents *agents, struct area_file *file, uint64_t from, uint64_t size);
/* How many of so many bytes of its area the program may have by itself, later. They have an account of their own: what is
 * promised and not used keeps nobody from area_file_reserve, which counts it when it is there. */
uint64_t area_file_promise(const struct agent *agent, struct area_file *file, uint64_t bytes);
void area_file_promised(struct agents *agents, struct area_file *file, uint64_t bytes); /* before, by another monitor */
void area_file_kept(struct agents *agents, struct area_file *file, uint64_t bytes);     /* they are reserved by now */
void area_file_give_back(struct agents *agents, struct area_file *file);                /* frees all its memory */
void area_file_end(struct agents *agents, struct area_file *file);                      /* removes and closes it */
void area_file_leave(struct agents *agents, struct area_file *file); /* closes it, for the next monitor to find */
const char *area_numbers(const char *name);                          /* PID-STARTTICKS-SERIAL of its name */
void area_file_remove(const char *path);                             /* with its sidecar */

#endif
