/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who sends what to whom? Prints the messages of an MPI program while it runs.
 *
 *     messages [-n COUNT] [JOB]
 *
 * Waits until all ranks of an MPI job run (JOB: its directory or id; without: any on this node), attaches them, and
 * prints a line for each message that is sent, and for each that MPI_Recv or MPI_Sendrecv receives: when, by whom, with
 * whom, how large, how long the call took. Ends with the ranks, or after COUNT lines, with a table of who sent how much
 * to whom.
 *
 * How it works: mpi_get_ranks knows the ranks; thread_has_ended_lib_call reports the end of calls, with their
 * parameters ($peer, $tag and so on mean the same of all calls; doc/reference/mpi-calls.json has them all). The rank
 * waits while its action list runs, so the lines of a rank are in order and none is lost.
 */
#include "tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 64 };

struct rank {
    char process[64];
    int number;
    bool ended;
};

static struct rank ranks[RANKS];
static size_t rank_count, ended_count;
static uint64_t messages[RANKS][RANKS], bytes[RANKS][RANKS];
static unsigned long lines, limit;
static double first_s;

static struct rank *find_rank(const char *process)
{
    for (size_t i = 0; i < rank_count; i++)
        if (strcmp(ranks[i].process, process) == 0)
            return &ranks[i];
    return NULL;
}

/* What is asked of which calls. Both halves of MPI_Sendrecv have a line. */
static const struct direction {
    const char *arrow, *calls, *values;
} directions[] = {
    {"->", "MPI_Send,MPI_Ssend,MPI_Rsend,MPI_Bsend,MPI_Isend,MPI_Sendrecv", "$peer, $tag, $bytes"},
    {"<-", "MPI_Recv", "$peer, $tag, $received"},
    {"<-", "MPI_Sendrecv", "$source, $source_tag, $received"},
};
static const struct direction *const sends = &directions[0];

/* What the action list printed: how many values, and the list of them. */
static void on_call(struct omis_reader *reader, void *param)
{
    enum { PROCESS, TIME, CALL, DURATION, PEER, TAG, SIZE };
    const struct direction *direction = param;
    omis_reader_find(reader, 1);
    const struct omis_value *values = omis_item(omis_reader_values(reader), 1);
    struct rank *rank = find_rank(omis_text(omis_item(values, PROCESS), NULL));
    if (!rank || (limit && lines >= limit))
        return;
    double time_s = omis_floating(omis_item(values, TIME)), duration_s = omis_floating(omis_item(values, DURATION));
    int64_t peer = omis_integer(omis_item(values, PEER)), size = omis_integer(omis_item(values, SIZE));
    if (peer < 0) /* MPI_PROC_NULL: to or from nobody */
        return;
    if (!lines++)
        first_s = time_s;
    printf("%10.6f s  rank %d %s %-3" PRId64 " %-12s tag %-4" PRId64 " %8" PRId64 " bytes %10.1f us\n",
           time_s - first_s, rank->number, direction->arrow, peer, omis_text(omis_item(values, CALL), NULL),
           omis_integer(omis_item(values, TAG)), size, 1e6 * duration_s);
    if (direction == sends && peer < RANKS && rank->number < RANKS) {
        messages[rank->number][peer]++;
        bytes[rank->number][peer] += (uint64_t)size;
    }
}

static void on_end(struct omis_reader *reader, void *param)
{
    (void)param;
    omis_reader_find(reader, 1);
    struct rank *rank = find_rank(omis_text(omis_item(omis_item(omis_reader_values(reader), 1), 0), NULL));
    if (rank && !rank->ended) {
        rank->ended = true;
        ended_count++;
    }
}

/* Attaches the ranks of the first job that there is. It is complete when as many are there as MPI_COMM_WORLD has. */
static bool attach_ranks(const char *job)
{
    enum { TOKEN, MPI_JOB, RANK, SIZE, HOST, PID, LIBRARY, STATE, PROGRAM, JOB, MEMBERS };
    struct omis_reader *reader = tool_ask(": mpi_get_ranks(%s)", tool_quote(job));
    const struct omis_value *rows = omis_item(omis_reader_values(reader), 1);
    size_t running = 0, size = 0;
    rank_count = 0;
    for (size_t i = 0; i < omis_count(rows); i += MEMBERS) {
        if (strcmp(omis_text(omis_item(rows, i + STATE), NULL), "running") != 0 ||
            strcmp(omis_text(omis_item(rows, i + MPI_JOB), NULL), omis_text(omis_item(rows, MPI_JOB), NULL)) != 0)
            continue;
        running++;
        size = (size_t)omis_unsigned(omis_item(rows, i + SIZE));
        if (rank_count < RANKS) {
            struct rank *rank = &ranks[rank_count++];
            snprintf(rank->process, sizeof rank->process, "%s", omis_text(omis_item(rows, i + TOKEN), NULL));
            rank->number = (int)omis_integer(omis_item(rows, i + RANK));
        }
    }
    omis_reader_free(reader);
    if (!running || running < size)
        return false;
    for (size_t i = 0; i < rank_count; i++)
        omis_reader_free(tool_ask(": proc_attach([%s])", ranks[i].process));
    return true;
}

static void print_table(void)
{
    printf("\nmessages (bytes) from (down) to (across)\n      ");
    for (size_t to = 0; to < rank_count; to++)
        printf("%20zu", to);
    for (size_t from = 0; from < rank_count; from++) {
        printf("\n%6zu", from);
        for (size_t to = 0; to < rank_count; to++) {
            char cell[64];
            snprintf(cell, sizeof cell, "%" PRIu64 " (%" PRIu64 ")", messages[from][to], bytes[from][to]);
            printf("%20s", messages[from][to] ? cell : ".");
        }
    }
    putchar('\n');
}

int main(int argc, char **argv)
{
    int option;
    tool_start("messages", &argc, &argv, NULL);
    while ((option = getopt(argc, argv, "n:")) != -1) {
        limit = option == 'n' ? strtoul(optarg, NULL, 10) : 0;
        if (!limit)
            tool_fail("usage: messages [-n COUNT] [JOB]");
    }
    omis_reader_free(tool_ask(": node_attach2(\"\")"));
    while (!attach_ranks(optind < argc ? argv[optind] : ""))
        tool_wait(50);
    printf("%zu ranks\n", rank_count);
    tool_on(on_end, NULL, "proc_has_terminated([]) : print([$proc])");
    for (size_t i = 0; i < sizeof directions / sizeof *directions; i++)
        tool_on(on_call, (void *)&directions[i],
                "thread_has_ended_lib_call([], \"%s\") : print([$proc, $time, $call, $duration, %s])",
                directions[i].calls, directions[i].values);
    while (ended_count < rank_count && (!limit || lines < limit))
        tool_wait(-1);
    print_table();
    return omis_finalize() == OMIS_OK ? 0 : 1;
}
