/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the agents' side of the monitor share (agents.c: registry; agent_hello.c: handshake;
 * agent_commands.c: commands of all processes; agent_files.c, agent_area.c: the shared memory; agent_rings.c: where it is;
 * agent_names.c: modules, indexes and names; agent_select.c: settings to slots; agent_former.c: libraries that are
 * gone; agent_compile.c: captures; compiled_set.c: those of all processes of a program; agent_demand.c: event services;
 * collect.c: packets to disk; collect_walk.c: what is in a packet; collect_former.c: the trace of a monitor that was
 * killed; collect_orphans.c: packets of a process that was).
 */
#ifndef SCRY_MONITOR_RECORDER_AGENTS_INTERNAL_H
#define SCRY_MONITOR_RECORDER_AGENTS_INTERNAL_H

#include <pthread.h>
#include <uthash.h>

#include "base/loop.h"
#include "base/memory_dir.h"
#include "jobdir/trace/write.h"
#include "monitor/recorder/agents.h"
#include "shm/record.h"
#include "shm/waits.h"
#include "symbols/client/helper_client.h"

enum {
    COLLECT_BUDGET = 4 << 20, /* bytes of packets written before other work has its turn */
    COLLECT_MIN_MS = 100,     /* between two looks while there is something to collect */
    COLLECT_MAX_MS = 2000,    /* while there is not */
    PARTIAL_MS = 1000,        /* until a thread's unfinished packet is brought in */
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

struct trace_job {
    char *dir;
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
    struct job_disk {                     /* as it was at the last look at it (collect_trace.c) */
        uint64_t looked_ns, looked_bytes; /* when, and how much the job had */
        uint64_t step;                    /* so much may be written until the next look */
        uint64_t last;                    /* so much when the job is limited */
        int reserve;                      /* a file without a name that keeps room for names; -1: none */
    } disk;
    struct noted_program { /* that calls none of our hooks */
        char *exe;
        bool looked, own_hooks;
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
        *refused_list; /* those that could not be traced for another reason, each once however often */
    unsigned refused;  /* it asked, up to REFUSED_LIMIT */
    char refused_why[PROBLEM_SIZE - 64]; /* of the first */
    char problem[PROBLEM_SIZE];
    char unmatched[PROBLEM_SIZE]; /* worth a word if nothing was recorded at all */
    UT_hash_handle hh;
};

/* ---- indexes, shared by all agents ---- */

struct shared_index {
    char key[INDEX_KEY_SIZE];
    struct index *index; /* NULL: not built yet, or failed */
    bool failed, building;
    char problem[128];
    unsigned users;
    UT_hash_handle hh;
};

/* ---- agents ---- */

struct collect_thread { /* by thread_serial */
    uint32_t serial, tid, stream;
    bool has_stream;
    uint64_t discarded, last_time;
    uint64_t written_to; /* up to this time its records are in the trace of a monitor before this one; 0: none */
    uint64_t partial_seq, partial_to;         /* of the packet with that number so many bytes of records are written */
    bool partial, whole;                      /* partial: there was one; whole: it came when it was full */
    uint64_t missing_packets, missing_events; /* overwritten or left out since what was written last */
    bool lives;                               /* it has a block; only looked at when an area is adopted */
    UT_hash_handle hh;
};

enum { REFUSED_LIMIT = 1 << 16 };
struct refused_process {
    struct {
        uint64_t start_ticks;
        int64_t pid;
    } key;
    UT_hash_handle hh;
};

struct agent_layout_text {
    uint32_t id;
    enum {
        LAYOUT_KEPT,  /* of a call of MPI that has not come yet: it is not in the trace */
        LAYOUT_NOTED, /* in the trace for us, but not in its metadata, which would become large */
        LAYOUT_USED,
    } state;
    UT_hash_handle hh;
    char text[];
};

/* agent_former.c */
#define FORMER_UNSURE UINT32_MAX
struct former_module {
    uint64_t start, end, bias;
    uint32_t seen; /* how many libraries had been closed when it was there */
    struct shared_index *shared;
    char name[256], *path; /* path: NULL if there was no memory */
};
struct former_sites;

struct slot_module { /* that a slot's function is of */
    const char *name, *path, *key;
    uint64_t bias;
    struct shared_index *shared;
    const struct module *module; /* NULL: it is not mapped any more */
};

struct trace;
struct demand; /* agent_demand.c */
struct slot_params;
struct compile_run; /* agent_compile.c */
struct compiled_set;
struct helper_job;

/* What a process shares with us, each in a file of its own. */
enum area_kind { AREA_FUNCTIONS, AREA_MPI, AREA_KINDS };
#define AREA_MPI_PREFIX "mpi-"
struct area_file {
    char *path; /* NULL: there is none, or it stays for the next monitor */
    int fd;     /* -1: there is none */
    uint64_t serial;
    uint64_t memory_taken; /* bytes */
    bool in_memory;        /* in agents.memory */
};

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
    bool drained;    /* of one that has ended: its functions are on disk and freed */
    bool as_left;    /* by the monitor before this one: nothing is changed until somebody says what is wanted */
    bool forked;     /* from a traced process */
    bool starting;   /* its buffer is as small as can be yet */
    bool opens_late; /* a child of fork: its trace is made after it was let go */
    uint64_t room;   /* of address space that the area may take */
    uint64_t ended_ns, ended_ticks; /* when that was seen; ticks 0: it was over before this monitor began */

