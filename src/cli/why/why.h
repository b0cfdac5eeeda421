/* SPDX-License-Identifier: Apache-2.0 */
/* What scry why puts together: what other nodes of the job say, and what blocks processes that are no ranks. */
#ifndef SCRY_CLI_WHY_WHY_H
#define SCRY_CLI_WHY_WHY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "base/data/err.h"
#include "jobdir/analysis/why.h"
#include "jobdir/mpi/stats.h"
#include "jobdir/record/layers.h"
#include "jobdir/text/fields.h"

/* ---- a job on several nodes: has them look at their ranks, and asks them where these are ---- */

struct why_looked {
    const char *node, *token, *problem;
    uint64_t ranks, taken; /* taken: ns, wall clock of the node */
};

struct why_nodes {
    struct why_looked *list; /* that have answered */
    size_t count;
    struct buf missing; /* the others, for people; "" */
    struct omis_reader *reply;
};

/* Asks the monitor that is connected (client_join): all nodes of the job write what their ranks do to its directory, or those of
 * its parts. 0, or -errno with err: where the job began, there is no answer. why_nodes_done in any case. */
int why_nodes_look(struct why_nodes *nodes, const char *jobdir, struct err *err);
/* The same of a job behind a broker, whose monitor is connected. */
int why_nodes_look_there(struct why_nodes *nodes, const char *jobdir, struct err *err);
/* Is that here? What is on other nodes is brought first, if no file system is shared. */
bool why_nodes_came(const struct why_nodes *nodes, const struct mpi_stats_set *set);
void why_nodes_done(struct why_nodes *nodes);

/* Sets `where`, `blocked` and `python` of ranks that are not on this host, of `most` at most. */
void why_nodes_wheres(struct mpi_why *mpi, const char *jobdir, const char *host, size_t most, struct arena *arena);

/* ---- what blocks the threads of processes that are no ranks (job/places/blocked.h) ---- */

/* Adds those for which these wait (who has the other end of a pipe, a lock), for which those wait, and so on, as far as they may be
 * looked at; so the end of the chain is among them, and every circle. `list` is from malloc. 0 or -ENOMEM. */
int why_processes_follow(pid_t **list, size_t *count);
/* For which of them the others wait, and for what that waits (job/places/deadlocks.h); nothing, if that is not so. layers: for the lines
 * of scripts; NULL: none are known. */
void why_processes_awaited(struct buf *out, const pid_t *pids, size_t count, const struct layers *layers);
/* Of a job of MPI, these are no ranks: that one was stopped by a signal, for ranks may wait for it. With `ended` > 0, so many ranks have
 * ended and none is left: that the launcher is still there. */
void why_processes_beside(struct buf *out, const pid_t *pids, size_t count, size_t ended);
/* That one of them computes, if one does. */
void why_processes_computing(struct buf *out, const pid_t *pids, size_t count);
void why_processes_text(struct buf *out, const pid_t *pids, size_t count, const struct layers *layers);
extern const struct field why_process_fields[];
json_t *why_processes_json(const pid_t *pids, size_t count); /* a new reference */
/* Is a library of MPI loaded in the process? */
bool why_processes_use_mpi(pid_t pid);

#endif
