/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: a few ranks on one or two hosts, and their messages as they are read. Include after cmocka.h. */
#ifndef SCRY_JOBDIR_MPI_TEST_MPI_FIXTURE_H
#define SCRY_JOBDIR_MPI_TEST_MPI_FIXTURE_H

#include "jobdir/analysis/messages.h"
#include "jobdir/mpi/test_mpi_trace.h"

enum { US = 1000, MS = 1000 * 1000, START = 5 * MS };

struct fixture {
    char root[64];
    struct made_rank ranks[4];
    struct mpi_messages *messages;
    struct trace *traces[8];
    size_t trace_count;
};

static inline int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    snprintf(fixture->root, sizeof fixture->root, "/tmp/scry-messages-XXXXXX");
    *state = fixture;
    return mkdtemp(fixture->root) ? 0 : -1;
}

static inline int teardown(void **state)
{
    struct fixture *fixture = *state;
    mpi_messages_free(fixture->messages);
    for (size_t i = 0; i < fixture->trace_count; i++)
        trace_close(fixture->traces[i]);
    made_root_remove(fixture->root);
    free(fixture);
    return 0;
}

static inline void unexpected(void *ctx, const char *text)
{
    fail_msg("%s", text);
}

/* Of so many ranks on these nodes, with MPI_Init at the beginning. */
static inline void begin(struct fixture *fixture, size_t count, const char *const *nodes)
{
    for (size_t i = 0; i < count; i++) {
        made_rank_begin(&fixture->ranks[i], fixture->root, nodes[i], (int32_t)i, "w", START);
        made_call(&fixture->ranks[i], CALL_MPI_Init, START + 10 * US, START + 20 * US);
    }
}

static const char *const one_node[4] __attribute__((unused)) = {"a", "a", "a", "a"};
static const char *const two_nodes[4] __attribute__((unused)) = {"a", "b", "b", "b"};

static inline const struct mpi_messages *load_with(struct fixture *fixture, size_t ranks, size_t limit,
                                                   const struct mpi_stats_set *stats)
{
    char **paths;
    struct err err = {0};
    const struct mpi_messages_options options = {.start_ns = START, .limit = limit, .stats = stats};
    for (size_t i = 0; i < ranks; i++)
        made_rank_end(&fixture->ranks[i]);
    assert_int_equal(trace_list(fixture->root, &paths, &fixture->trace_count, &err), 0);
    for (size_t i = 0; i < fixture->trace_count; i++) {
        assert_int_equal(trace_open(&fixture->traces[i], paths[i], unexpected, NULL, &err), 0);
        free(paths[i]);
    }
    free(paths);
    assert_int_equal(mpi_messages_load(&fixture->messages, fixture->traces, fixture->trace_count, &options, &err), 0);
    return fixture->messages;
}

static inline const struct mpi_messages *load(struct fixture *fixture, size_t ranks, size_t limit)
{
    return load_with(fixture, ranks, limit, NULL);
}

#endif
