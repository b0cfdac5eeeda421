/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agents: the traced processes of this monitor. An agent says hello on the agent socket ("agent.sock" beside the
 * monitor's own), gets an area (shm/area.h), and its main is held until its selection is in place. From then on the
 * monitor collects its packets into the job's trace directory, keeps the live profile, and runs the requests of events
 * that the agent hands over. Areas of processes that live are found again after a restart of the monitor.
 *
 * A traced process has one entry here from its first hello until it ends or executes another program. Its functions are
 * one part of it, its MPI (monitor/mpi) the other one: each has an area, and either may be missing, or come later.
 *
 * What a job wants traced is set once for the job (trace_settings) and holds for every process of it, those that come
 * later included; event services add what they need for single functions of single processes.
 */
#ifndef SCRY_MONITOR_RECORDER_AGENTS_H
#define SCRY_MONITOR_RECORDER_AGENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "base/data/notes.h"
#include "monitor/params/params.h"
#include "shm/area.h"
#include "shm/mpi_calls.h"
#include "symbols/index/index.h"

struct monitor;
struct agents;
struct agent;
struct csr;
struct mpi_told;
struct process;
struct profile;

/* ---- MPI ---- */

struct hello_mpi;
struct trace_job;

/* The MPI parts of processes, as the agents need them (monitor/mpi/mpi.h has them: agents_mpi). Called from the loop.
 * But for `make` and `adopt`, with agents that have such a part. */
struct agents_mpi {
    int (*start)(struct agents *agents, struct err *err);
    void (*stop)(struct agents *agents); /* there are no parts any more */
    void (*rung)(struct agents *agents); /* the doorbell was: they may have something to report */
    /* NULL, or what is wrong with it. */
    const char *(*check)(const struct hello_mpi *hello);
    /* Makes the part with its area, or takes over that of a monitor before this one, which has `size` bytes and is open
     * in agent->files. 0 or -errno: then there is none. */
    int (*make)(struct agent *agent, const struct hello_mpi *hello, struct err *err);
    int (*adopt)(struct agent *agent, uint64_t size);
    void (*came)(struct agent *agent); /* the process is in the registry, and may have ended */
    /* The program runs on without what was made for it; why NULL: it did not wait for that. */
    void (*refused)(struct agent *agent, const char *why);
    void (*moved)(struct agent *agent); /* it is this one's part now */
    void (*ended)(struct agent *agent); /* the process; frees the part as soon as all is written, then agent_mpi_done */
    bool (*drains)(const struct agent *agent); /* of one that has ended: that is still to be expected */
    void (*leave)(struct agent *agent);    /* writes what there is, and frees the part; a living one keeps its area */
    void (*describe)(struct agent *agent); /* writes rank and world into its trace, if they are known */
    void (*apply)(struct agent *agent);    /* settings changed */
    void (*job_end)(struct agents *agents, const char *dir);
    void (*state_print)(const struct agent *agent, struct buf *out); /* a line of the monitor's state */
};

/* ---- the registry ---- */

int agents_new(struct agents **ret_agents, struct monitor *monitor, const char *runtime_dir,
               const struct agents_mpi *mpi, struct err *err);
void agents_free(struct agents *agents);

/* Where agents reach this monitor. */
const char *agents_socket(const struct agents *agents);

/* The runtime directory was tidied up, or (moved) another one, which is empty, is in its place and the caller's: makes
 * what is missing anew. The agents there are have all that they need. -EBUSY: it has areas of another monitor. */
int agents_again(struct agents *agents, bool moved, struct err *err);
void agents_unreachable(struct agents *agents); /* for a while, or for good; jobs are informed at their ends */

/* A job's settings changed, or a job appeared (key NULL: only that): applies them to its agents, now and later. `dir`
 * is the job directory. */
int agents_job_set(struct agents *agents, const char *dir, const char *key, const char *value, struct err *err);
void agents_job_end(struct agents *agents, const char *dir);
/* Appends "key","value",... as the request language writes strings and agents_job_set takes them. -ENOENT: no such job.
 */
int agents_job_settings(struct agents *agents, const char *dir, struct buf *out);
/* Of a part of a job on several nodes: the directory of that job; NULL: it is none. */
const char *agents_job_home(const struct agents *agents, const char *dir);
/* A process that has the directory in its environment belongs to its job, not to one before that had another directory
 * of that name. */
bool agents_job_has(struct agents *agents, const char *dir, pid_t pid);

enum { AGENTS_NOTES = 9 };

/* Why a program calls no hooks. */
enum noted_why { NOTED_NO_HOOKS, NOTED_OWN_HOOKS, NOTED_SYSTEM, NOTED_WHYS };

/* How it stands with a job's traces: for its end and its summary. */
struct agents_job_state {
    unsigned living;            /* processes with an agent */
    unsigned draining;          /* ended ones whose records are not all on disk yet */
    uint64_t events, discarded; /* of all its processes so far */
    /* Their texts are the agents', until anything of them changes, or stand in `programs`. */
    struct note notes[AGENTS_NOTES]; /* what no trace has */
    struct note problems[2];         /* why nothing, or not everything, came */
    unsigned note_count, problem_count;
    char programs[NOTED_WHYS][512]; /* by enum noted_why */
    unsigned choosing;              /* living ones whose symbols are still read for the selection in force */
    char unmatched[512];            /* of one of them, if no living one has a function that is selected; "" */
};
int agents_job_state(struct agents *agents, const char *dir, struct agents_job_state *ret_state); /* 0 or -ENOENT */
unsigned agents_count(const struct agents *agents); /* living ones and draining ones */

/* Those whose functions are traced. NULL: it is none. */
struct agent *agents_find(struct agents *agents, pid_t pid);
void agents_each(struct agents *agents, const char *dir /* NULL: all */, void (*fn)(void *ctx, struct agent *agent),
                 void *ctx);

pid_t agent_pid(const struct agent *agent);
const char *agent_job(const struct agent *agent); /* directory; "" */
const struct area_view *agent_view(const struct agent *agent);
const char *agent_trace_path(const struct agent *agent); /* "" while nothing is recorded */

/* Why nothing comes from this process although it was asked for, with the remedy (compiled without hooks, statically
 * linked, 32 bit, ...); NOTE_NONE */
const struct note *agent_problem(const struct agent *agent);

/* A function of the process by its slot; from the index, as far as it is built. */
bool agent_function(struct agent *agent, uint32_t slot, struct index_function *ret_function, uint64_t *ret_address,
                    const struct module **ret_module);
bool agent_name_address(void *agent, uint64_t address, struct buf *out);  /* a layout_name_fn */
const char *agent_layout(struct agent *agent, uint32_t id);               /* its text, with references; NULL */
bool agent_layout_put(struct agent *agent, uint32_t id, struct buf *out); /* the whole text; false: there is none */

/* Collects partial packets and updates the profile; for services that answer now. */
void agent_collect(struct agent *agent);
struct profile *agent_profile(struct agent *agent); /* NULL: nothing is recorded */
/* Writes out everything that is in its packets, in flight mode, too. 0 or -errno. */
int agent_flush(struct agent *agent, struct err *err);

struct agent_counts {
    uint64_t events, discarded, bytes; /* so far, of the trace */
    uint64_t
        cost_ns; /* that recording took the program: as measured for one event, and for reading values by samples */
};
void agent_counts(const struct agent *agent, struct agent_counts *ret_counts);

/* By slot, of calls of functions that are only counted: those that are open, with the ticks since they began.
 * malloc'ed; NULL: no memory. */
struct area_calls *agent_open_counted(const struct agent *agent, uint64_t now);
/* The same of those that have ended, and their number with the open ones. */
struct area_calls *agent_counted(const struct agent *agent);

/* All functions of a process with their module: for ct_list_functions. fn returns false to stop. -EAGAIN: the index is
 * being built, ask later. */
int agent_functions(struct agent *agent, const char *selection,
                    bool (*fn)(void *ctx, const struct module *module, const struct index_function *function),
                    void *ctx, struct err *err);

/* From now on the chosen functions of this one process have the mode (AREA_COUNT, AREA_RECORD, AREA_VALUES; 0: off),
 * over the settings of its job, until these change. 0, -EINVAL (the selection) or -EAGAIN as above. */
int agent_select(struct agent *agent, const char *selection, uint32_t mode, struct err *err);

/* ---- commands of processes (agent_hello.c) ---- */

struct agent_command {
    pid_t pid; /* as it says itself: in a namespace of its own it may be another's here */
    uint64_t time_ns;
    struct span directory, args; /* args: NUL-terminated, one after the other; the last perhaps without end */
    bool whole;                  /* no arguments are missing */
};

/* Hands over what was said until now. */
void agent_commands_read(struct agents *agents);

/* ---- the helper ---- */

/* Runs scry-symbols (symbols/client/helper.h) in the background and calls fn for each of its answers, and with NULL at
 * the end, also if it could not be started or took longer than limit_ns; then the job is gone. NULL: out of memory. */
struct helper_answer;
struct helper_job;
typedef void helper_fn(void *ctx, const struct helper_answer *answer);
struct helper_job *helper_start_at_once(struct agents *agents, const char *what, struct buf *input_take,
                                        uint64_t limit_ns, helper_fn *fn, void *ctx);
void helper_cancel(struct helper_job *job); /* fn is not called any more */

/* ---- calls of MPI (agent_mpi.c) ---- */

/*
 * MPI calls as functions of the agents (shm/mpi_told.h): their slots, names, and what is recorded of them. The slots of
 * an agent are there once its program has asked for them (area.mpi): at its first MPI call after MPIA_METRIC_TELL was
 * set; the call waits for that. Demands on them: struct agent_demand.mpi.
 */

/* The MPI call that a slot of the agent is; CALL_NONE: another function. */
uint32_t agent_mpi_call(const struct agent *agent, uint32_t slot);
/* The program's calls are functions by now. */
bool agent_mpi_tells(const struct agent *agent);

/* ---- what event services ask for ---- */

struct agent_demand {
    struct csr *csr;       /* its serial names the demand; also which agents it was made for */
    const char *selection; /* the functions, or */
    const uint64_t *mpi;   /* calls of MPI: bits by enum call_id, MPI_CALL_WORDS; NULL: functions */
    bool at_exit;
    bool raise;                         /* hold the thread and notify the monitor; else run `program` there */
    const struct code_program *program; /* borrowed; with raise: a filter that has to pass. NULL: none */
    const char *const *params;          /* expressions that par0, par1 ... of the program are, on the arguments; of MPI
                                         * calls, names (monitor/params/params.h) */
    unsigned param_count;
    bool values;  /* arguments and locals are wanted as text */
    bool statics; /* with values at exits: static variables, too */
};

/* Adds or replaces the demand of a conditional request in one process, takes it away. Compiling goes on in the
 * background where symbols are needed; `ready` (may be NULL) is called when it is in place or failed. 0 or -errno. */
int agent_demand(struct agent *agent, const struct agent_demand *demand,
                 void (*ready)(void *ctx, int code, const char *reason), void *ctx, struct err *err);
void agent_undemand(struct agent *agent, const struct csr *csr);

/* A raised event; the receiver calls agent_release when the thread may go on. */
struct agent_event {
    struct agent *agent;
    struct area_thread *thread;
    struct area_raise raise; /* a checked copy */
};
void agents_on_event(struct agents *agents, void (*fn)(void *ctx, const struct agent_event *event), void *ctx);
/* The parameters of a request's demand, in its order (one site may serve several demands). false: that request has no
 * demand on this function and side. */
bool agent_event_params(const struct agent_event *event, const struct csr *csr, struct code_event *ret_params);
/* What a raised event of an MPI call reports; false: it is no MPI call's. */
bool agent_event_mpi_call(const struct agent_event *event, struct mpi_told *ret_told);
/* Called from the loop after the doorbell was rung: programs may have posted something (CODE_POST). */
void agents_on_ring(struct agents *agents, void (*fn)(void *ctx), void *ctx);
void agent_release(struct agent *agent, struct area_thread *thread);
/* The same later, when the process may be gone or have another program. */
void agent_release_kept(struct agents *agents, pid_t pid, struct area_thread *thread, uint64_t time);

/* Called when an agent came (its area is ready, main still held) and when it ended: for arming conditional requests. */
void agents_on_change(struct agents *agents, void (*fn)(void *ctx, struct agent *agent, bool came), void *ctx);

#endif
