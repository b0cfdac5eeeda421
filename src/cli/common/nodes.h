/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes of a running job, for commands that ask all of them: those to which a launcher went
 * and those that have a part in the job directory. Call after omis_init or client_join.
 */
#ifndef SCRY_CLI_COMMON_NODES_H
#define SCRY_CLI_COMMON_NODES_H

#include <stdbool.h>
#include <stddef.h>

#include <scry/omis.h>

#include "base/data/buf.h"
#include "base/data/err.h"

struct job_node {
    const char *name;
    const char *token;   /* of the monitor that was asked; "u_0": it cannot be asked now */
    const char *problem; /* why; "" */
};

struct job_nodes {
    struct job_node *list; /* this node first */
    size_t count;
    struct omis_reader *reply;
};

/* Attaches them, all at the same time; of a job that ran here alone only this node. Nodes that cannot be reached are in the list
 * with the reason. 0, or -errno with err. job_nodes_done in any case. */
int job_nodes_attach(struct job_nodes *ret_nodes, const char *jobdir, struct err *err);
/* The same in two steps, for a command that does other things meanwhile: the request, and its answer. */
int job_nodes_request(struct buf *ret_request, const char *jobdir, struct err *err);
int job_nodes_answer(struct job_nodes *ret_nodes, Omis_reply reply_take, struct err *err);
/* Are there others? */
static inline bool job_nodes_has_others(const struct job_nodes *nodes)
{
    return nodes->count > 1;
}
/* Appends "[n_1,n_3]": those that can be asked, from the first of the list on, or the second: the others. Returns how many;
 * the empty list means more to a monitor. */
size_t job_nodes_put(struct buf *request, const struct job_nodes *nodes, size_t first);
/* The name for people of an object's node, from its token ("n_3", "p_3_17"); NULL: it is none of these. */
const char *job_nodes_name(const struct job_nodes *nodes, const char *token);
/* Whether the node of this host could not be reached. */
bool job_nodes_has_problem(const struct job_nodes *nodes, const char *host);
/* Appends "node n3 cannot be asked: ..." for each, separated by "; ". */
void job_nodes_put_problems(struct buf *out, const struct job_nodes *nodes);
void job_nodes_done(struct job_nodes *nodes);

#endif
