/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a job's MPI ranks in scry top. */
#ifndef SCRY_CLI_TOP_RANKS_H
#define SCRY_CLI_TOP_RANKS_H

#include "cli/ranks.h"

struct top_ranks {
    struct rank_list known;
    const char *path; /* of the job */
    bool asking;
    char refused[256]; /* why the monitor's last answer has none */
    uint64_t read_ns;  /* when those on other nodes were read */
};

/* Asks for the ranks, unless a request is under way, through the connection of top_functions. */
void top_ranks_ask(struct top_ranks *ranks, bool connected);
void top_ranks_close(struct top_ranks *ranks);

/* The first line of the table, and that of one rank, without their ends. */
void top_ranks_heading(struct buf *line, const struct top_ranks *ranks, bool narrow);
void top_ranks_line(struct buf *line, const struct top_ranks *ranks, size_t index, bool narrow);

#endif
