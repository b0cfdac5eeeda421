/* SPDX-License-Identifier: Apache-2.0 */
/* The MPI ranks of a job as scry top shows them: a table, as it is asked again and again. */
#ifndef SCRY_CLI_TOP_RANKS_H
#define SCRY_CLI_TOP_RANKS_H

#include "cli/ranks.h"

struct top_ranks {
    struct rank_list known;
    const char *path; /* of the job */
    bool asking;
    char refused[256]; /* why the monitor did not tell them, when it was asked last */
    uint64_t read_ns;  /* when those on other nodes were read */
};

/* Asks for them, unless that is under way; the connection is that of top_functions. */
void top_ranks_ask(struct top_ranks *ranks, bool connected);
void top_ranks_close(struct top_ranks *ranks);

/* The first line of the table, and that of one rank, without their ends. */
void top_ranks_heading(struct buf *line, const struct top_ranks *ranks, bool narrow);
void top_ranks_line(struct buf *line, const struct top_ranks *ranks, size_t index, bool narrow);

#endif
