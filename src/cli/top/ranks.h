/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a job's MPI ranks in scry top. */
#ifndef SCRY_CLI_TOP_RANKS_H
#define SCRY_CLI_TOP_RANKS_H

#include "cli/jobs/ranks.h"

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

#endif