    struct area_view view;     /* view.area NULL: its functions are not traced */
    uint32_t released;         /* packets that are the program's to use */
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
    bool bare_told;                                      /* that functions have no values because of -g1 */
    bool counts;                                         /* some function is only counted */
    struct open_calls *open_counted;                     /* of those, when it ended */
    bool rated;                                          /* there was a --rate: calls may be missing */
    bool more;                                           /* packets were left for the next turn */
    uint64_t longest_min_ns, least_min_ns;               /* shorter calls may be missing, all the time; 0: none */
    bool switched;                                       /* least_min_ns is known */
    unsigned least_max_depth;                            /* deeper calls may be missing; 0: none */
    char problem[PROBLEM_SIZE], unmatched[PROBLEM_SIZE]; /* the latter by the selection in force */

    struct module *modules;
    struct shared_index **indexes; /* of the modules */
    size_t module_count;
    uint32_t *modules_seen;       /* of each, how many libraries had been closed when it was surely there */
    struct former_module *former; /* the last ones that are gone, the oldest first */
    size_t former_count;
    struct former_sites *former_sites; /* what was captured in them */
    uint32_t modules_looked;           /* the program's count of changes that this is of */
    bool unnamed;                      /* functions got a number for a name because an index was missing */

    uint8_t *modes; /* of slots, as the settings want them */
    bool selected, selection_waits;
    bool applies_soon;          /* in the next turn: it is told where its area is before its selection is looked for */
    struct selection_override { /* agent_select; the later ones win */
        struct selection *selection;
        uint32_t mode;
        struct selection_override *next;
    } * overrides;
    struct loop_source *hold_timer;
    struct compile_run *compile_run;
    bool compile_failed; /* of the runs that followed each other */
    uint64_t *compiled;  /* bit set of slots whose captures are in place or could not be had */
    uint32_t next_layout;
    struct agent_layout_text *layouts;
    uint32_t layouts_noted; /* so many are LAYOUT_NOTED */
    uint64_t *layouts_seen; /* bit set of those that records have; up to next_layout when it was made: */
    uint32_t layouts_seen_end;
    unsigned layouts_turns;           /* how often the metadata were written for some */
    bool layouts_new;                 /* some are in use that are not on disk yet */
    bool mpi_captured, mpi_waits;     /* agent_mpi.c: of all calls; for a compilation to be over */
    bool mpi_described;               /* its rank is in its trace */
    bool only_mpi;                    /* it said hello for MPI alone, without hooks */
    bool layouts_lost;                /* records may have some that only a monitor before this one knew */
    uint64_t held[AREA_THREADS / 64]; /* bit set of blocks whose raised event is being handled */
    struct demand *demands;           /* in the order in which they came */
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
    uint64_t faults;     /* map_guard_faults(), as far as it was looked who it was */
    unsigned collecting; /* depth: nobody is freed meanwhile */

    /* the time stamp counter */
    uint64_t first_ticks, first_ns, ticks_per_second, event_ticks;

