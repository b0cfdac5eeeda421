/* SPDX-License-Identifier: Apache-2.0 */
/* Situations of ranks, made by hand. */
#ifndef SCRY_JOBDIR_ANALYSIS_TEST_MPI_WHY_H
#define SCRY_JOBDIR_ANALYSIS_TEST_MPI_WHY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/system/clock.h"
#include "jobdir/analysis/why.h"

enum { LONG = 2000000000, WORLD = 0 };

struct scene {
    struct arena arena;
    struct mpi_stats_set set;
    struct mpi_why why;
};

static inline struct scene scene_of(size_t count)
{
    struct scene scene = {.arena = ARENA_INIT, .set.count = count};
    scene.set.ranks = arena_zalloc(&scene.arena, count, sizeof *scene.set.ranks);
    for (size_t i = 0; i < count; i++) {
        struct mpi_stats *stats = &scene.set.ranks[i];
        *stats = (struct mpi_stats){.name = "",
                                    .node = "n",
                                    .namespace = "",
                                    .pid = 100 + (int)i,
                                    .rank = (int)i,
                                    .world_size = (int)count,
                                    .state = MPIA_RUNNING,
                                    .running = true,
                                    .thread_count = 1,
                                    .comm_count = 1};
        stats->threads = arena_zalloc(&scene.arena, 4, sizeof *stats->threads);
        stats->comms = arena_zalloc(&scene.arena, 4, sizeof *stats->comms);
        stats->peers = arena_zalloc(&scene.arena, 8, sizeof *stats->peers);
        stats->requests = arena_zalloc(&scene.arena, 8, sizeof *stats->requests);
        for (size_t j = 0; j < 4; j++)
            stats->threads[j].now = (struct mpi_stats_now){.age_ns = LONG,
                                                           .peer = MPIA_RANK_NONE,
                                                           .tag = MPIA_TAG_NONE,
                                                           .source_peer = MPIA_RANK_NONE,
                                                           .source_tag = MPIA_TAG_NONE,
                                                           .comm = UINT32_MAX};
        stats->threads[0].is_main = true;
        stats->comms[0] = (struct mpi_stats_comm){.kind = MPIA_COMM_INTRA,
                                                  .parent = UINT32_MAX,
                                                  .size = (uint32_t)count,
                                                  .rank = (uint32_t)i,
                                                  .name = "MPI_COMM_WORLD"};
    }
    return scene;
}

static inline struct mpi_stats_now *now_of(struct scene *scene, size_t rank)
{
    return &scene->set.ranks[rank].threads[0].now;
}

static inline void receives(struct scene *scene, size_t rank, int32_t from, int32_t tag)
{
    struct mpi_stats_now *now = now_of(scene, rank);
    now->call = CALL_MPI_Recv;
    now->peer = from;
    now->tag = tag;
    now->comm = WORLD;
}

static inline void sends(struct scene *scene, size_t rank, int32_t to, int32_t tag)
{
    receives(scene, rank, to, tag);
    now_of(scene, rank)->call = CALL_MPI_Send;
}

static inline void gathers(struct scene *scene, size_t rank, uint32_t call, uint32_t ordinal, int32_t root)
{
    struct mpi_stats_now *now = now_of(scene, rank);
    now->call = call;
    now->comm = WORLD;
    now->ordinal = ordinal;
    now->peer = root;
    scene->set.ranks[rank].comms[WORLD].collectives = ordinal;
}

static inline void ends(struct scene *scene, size_t rank, uint32_t state)
{
    scene->set.ranks[rank].running = false;
    scene->set.ranks[rank].state = state;
}

static inline void look(struct scene *scene)
{
    assert_int_equal(mpi_why_find(&scene->why, &scene->set, NULL, &scene->arena), 0);
    struct buf text = BUF_INIT;
    mpi_why_text(&text, &scene->why);
    assert_false(text.failed);
    if (getenv("SHOW"))
        fputs(text.data, stderr);
    buf_done(&text);
}

static inline const struct mpi_why_finding *only(const struct scene *scene, enum mpi_why_kind kind)
{
    assert_int_equal(scene->why.finding_count, 1);
    assert_int_equal(scene->why.findings[0].kind, kind);
    return &scene->why.findings[0];
}

static inline void assert_list(const uint32_t *list, size_t count, const char *expected)
{
    char text[256] = "";
    for (size_t i = 0; i < count && i < 32; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u", i ? " " : "", list[i]);
    assert_string_equal(text, expected);
}

static inline void done(struct scene *scene)
{
    arena_done(&scene->arena);
}

#endif
