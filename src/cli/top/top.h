/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_CLI_TOP_TOP_H
#define SCRY_CLI_TOP_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/buf.h"
#include "cli/jobs/ranks.h"
#include "jobdir/record/model.h"
#include "jobdir/record/spool.h"
#include "jobdir/report/functions.h"
#include "jobdir/report/report.h"
#include "jobdir/text/fields.h"
#include "options/options.h"

/* What the keys of scry top choose: order, tables, filter, tree, place. */

enum top_order { TOP_BY_CPU, TOP_BY_MEMORY, TOP_BY_TIME, TOP_BY_PID, TOP_BY_NAME };

struct top_choice {
    enum top_order order;
    bool only_functions, only_ranks, tree, help;
    char filter[64]; /* names that have this in them; "": all */
    bool typing;     /* the filter is being typed */
    size_t scroll;   /* lines to skip in each table that does not fit */
    size_t page;     /* lines shown at once; set by the drawing code */
};

/* Handles typed keys; all bytes of a key come at once. false: quit. */
bool top_keys_take(struct top_choice *choice, const char *keys, size_t len);
/* Does the filter let a name through? */
bool top_choice_has(const struct top_choice *choice, const char *name);

/* The last line of the screen; and the help on keys, its lines ended by NULL. */
void top_keys_line(const struct top_choice *choice, char *ret_text, size_t size);
extern const char *const top_keys_help[];

/*
 * The hottest functions of a running job, for scry top: from the monitor, over all traced processes that live. The live
 * picture never waits for it. Without a monitor, or if nothing is traced, the list is empty.
 */

struct top_function {
    char *name, *file;
    uint64_t line, calls, total_ns, self_ns, min_ns, max_ns; /* min_ns > max_ns: not known */
};

struct top_functions {
    bool connected, asking;
    uint64_t again_ns; /* do not connect before */
    pid_t *attached;   /* processes that the monitor knows, sorted */
    size_t attached_count;
    struct top_function *list; /* by their own time, most first */
    size_t count;
    uint64_t self_ns; /* of all together */
};

/* Connects to a running monitor if there is no connection. Call it again and again: a monitor may be starting.
 * client_error() says why it failed. */
void top_functions_connect(struct top_functions *functions);
void top_functions_close(struct top_functions *functions);

/* Asks for the functions of the job's processes, unless a request is under way. */
void top_functions_ask(struct top_functions *functions, const struct job_model *model);
int top_functions_fd(const struct top_functions *functions); /* readable: call top_functions_handle; -1: none */
void top_functions_handle(struct top_functions *functions);
/* Waits for the functions, and for `also_asking`, at most timeout_ms. false: it took longer. */
bool top_functions_wait(struct top_functions *functions, const unsigned *also_asking, int timeout_ms);

/* For a job that has ended: its functions from the traces. `all` NULL or incomplete: none. */
void top_functions_final(struct top_functions *functions, const struct job_functions *all);

/* The processes that scry top shows, in the chosen order and form. */

struct top_processes {
    const struct job_process **list; /* borrowed from the model */
    unsigned *depths;                /* in the tree */
    size_t count;
};

/* Of the job and its parts. The list is empty if there is no memory. */
void top_processes_choose(struct top_processes *ret_processes, const struct job_report *report,
                          const struct top_choice *choice);
void top_processes_done(struct top_processes *processes);

struct top_process {
    const struct job_process *process;
    unsigned depth;
};
extern const struct field top_process_fields[]; /* the table: of a struct top_process, which belongs to the report */

/* Processes that scry did not start, and all that these have started. */

struct top_pids {
    const struct options *options; /* its words are their numbers; NULL: a job is shown */
    bool looked;
    uint64_t first_ns, started, ended, ended_cpu_ns, before_ns;
};

/* Brings a model up to date, of a job that has no directory. seconds: since the first look. false: all have ended. */
bool top_pids_look(struct top_pids *pids, struct job_model *model, double seconds);

/* The table of a job's MPI ranks in scry top. */

struct top_ranks {
    struct rank_list known;
    const char *path; /* of the job */
    unsigned asking;  /* bits: this node, the others, which there are */
    struct job_nodes nodes;
    size_t parts;       /* so many nodes had a part when they were attached */
    struct buf missing; /* nodes that cannot be asked, and why */
    struct buf silent;  /* nodes that did not answer, and why */
    char refused[256];  /* why the monitor's last answer has none */
    uint64_t read_ns;   /* when those on other nodes were read */
};

/* Asks for the ranks, unless a request is under way, through the connection of top_functions. The
 * other nodes of the job, which has parts on so many, have a request of their own: one of them may be silent. */
void top_ranks_ask(struct top_ranks *ranks, bool connected, size_t parts);
void top_ranks_close(struct top_ranks *ranks);

/* What the table of them belongs to, and what stands behind its headings: how many of each program do what. */
struct ranks_view top_ranks_view(const struct top_ranks *ranks, bool narrow);
void top_ranks_summary(struct buf *line, const struct top_ranks *ranks);

/* The parts of a job on other nodes (jobdir/record/parts.h), followed while they grow. */

struct parts {
    struct spool_reader *readers; /* one for each of the report's parts */
    size_t count;
};

/* Adds those that are new to the report's parts, and brings what is known of all up to date. Without memory nothing is
 * new. */
void parts_look(struct parts *parts, struct job_report *report);
/* Reads their new records into their models. */
void parts_read(struct parts *parts, struct job_report *report);
void parts_done(struct parts *parts);

/* What all nodes of the job have now, as their last records say. */
struct parts_now {
    uint64_t processes, threads, rss, memory, cpu_ns, started;
    double cpu_share; /* processors in use */
    size_t nodes;     /* on which something of it may still run */
};
struct parts_now parts_sum(const struct job_report *report);
/* For how long nothing was heard of a part that has not ended; 0: it sends its samples. */
double parts_silent_seconds(const struct job_report *report, const struct job_report *part);

#endif