    /* what buffers may have: as it was found at memory_ns, less what was taken since; and all that was taken */
    uint64_t memory_ns, memory_limit, memory_left, memory_taken;

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
void agent_enter(struct agent *agent);                         /* into the registry; one that has ended, too */
/* Its area of functions is there: from here on it is collected. With a parent that it was forked from it is to do what
 * that does. */
void agent_came(struct agent *agent, const struct agent *parent);
/* It runs on without its area of functions; what else is known of it stays. */
void agent_refused(struct agent *agent);
/* All of its functions is on disk, or there never was anything. */
void agent_drained(struct agent *agent);
void agent_mpi_done(struct agent *agent); /* its MPI part was freed: so is the entry, if it has ended */
void agent_open(struct agent *agent); /* its trace, if that is still to be made */
/* Says so if the program has cut its area. */
void agent_area_check(struct agent *agent);
/* settings.c: bytes of values of one record at most; whether captures depend on a setting. */
unsigned trace_settings_values(const struct trace_settings *settings);
bool trace_settings_compiled(const char *key);
void agent_set_problem(struct agent *agent, const char *format, ...) __attribute__((format(printf, 2, 3)));
void job_set_problem(struct trace_job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct trace_job *job_get(struct agents *agents, const char *dir);
/* The process was there before the directory, which replaces that of the job it belonged to. */
bool job_is_older(const struct trace_job *job, pid_t pid);
void job_put(struct agents *agents, struct trace_job *job); /* frees it if nobody needs it */
bool agent_drains(const struct agent *agent); /* it has ended, and not all of it is on disk */
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
void agent_hello_hear(struct agents *agents);        /* whoever has said hello by now, within a turn's time */
bool agent_hello_waits(const struct agents *agents); /* somebody whom nobody has listened to yet */

/* agent_clock.c */
void agent_clock_start(struct agents *agents);
void agent_clock_calibrate(struct agents *agents); /* the first time it takes up to 20 ms */
uint64_t agent_clock_zero_ns(const struct agents *agents);
uint64_t agent_clock_ticks(void);
void agent_clock_look(clockid_t clock, uint64_t *ret_ticks, uint64_t *ret_ns); /* both at the same moment */

/* agent_switches.c: when its threads had a processor, beside its trace */
void agent_switches_start(struct agent *agent); /* from now on, unless it is, or cannot be: the trace says why */
void agent_switches_write(struct agent *agent, bool all); /* what there is; it may be put off, unless `all` */
void agent_switches_end(struct agent *agent);
void agents_switches_free(struct agents *agents);

/* agent_bell.c */
int agent_bell_open(struct agents *agents, struct err *err);
int agent_bell_start(struct agents *agents); /* the thread; only once there is an agent */
void agent_bell_close(struct agents *agents);

/* agent_rings.c: where areas and the doorbell are */
int agent_rings_open(struct agents *agents, struct err *err);
/* Likewise where something of it is missing, or everything: the runtime directory is another one. */
int agent_rings_again(struct agents *agents, bool moved, struct err *err);
void agent_rings_close(struct agents *agents); /* nothing stays unless it is of use to the next monitor */
/* A new file; a descriptor or -errno. ret_path is set in any case, NULL if there is no memory. */
int agent_rings_make(struct agents *agents, bool on_disk, const char *name, char **ret_path);
void agent_rings_each(struct agents *agents, void (*fn)(void *ctx, const char *folder, const char *name), void *ctx);
bool agent_rings_in_memory(const struct agents *agents, const char *folder);

/* agent_area.c; parent: that it was forked from, if that is known */
int agent_area_make(struct agent *agent, const struct agent *parent, struct err *err);
int agent_area_adopt(struct agent *agent, uint64_t size); /* of a file that is open */
void agent_area_started(struct agent *agent);     /* it was let go: as much as it should have at first */
void agent_area_learn(const struct agent *agent); /* it has ended: was it short, and its buffer too large? */
void agent_area_grow(struct agent *agent);        /* more packets, if most are in use; more blocks of threads */
void agent_area_unmap(struct agent *agent);

/* agent_files.c */
typedef int area_fill_fn(struct agent *agent, void *ctx);
/* Makes the file and fills it; where there is no room in memory, once more on disk. 0 or -errno; -ENOMEM: the job's
 * limit of memory leaves no room. */
int area_file_make(struct agent *agent, enum area_kind kind, area_fill_fn *fill, void *ctx);
/* Memory for a part of it, which is not to be had (-ENOMEM, -ENOSPC) if that could harm the job. */
int area_file_reserve(struct agents *agents, struct area_file *file, uint64_t from, uint64_t size);
void area_file_give_back(struct agents *agents, struct area_file *file); /* all memory, which is had no longer */
void area_file_end(struct agents *agents, struct area_file *file);       /* removes and closes it */
void area_file_leave(struct agents *agents, struct area_file *file);     /* closes it, for the next monitor to find */
void agent_note(const struct agent *agent);  /* whose the areas are, for the next monitor; again when that changes */
void agents_adopt_all(struct agents *agents); /* what a monitor before this one has left */

/* agent_names.c */
int agent_modules_refresh(struct agent *agent);                              /* reads them again, asks for indexes */
bool agent_modules_inherit(struct agent *agent, const struct agent *parent); /* of the process it was forked from */
bool agent_module_hooked(const struct agent *agent, size_t module);
bool agent_indexes_ready(const struct agent *agent); /* none is being built */
void agent_name_slot(struct agent *agent, uint32_t slot);
/* The same, the first time that it occurs; with RECORD_PLACE, of a place and its slot. */
void agent_know(struct agent *agent, uint32_t slot);
/* The place's bit in agent.known and agent.named. */
static inline uint32_t agent_known_place(const struct area_view *view, uint32_t place)
{
    return view->slot_mask + 1 + (place & ~RECORD_PLACE);
}
void agent_name_place(struct agent *agent, uint32_t place); /* with or without RECORD_PLACE */
void agent_names_again(struct agent *agent);                /* indexes came */
void agent_modules_free(struct agent *agent);
void agent_modules_drop(struct agent *agent); /* what is mapped now; what was stays known */
void agent_index_put(struct agents *agents, struct shared_index *shared);
void agents_indexes_free(struct agents *agents);

/* agent_former.c */
struct modules_reading {
    struct module *modules;
    struct shared_index **indexes;
    uint32_t *modules_seen; /* room for them */
    size_t count;
    uint32_t seen; /* how many had been closed when this was read, or FORMER_UNSURE */
};
/* false: it is not known for certain. */
bool agent_slot_module(const struct agent *agent, uint32_t slot, struct slot_module *ret_module);
/* The same of an address by which a place is known: where it is called from, or the hook there. */
bool agent_place_module(const struct agent *agent, uint32_t place, uint64_t address, struct slot_module *ret_module);
void agent_modules_replace(struct agent *agent, const struct modules_reading *reading);
/* Into the trace, if there is one. */
void agent_module_write(struct agent *agent, const struct module *module);
void agent_former_free(struct agent *agent);

/* agent_layouts.c */
void agent_layout_add(struct agent *agent, uint32_t id, const char *text);
void agent_layouts_write(struct agent *agent);                             /* to a trace made after them */
void agent_layouts_adopt(struct agent *agent, const struct trace *former); /* NULL: it cannot be read */
void agent_layouts_inherit(struct agent *agent, const struct agent *parent);
void agent_layouts_free(struct agent *agent);
/* Layouts of calls that may never come: in the trace from their first use. A new one's number, or RECORD_NO_LAYOUT. */
uint32_t agent_layout_new(struct agent *agent, const char *text);
void agent_layout_keep(struct agent *agent, uint32_t id, const char *text);
void agent_layout_used(struct agent *agent, uint32_t id);
void agent_layouts_walked(struct agent *agent); /* behind a packet: those that came up in it are in the trace */
bool agent_layout_seen(void *ctx, uint32_t id); /* as walk_layout_fn, of an agent */

/* agent_select.c */
void agent_apply(struct agent *agent); /* settings to switches and slots; lets it go as soon as that can be */
bool agent_applies_long(
    const struct agent *agent);          /* so many functions have to be looked at that an answer goes first */
void agent_indexed(struct agent *agent); /* an index that it waited for is there, or failed */
bool agent_inherit(struct agent *agent, const struct agent *parent); /* the parent's choice, as it is in place */
/* Whether something is to be recorded: an agent may be there only for what is done at calls of MPI. */
bool agent_records(const struct agent *agent);
void agent_go(struct agent *agent);
void agent_settle(struct agent *agent); /* lets main go on if everything is in place */
void agent_filter_update(struct agent *agent);
bool agent_modes_new(struct agent *agent);
void agent_mode_update(struct agent *agent, uint32_t slot); /* settings and demands of one slot */
void agent_look_again(struct agent *agent);                 /* dlopen */
void agent_overrides_free(struct agent *agent);
void agent_select_free(struct agent *agent);

/* agent_compile.c */
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

/* agent_demand.c */
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
void agent_raises(struct agent *agent); /* hands raised events over */
/* What a monitor before this one wanted done at calls nobody wants any more: the lists go, and threads that wait for it
 * go on. */
void agent_demands_adopt(struct agent *agent);

/* agent_mpi_demand.c: what the sites of an MPI call emit for action lists, by names (mpi_params.h). 0 or -ENOSPC. */
int agent_mpi_params_put(struct agent *agent, uint32_t call, const char *const *names, unsigned count);

/* agent_helper.c: the program scry-symbols, in the background; few at once, the others wait. The function is called for
 * each answer, and with NULL at the end, after which the job is gone. */
struct helper_job *helper_start(struct agents *agents, const char *what, const char *const *files, size_t file_count,
                                struct buf *input_take, helper_fn *fn, void *ctx);
void helpers_free(struct agents *agents);
unsigned helpers_waiting(const struct agents *agents); /* for their turn */

void agents_state_print(void *agents, struct buf *out); /* agent_state.c */

/* collect.c */
int collect_new(struct agents *agents);
void collect_free(struct agents *agents);
void collect_soon(struct agents *agents); /* in the next turn of the loop */
uint64_t collect_agent(struct agent *agent, uint64_t budget, bool partial, bool flight); /* bytes written */
/* Of a packet's thread (collect_missing.c): notes what was overwritten before it; that it is not written, with so many
 * entries and exits; writes how much is missing, before the packet with that head: 0 or -errno. */
void collect_note_missing(struct agent *agent, struct collect_thread *thread, const struct packet_head *head);
void collect_note_skipped(struct agent *agent, struct collect_thread *thread, uint64_t events);
int collect_put_missing(struct agent *agent, struct collect_thread *thread, const struct packet_head *head);
void collect_limit(struct agents *agents, struct trace_job *job, const char *why); /* from here on the last only */

/* Of a thread, up to this time, records are on disk already. */
struct collect_thread *collect_written(struct agent *agent, uint32_t serial, uint32_t tid, uint64_t to);

/* collect_orphans.c: of a process that has ended, packets that are neither full nor current become full. `used`: so
 * many blocks of threads may be in use. */
void collect_orphans(struct agent *agent, uint32_t used);

/* collect_open.c: entries of calls that a thread was in at the `end`, and had not recorded (--min-time); how many. */
size_t collect_waiting(struct agent *agent, const struct area_thread *block, uint64_t end, uint64_t last_time,
                       struct packet_head *ret_head, struct buf *out);
/* collect.c: blocks from the first on that were ever used */
uint32_t collect_threads_used(const struct area_view *view);

/* collect_former.c: ends the trace that a killed monitor wrote of an adopted area, and learns from it what is on disk
 */
void collect_former(struct agent *agent, const char *trace);
/* Removes a trace that was begun in place of that one by a monitor that was killed over it. */
void collect_former_begun(const char *trace);

/* collect_trace.c */
void collect_finish(struct agent *agent, bool all); /* writes .process; with all, of an ended one, closes the trace */
int collect_open(struct agent *agent, struct err *err); /* the trace directory */
uint64_t agent_until(const struct agent *agent);        /* the tick at which it ended, or now; 0: not known */
void collect_until(struct agent *agent);                /* notes that */
void collect_close(struct agent *agent, const char *state);
/* How much may be written until the disk is looked at again; 0: nothing more. Limits the job when it is nearly full. */
uint64_t collect_disk_left(struct agents *agents, struct trace_job *job);
void collect_release_reserve(struct trace_job *job);

/* collect_walk.c */
struct walk {                /* what one packet is made into */
    struct packet_head head; /* of the piece: begin, end, depth, stack */
    const uint8_t *records;  /* in the packet, or in `own` */
    size_t size;
    size_t end;      /* bytes of the packet that are records */
    uint64_t events; /* entries and exits in the piece */
    bool damaged;    /* what comes after `end` is none */
};
struct walk_room; /* for rewriting; NULL-able only for whole packets */
struct walk_room *walk_room_new(void);
void walk_room_free(struct walk_room *room);
/* A slot; with RECORD_PLACE a place. */
typedef void walk_function_fn(void *ctx, uint32_t function);
/* Entries and exits among the records. */
uint64_t walk_calls(const struct packet_head *head, uint64_t latest, uint8_t *records, size_t size);
/* Counts the calls that begin there, from so many bytes on, with their functions: they are not written. */
void walk_unkept(const struct packet_head *head, uint64_t latest, uint8_t *records, size_t size, size_t from,
                 const struct area_view *view);
/* How many bytes of the records are not later than `time`. */
size_t walk_until(const struct packet_head *head, uint64_t latest, uint8_t *records, size_t size, uint64_t time);
/* Values with a layout that nobody knows get RECORD_NO_LAYOUT for it. */
typedef bool walk_layout_fn(void *ctx, uint32_t layout);
void walk_layouts(const struct packet_head *head, uint64_t latest, uint8_t *records, size_t size,
                  walk_layout_fn *is_known, void *ctx);
/* Looks through the `size` bytes of records of a packet, none of which is later than `latest`; the piece begins `from`
 * bytes into them. Tells the profile and, for functions not in `known`, fn. A record that is older than the one before
 * it (written in a signal's handler) is made as old. */
void walk_packet(const struct packet_head *head, uint64_t latest, uint8_t *records, size_t size, size_t from,
                 struct walk_room *room, struct profile *profile, const struct area_view *view, uint64_t *known,
                 walk_function_fn *fn, void *ctx, struct walk *ret_walk);

#endif
