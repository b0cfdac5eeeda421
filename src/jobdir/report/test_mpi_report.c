/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of a few ranks, made by hand: what the report makes of them. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/data/cleanup.h"
#include "jobdir/mpi/look.h"
#include "jobdir/layers/cause.h"
#include "jobdir/report/internal.h"
#include "jobdir/report/mpi_report.h"
#include "jobdir/report/report.h"
#include "shm/mpi_told.h"

enum { US = 1000, MS = 1000 * US, SECOND = 1000 * MS, ROOM = 8 };

DEFINE_FREEP(mpi_report, mpi_report_free)

/* So many ranks that ran for a second, of which a tenth in a barrier. */
static struct mpi_report *made(int32_t count)
{
    struct mpi_report *report = calloc(1, sizeof *report);
    report->set.arena = calloc(1, sizeof *report->set.arena);
    report->set.count = (size_t)count;
    report->set.ranks = arena_zalloc(report->set.arena, (size_t)count, sizeof *report->set.ranks);
    for (int32_t i = 0; i < count; i++) {
        struct mpi_stats *stats = &report->set.ranks[i];
        *stats = (struct mpi_stats){.name = "n/1-0",
                                    .node = "n",
                                    .exe = "/bin/solver",
                                    .processor = "n",
                                    .library = "mpich",
                                    .library_version = "MPICH",
                                    .namespace = "w",
                                    .fault = "",
                                    .pid = 100 + i,
                                    .rank = i,
                                    .world_size = count,
                                    .state = MPIA_ENDED};
        stats->threads = arena_zalloc(report->set.arena, ROOM, sizeof *stats->threads);
        stats->rows = arena_zalloc(report->set.arena, ROOM, sizeof *stats->rows);
        stats->spans = arena_zalloc(report->set.arena, ROOM, sizeof *stats->spans);
        stats->sites = arena_zalloc(report->set.arena, ROOM, sizeof *stats->sites);
        stats->peers = arena_zalloc(report->set.arena, ROOM, sizeof *stats->peers);
        stats->comms = arena_zalloc(report->set.arena, ROOM, sizeof *stats->comms);
        stats->thread_count = stats->row_count = stats->site_count = stats->comm_count = 1;
        stats->threads[0].is_main = true;
        stats->threads[0].outermost = stats->threads[0].blocking =
            (struct mpi_stats_clock){.total_ns = SECOND,
                                     .compute_ns = SECOND - 100 * MS,
                                     .communicate_ns = 100 * MS,
                                     .count = 1,
                                     .compute_min_ns = US,
                                     .compute_max_ns = SECOND - 100 * MS,
                                     .communicate_min_ns = 100 * MS,
                                     .communicate_max_ns = 100 * MS};
        stats->rows[0] = (struct mpi_stats_row){
            .call = CALL_MPI_Barrier, .count = 1, .total_ns = 100 * MS, .min_ns = 100 * MS, .max_ns = 100 * MS};
        stats->sites[0] = (struct mpi_stats_site){.call = CALL_MPI_Barrier,
                                                  .module = "/bin/solver",
                                                  .build_id = "",
                                                  .offset = 0x10,
                                                  .function = "all",
                                                  .file = "solver.c",
                                                  .line = 7,
                                                  .count = 1,
                                                  .total_ns = 100 * MS,
                                                  .min_ns = 100 * MS,
                                                  .max_ns = 100 * MS};
        stats->comms[0] = (struct mpi_stats_comm){.kind = MPIA_COMM_INTRA,
                                                  .parent = UINT32_MAX,
                                                  .size = (uint32_t)count,
                                                  .rank = (uint32_t)i,
                                                  .name = "MPI_COMM_WORLD",
                                                  .identity = MPI_IDENTITY_WORLD,
                                                  .collectives = 1};
    }
    return report;
}

static struct buf text_of(struct mpi_report *report, int rank)
{
    struct buf text = BUF_INIT;
    if (!report->world_of)
        assert_int_equal(mpi_report_add_up(report), 0);
    mpi_report_text(&text, report, rank);
    buf_putc(&text, '\0');
    assert_false(text.failed);
    return text;
}

static void check_has(const struct buf *text, const char *part)
{
    if (!strstr(text->data, part))
        fail_msg("\"%s\" is not in:\n%s", part, text->data);
}

static void check_has_not(const struct buf *text, const char *part)
{
    if (strstr(text->data, part))
        fail_msg("\"%s\" is in:\n%s", part, text->data);
}

/* The line that begins with that, without its end. */
static const char *line_of(const struct buf *text, const char *begin)
{
    static char line[256];
    const char *at = strstr(text->data, begin);
    if (!at)
        fail_msg("no line with \"%s\" in:\n%s", begin, text->data);
    at += *at == '\n';
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    return line;
}

static void wait_in_other_thread(struct mpi_stats *stats)
{
    stats->threads[stats->thread_count++].outermost =
        (struct mpi_stats_clock){.total_ns = SECOND, .communicate_ns = 900 * MS, .count = 60};
    stats->rows[stats->row_count++] = (struct mpi_stats_row){.call = CALL_MPI_Wait,
                                                             .count = 60,
                                                             .total_ns = 900 * MS,
                                                             .min_ns = 15 * MS,
                                                             .max_ns = 15 * MS,
                                                             .others_count = 60,
                                                             .others_ns = 900 * MS};
    stats->sites[stats->site_count++] = (struct mpi_stats_site){.call = CALL_MPI_Wait,
                                                                .module = "/bin/solver",
                                                                .build_id = "",
                                                                .offset = 0x20,
                                                                .function = "worker",
                                                                .file = "solver.c",
                                                                .line = 12,
                                                                .count = 60,
                                                                .total_ns = 900 * MS,
                                                                .min_ns = 15 * MS,
                                                                .max_ns = 15 * MS,
                                                                .others_count = 60,
                                                                .others_ns = 900 * MS};
}

/* Their calls are said apart: no part of the rank's time in MPI is more than all of it. */
static void test_other_threads(void **state)
{
    _cleanup_(mpi_report_freep) struct mpi_report *report = made(2);
    wait_in_other_thread(&report->set.ranks[0]);
    wait_in_other_thread(&report->set.ranks[1]);
    report->set.ranks[1].sites[0].others_count = 1; /* one of two threads that came there */
    report->set.ranks[1].sites[0].others_ns = 50 * MS;
    _cleanup_(buf_done) struct buf text = text_of(report, -1);
    check_has(&text, "10.0 % of the ranks' time in MPI");
    check_has(&text, "  120 calls of other threads took 1.80 s; ");
    check_has(&text, "  max   in MPI      others  ranks  where\n");
    assert_non_null(strstr(line_of(&text, "MPI_Wait                           120      1.80 s     15.0 ms     15.0 ms"),
                           "        -      1.80 s      2  worker (solver.c:12)"));
    assert_non_null(strstr(line_of(&text, "MPI_Barrier                          2      200 ms      100 ms      100 ms"),
                           "  75.00 %     50.0 ms      2  all (solver.c:7)"));
    assert_non_null(
        strstr(line_of(&text, "\n  calls of other threads"), " 120           -           -      1.80 s     15.0 ms"));
    assert_int_equal(report->others_ns, 1800 * MS);
    _cleanup_(buf_done) struct buf one = text_of(report, 1);
    assert_non_null(
        strstr(line_of(&one, "\n  calls of other threads"), " 60           -           -      900 ms     15.0 ms"));
    struct buf summary = BUF_INIT;
    mpi_report_summary(&summary, report);
    buf_putc(&summary, '\0');
    check_has(&summary, "10.0 % of the ranks' time in MPI, without ");
    buf_done(&summary);
}

/* Of blocking calls apart only what differs. */
static void test_blocking(void **state)
{
    for (int i = 0; i < 2; i++) {
        _cleanup_(mpi_report_freep) struct mpi_report *report = made(2);
        struct mpi_stats_clock *blocking = &report->set.ranks[0].threads[0].blocking;
        if (i) {
            blocking->compute_ns += 50 * MS;
            blocking->communicate_ns -= 50 * MS;
        }
        _cleanup_(buf_done) struct buf text = text_of(report, -1);
        (i ? check_has : check_has_not)(&text, "; counting blocking calls only: 7.5 %");
        (i ? check_has : check_has_not)(&text, "\n  of blocking calls only:\n");
    }
}

static void test_one_thread(void **state)
{
    _cleanup_(mpi_report_freep) struct mpi_report *report = made(2);
    _cleanup_(buf_done) struct buf text = text_of(report, -1);
    check_has_not(&text, "other");
    check_has(&text, " 100.00 %      2  all (solver.c:7)");
}

/* It computed for so long, of `ran`, and was in MPI_Allreduce for the rest. */
static void work(struct mpi_stats *stats, uint64_t seconds, uint64_t ran)
{
    uint64_t waited_ns = (ran - seconds) * SECOND;
    stats->threads[0].outermost = stats->threads[0].blocking = (struct mpi_stats_clock){
        .total_ns = ran * SECOND, .compute_ns = seconds * SECOND, .communicate_ns = waited_ns, .count = 1};
    stats->rows[0] = (struct mpi_stats_row){.call = CALL_MPI_Allreduce, .count = 1, .total_ns = waited_ns};
}

static void check_summary(struct mpi_report *report, const char *wanted, bool is_uneven)
{
    assert_int_equal(mpi_report_add_up(report), 0);
    json_t *json = json_object();
    struct buf text = BUF_INIT;
    mpi_report_json(json, report);
    assert_string_equal(json_string_value(json_object_get(json_object_get(json, "mpi"), "summary")), wanted);
    json_decref(json);
    for (int i = 0; i < 2; i++) {
        if (i)
            mpi_report_text(&text, report, -1);
        else
            mpi_report_summary(&text, report);
        assert_int_equal(strstr(text.data, " computed for ") != NULL, is_uneven);
        assert_non_null(strstr(text.data, wanted));
        buf_clear(&text);
    }
    buf_done(&text);
    mpi_report_free(report);
}

/* Who was waited for, where that costs something: else how much of the time was in MPI. */
static void test_imbalance(void **state)
{
    struct mpi_report *report = made(4);
    for (int i = 0; i < 4; i++)
        work(&report->set.ranks[i], i == 1 ? 60 : 1, 61);
    check_summary(
        report,
        "rank 1 computed for 60.0 s, the 3 others for 1.00 s on average; they waited in MPI_Allreduce for 60.0 s",
        true);
    report = made(2);
    work(&report->set.ranks[0], 40, 41);
    work(&report->set.ranks[1], 20, 41);
    report->set.ranks[1].rows[0].total_ns = UINT64_C(9) * SECOND; /* and in many others */
    check_summary(report, "rank 0 computed for 40.0 s, rank 1 for 20.0 s; it waited in MPI for 21.0 s", true);
    report = made(6);
    for (int i = 0; i < 6; i++)
        work(&report->set.ranks[i], i == 1 || i == 4 ? 60 - (unsigned)i : 10, 60);
    check_summary(report,
                  "ranks 1 and 4 computed for up to 59.0 s, the 4 others for 10.0 s on average; they waited in "
                  "MPI_Allreduce for 50.0 s",
                  true);
}

static void test_little_imbalance(void **state)
{
    struct mpi_report *report = made(2);
    work(&report->set.ranks[0], 4, 4);
    work(&report->set.ranks[1], 0, 4);
    check_summary(report, "50.0 % of the ranks' time in MPI (0.0 % rank 0 to 100.0 % rank 1)", false);
    report = made(2);
    work(&report->set.ranks[0], 100, 100);
    work(&report->set.ranks[1], 92, 100);
    check_summary(report, "4.0 % of the ranks' time in MPI (0.0 % rank 0 to 8.0 % rank 1)", false);
    report = made(1);
    work(&report->set.ranks[0], 60, 100);
    check_summary(report, "40.0 % of the ranks' time in MPI", false);
}

static void end(struct mpi_stats *stats, int status, double seconds)
{
    stats->state = MPIA_RUNNING;
    stats->end = (struct mpi_stats_end){.known = true, .status = status, .seconds = seconds};
    stats->threads[0].now.call = stats->threads[0].last.call = CALL_NONE;
}

static void check_failed(struct job_report *report, int rank, const char *how, const char *call)
{
    struct job_rank failed;
    struct buf its_how = BUF_INIT, its_call = BUF_INIT;
    assert_non_null(report_failed_rank(report, &failed, &its_how, &its_call));
    assert_int_equal(failed.rank, rank);
    assert_string_equal(failed.how, how);
    assert_string_equal(failed.call ? failed.call : "", call);
    buf_done(&its_how);
    buf_done(&its_call);
}

/* The rank that failed is told with its place: what it was in, or what it had come out of. */
static void test_failed_rank(void **state)
{
    struct mpi_report *mpi = made(3);
    struct job_report report = {.mpi = mpi};
    const struct mpi_stats_site at = {.module = "/bin/solver", .function = "receive", .file = "solver.c", .line = 6};
    assert_int_equal(mpi_report_add_up(mpi), 0);
    struct mpi_stats *ranks = mpi->set.ranks;
    end(&ranks[0], 15, 3);
    end(&ranks[1], 0, 2);
    end(&ranks[2], 15, 3);
    check_failed(&report, 1, "exited with status 0 without MPI_Finalize", "");
    ranks[1].threads[0].last = (struct mpi_stats_now){.call = CALL_MPI_Allreduce, .site = at};
    check_failed(&report, 1, "exited with status 0 without MPI_Finalize, after MPI_Allreduce at receive (solver.c:6)",
                 "");
    end(&ranks[1], 15 << 8, 2);
    ranks[1].threads[0].now = (struct mpi_stats_now){.call = CALL_MPI_Recv, .site = at};
    check_failed(&report, 1, "exited with status 15 without MPI_Finalize, in MPI_Recv at receive (solver.c:6)", "");
    ranks[1].aborted = true;
    ranks[1].abort_code = 3;
    check_failed(&report, 1, "called MPI_Abort with 3", "");
    ranks[1].threads[0].now.call = CALL_MPI_Abort;
    check_failed(&report, 1, "called MPI_Abort with 3 at receive (solver.c:6)", "");
    mpi_report_free(mpi);
}

/* MPICH kills the rank that failed as all others, but says which it was. */
static void test_named_rank(void **state)
{
    struct mpi_report *mpi = made(3);
    struct job_report report = {.mpi = mpi};
    const struct mpi_stats_site at = {.module = "/bin/solver", .function = "receive", .file = "solver.c", .line = 6};
    assert_int_equal(mpi_report_add_up(mpi), 0);
    struct mpi_stats *ranks = mpi->set.ranks;
    for (int i = 0; i < 3; i++)
        end(&ranks[i], SIGKILL, 3 - i);
    ranks[1].threads[0].now = (struct mpi_stats_now){.call = CALL_MPI_Recv, .site = at};
    report.model.layers.logs.records = json_pack(
        "[{s:s}]", "text", "Abort(14) on node 1 (rank 1 in comm 0): Fatal error in internal_Recv: Message truncated");
    check_failed(&report, 1, "was killed by SIGKILL", "MPI_Recv at receive (solver.c:6)");
    json_decref(report.model.layers.logs.records);
    mpi_report_free(mpi);
}

/* Both groups have made it of what they call differently: two halves of the world. */
static void test_merged(void **state)
{
    _cleanup_(mpi_report_freep) struct mpi_report *report = made(4);
    for (uint32_t i = 0; i < 4; i++) {
        struct mpi_stats *stats = &report->set.ranks[i];
        stats->comms[1] = (struct mpi_stats_comm){.kind = MPIA_COMM_INTRA,
                                                  .number = 2,
                                                  .ordinal = 1,
                                                  .call = CALL_MPI_Comm_split,
                                                  .lowest = (int32_t)i % 2,
                                                  .size = 2,
                                                  .name = "half",
                                                  .identity = 100 + i % 2};
        stats->comms[2] = (struct mpi_stats_comm){.kind = MPIA_COMM_INTER,
                                                  .number = 3,
                                                  .parent = 2,
                                                  .ordinal = 1,
                                                  .call = CALL_MPI_Intercomm_create,
                                                  .lowest = (int32_t)i % 2,
                                                  .size = 2,
                                                  .remote_size = 2,
                                                  .name = "inter",
                                                  .identity = 200};
        stats->comms[3] = (struct mpi_stats_comm){.kind = MPIA_COMM_INTRA,
                                                  .number = 4,
                                                  .parent = 3,
                                                  .ordinal = 1,
                                                  .call = CALL_MPI_Intercomm_merge,
                                                  .size = 4,
                                                  .name = "merged",
                                                  .identity = 300,
                                                  .collectives = 2};
        stats->comm_count = 4;
    }
    assert_int_equal(mpi_report_add_up(report), 0);
    assert_int_equal(report->comm_count, 5); /* two halves */
    unsigned merged = 0;
    for (size_t i = 0; i < report->comm_count; i++) {
        const struct mpi_report_comm *comm = &report->comms[i];
        const char *name = comm->stats->comms[comm->index].name;
        merged += strcmp(name, "merged") == 0;
        assert_int_equal(comm->ranks, strcmp(name, "half") == 0 ? 2 : 4);
    }
    assert_int_equal(merged, 1);
}

static void test_resets(void **state)
{
    _cleanup_(mpi_report_freep) struct mpi_report *report = made(3);
    for (uint32_t i = 0; i < 2; i++) {
        report->set.ranks[i].resets = 1 + i;
        report->set.ranks[i].reset_ns = 250 * MS + i * MS;
    }
    _cleanup_(buf_done) struct buf text = text_of(report, -1);
    check_has(&text,
              "  counting began anew on 2 ranks (MPI_Pcontrol(2), or a tool), up to 2 times, the last time 251 ms "
              "after MPI_Init: ");
}

static void test_freed(void **state)
{
    _cleanup_(mpi_report_freep) struct mpi_report *report = made(3);
    report->set.ranks[1].receives_freed = 2;
    _cleanup_(buf_done) struct buf text = text_of(report, -1);
    check_has(&text,
              "  2 receives were given up by MPI_Request_free, on rank 1: what was received is not known, and in none "
              "of these numbers\n");
}

/* Receives that were given up may have got messages: these are not said to be lost. */
static void check_lost(uint64_t freed, uint64_t omitted, const char *wanted)
{
    _cleanup_(mpi_report_freep) struct mpi_report *report = made(2);
    for (size_t i = 0; i < 2; i++) {
        struct mpi_stats *stats = &report->set.ranks[i];
        stats->peer_count = 1;
        stats->peers[0] = (struct mpi_stats_peer){
            .peer = 1 - (int32_t)i, .sent_count = i ? 0 : 5, .sent_bytes = i ? 0 : 40, .got_count = i ? 1 : 0};
    }
    report->set.ranks[1].receives_freed = freed;
    report->set.ranks[1].requests_omitted = omitted;
    _cleanup_(buf_done) struct buf text = text_of(report, -1);
    check_has(&text, wanted);
    if (freed + omitted > 4)
        check_has_not(&text, "but not received");
    json_t *all = json_object();
    mpi_report_json(all, report);
    const json_t *cell = json_array_get(json_object_get(json_object_get(all, "mpi"), "matrix"), 0);
    assert_int_equal(json_integer_value(json_object_get(cell, "messages")), 5);
    assert_int_equal(json_is_null(json_object_get(cell, "received_messages")), omitted > 0);
    assert_int_equal(json_is_null(json_object_get(cell, "received_bytes")), omitted > 0);
    json_decref(all);
}

static void test_freed_receives_may_have_got(void **state)
{
    check_lost(0, 0, "\n  4 messages were sent, but not received\n");
    check_lost(
        3, 0,
        "\n  1 message was sent, but not received\n  of 3 messages sent it is not known whether a receive got them ");
    check_lost(9, 0,
               "\n  of 4 messages sent it is not known whether a receive got them that MPI_Request_free gave up\n");
    check_lost(
        0, 9,
        "\n  of 4 messages sent it is not known whether a receive got them that found no room among the operations "
        "under way\n");
    check_lost(1, 9, " a receive got them that MPI_Request_free gave up, or that found no room among");
}

/* What is sent and received stands with the calls, and is not known of the time from begin to completion. */
static void test_completions(void **state)
{
    _cleanup_(mpi_report_freep) struct mpi_report *report = made(1);
    struct mpi_stats *stats = &report->set.ranks[0];
    stats->spans[stats->span_count++] = (struct mpi_stats_row){
        .call = CALL_MPI_Irecv, .count = 2, .total_ns = 4 * MS, .min_ns = MS, .max_ns = 3 * MS, .args_bytes = 4096};
    _cleanup_(buf_done) struct buf text = text_of(report, -1);
    check_has(&text, "total     average arguments      sent  received\n");
    check_has(&text,
              "\nBegun until completed              count         min         max       total     average arguments\n");
    assert_null(strstr(line_of(&text, "MPI_Irecv"), "0 B"));
}

/* Who died first stands first, with what it was in: the others were killed for it. */
static void test_deaths(void **state)
{
    _cleanup_(mpi_report_freep) struct mpi_report *report = made(3);
    struct job_process ended[] = {{.pid = 102, .end = 1.5, .status = 6 << 8},
                                  {.pid = 100, .end = 1.625, .status = 15},
                                  {.pid = 101, .end = 1.75, .status = JOB_STATUS_UNKNOWN}};
    const struct job_model model = {.ended = ended, .ended_count = 3};
    for (size_t i = 0; i < 3; i++)
        report->set.ranks[i].state = MPIA_RUNNING;
    struct mpi_stats_now *now = &report->set.ranks[2].threads[0].now;
    *now = (struct mpi_stats_now){.call = CALL_MPI_Send,
                                  .peer = 9,
                                  .tag = 4,
                                  .source_peer = MPIA_RANK_NONE,
                                  .source_tag = MPIA_TAG_NONE,
                                  .site = report->set.ranks[2].sites[0]};
    assert_int_equal(mpi_report_add_up(report), 0);
    assert_int_equal(mpi_ends_find(&report->set, &(struct mpi_ends_of){.model = &model}), 0);
    _cleanup_(buf_done) struct buf text = text_of(report, -1);
    check_has(&text,
              "\n  rank 2 exited with status 6 without MPI_Finalize, the first of 3 ranks that ended without "
              "MPI_Finalize\n"
              "  rank 2 (n, process 102): exited with status 6 without MPI_Finalize, in MPI_Send to rank 9, tag 4 "
              "on MPI_COMM_WORLD, all (solver.c:7), 1.500 s after the start: the first\n"
              "  rank 0 (n, process 100): killed by SIGTERM, 1.625 s after the start\n"
              "  rank 1 (n, process 101): died without MPI_Finalize, 1.750 s after the start\n");
}

/* One that still went through its end when the records did is not the first; unless records were lost. */
static void test_death_later_than_the_records(void **state)
{
    for (int lost = 0; lost < 2; lost++) {
        _cleanup_(mpi_report_freep) struct mpi_report *report = made(3);
        struct job_process ended[] = {{.pid = 102, .end = 1.5, .status = 9}, {.pid = 100, .end = 1.625, .status = 15}};
        struct job_process last = {.pid = 101, .end = -1};
        struct job_model model = {.ended = ended, .ended_count = 2, .warnings = {.records = json_array()}};
        HASH_ADD_INT(model.alive, pid, &last);
        if (lost)
            json_array_append_new(model.warnings.records, json_pack("{s:s}", "kind", "lost"));
        for (size_t i = 0; i < 3; i++)
            report->set.ranks[i].state = MPIA_RUNNING;
        assert_int_equal(mpi_report_add_up(report), 0);
        assert_int_equal(mpi_ends_find(&report->set, &(struct mpi_ends_of){.model = &model}), 0);
        _cleanup_(buf_done) struct buf text = text_of(report, -1);
        check_has(&text,
                  lost ? "\n  3 ranks ended without MPI_Finalize\n"
                       : "\n  rank 2 was killed by SIGKILL, the first of 3 ranks that ended without MPI_Finalize\n");
        check_has(&text, "\n  rank 1 (n, process 101): died without MPI_Finalize\n");
        HASH_CLEAR(hh, model.alive);
        json_decref(model.warnings.records);
    }
}

/* The records of a lost node end while its rank runs. After the job that one does not run, and those that were killed for it are not
 * the first. */
static void test_lost_node(void **state)
{
    static const struct {
        enum job_state part;
        bool ended;   /* the job */
        int32_t seen; /* of its rank, last */
        const char *lost, *ends;
    } cases[] = {
        {JOB_LOST, true, MPIA_RUNNING, "lost with its node", "3 ranks ended without MPI_Finalize\n"},
        {JOB_LOST, false, MPIA_RUNNING, "lost with its node", "3 ranks ended without MPI_Finalize\n"},
        {JOB_UNREACHABLE, true, MPIA_RUNNING, "lost with its node", "3 ranks ended without MPI_Finalize\n"},
        {JOB_UNREACHABLE, false, MPIA_RUNNING, "running", "rank 0 was killed by SIGTERM, the first of 2 ranks "},
        {JOB_RUNNING, true, MPIA_RUNNING, "running", "rank 0 was killed by SIGTERM, the first of 2 ranks "},
        {JOB_LOST, true, MPIA_LOADED, "lost with its node", "3 ranks ended without MPI_Finalize\n"},
        {JOB_LOST, true, MPIA_ENDED, "", "rank 0 was killed by SIGTERM, the first of 2 ranks "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        _cleanup_(mpi_report_freep) struct mpi_report *report = made(3);
        struct job_process ended[] = {{.pid = 100, .end = 1.5, .status = 15}, {.pid = 101, .end = 1.625, .status = 15}};
        struct job_process last = {.pid = 102, .end = -1};
        struct job_report part = {.path = "job/parts/m", .state = cases[i].part, .info = {.host = "m"}};
        const struct job_report job = {.path = "job",
                                       .info = {.host = "n", .ended = cases[i].ended},
                                       .model = {.ended = ended, .ended_count = 2},
                                       .parts = &part,
                                       .part_count = 1};
        HASH_ADD_INT(part.model.alive, pid, &last);
        for (size_t k = 0; k < 3; k++)
            report->set.ranks[k].state = MPIA_RUNNING;
        report->set.ranks[2].state = cases[i].seen;
        report->set.ranks[2].running = true;
        report->set.ranks[2].node = "m";
        report->set.ranks[2].dir = part.path;
        assert_int_equal(job_report_find_ends(&job, &report->set), 0);
        assert_string_equal(mpi_report_fate(&report->set.ranks[2]), cases[i].lost);
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        mpi_ends_text(&text, &report->set, "");
        buf_putc(&text, '\0');
        check_has(&text, cases[i].ends);
        HASH_CLEAR(hh, part.model.alive);
    }
}

/* Of its rank nothing may be left at all. Who ended by itself may be the first all the same. */
static void test_lost_rank(void **state)
{
    static const struct {
        enum job_state part;
        int world, status; /* of rank 0 */
        const char *ends;
    } cases[] = {
        {JOB_LOST, 3, 15, "2 ranks ended without MPI_Finalize\n"},
        {JOB_LOST, 3, 3 << 8, "rank 0 exited with status 3 without MPI_Finalize, the first of 2 ranks "},
        {JOB_LOST, 2, 15, "rank 0 was killed by SIGTERM, the first of 2 ranks "},
        {JOB_ENDED, 3, 15, "rank 0 was killed by SIGTERM, the first of 2 ranks "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        _cleanup_(mpi_report_freep) struct mpi_report *report = made(2);
        struct job_process ended[] = {{.pid = 100, .end = 1.5, .status = cases[i].status},
                                      {.pid = 101, .end = 1.625, .status = 15}};
        struct job_report parts[] = {{.path = "job/parts/m", .state = cases[i].part, .info = {.host = "m"}},
                                     {.path = "job/parts/o", .state = JOB_ENDED, .info = {.host = "o"}}};
        const struct job_report job = {.path = "job",
                                       .info = {.host = "n", .ended = true},
                                       .model = {.ended = ended, .ended_count = 2},
                                       .parts = parts,
                                       .part_count = 2};
        for (size_t k = 0; k < 2; k++) {
            report->set.ranks[k].state = MPIA_RUNNING;
            report->set.ranks[k].world_size = cases[i].world;
        }
        assert_int_equal(job_report_find_ends(&job, &report->set), 0);
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        mpi_ends_text(&text, &report->set, "");
        buf_putc(&text, '\0');
        check_has(&text, cases[i].ends);
    }
}

static void test_paused(void **state)
{
    _cleanup_(mpi_report_freep) struct mpi_report *report = made(3);
    static struct mpi_stats_row init = {.call = CALL_MPI_Init, .count = 1};
    for (size_t i = 0; i < 3; i++) {
        report->set.ranks[i].rows = &init;
        report->set.ranks[i].row_count = 1;
    }
    report->set.ranks[0].paused_ns = 40 * MS;
    report->set.ranks[1].paused_ns = 3;
    report->set.ranks[2].paused_ns = 60 * MS;
    struct buf text = text_of(report, -1);
    check_has(&text, "\n  counting was off for 100 ms of the ranks' time together (MPI_Pcontrol(0), or `scry set`): ");
    assert_null(strstr(text.data, "before counting began"));
    buf_done(&text);
    report->set.ranks[2].row_count = 0;
    text = text_of(report, -1);
    check_has(&text, "\n  1 rank came out of MPI_Init before counting began ");
    check_has(&text, "\n  counting was off for 40.0 ms of the ranks' time together");
    buf_done(&text);
}

/* What was not measured is not 0. */
static void test_unmeasured(void **state)
{
    _cleanup_(mpi_report_freep) struct mpi_report *report = made(2);
    static struct mpi_stats_row rows[2][2];
    for (size_t i = 0; i < 2; i++) {
        struct mpi_stats *stats = &report->set.ranks[i];
        rows[i][0] = (struct mpi_stats_row){.call = CALL_MPI_Send, .count = 1, .args_bytes = 100, .sent_bytes = 100};
        rows[i][1] = (struct mpi_stats_row){.call = CALL_MPI_Irecv, .count = 1, .args_bytes = 100};
        stats->rows = rows[i];
        stats->row_count = 2;
        stats->span_count = stats->peer_count = 0;
        stats->clocks_off = stats->peers_off = stats->requests_off = true;
        stats->threads[0].outermost = stats->threads[0].blocking = (struct mpi_stats_clock){0};
    }
    _cleanup_(buf_done) struct buf text = text_of(report, -1);
    check_has(&text, "their time in MPI is not known: it was not measured (--mpi-metrics)\n");
    check_has(&text, "\n  the user's messages           400 B      200 B          -\n");
    check_has_not(&text, "Balance over ranks");
    check_has_not(&text, "communication overhead");
    json_t *all = json_object();
    mpi_report_json(all, report);
    const json_t *mpi = json_object_get(all, "mpi"), *rank = json_array_get(json_object_get(mpi, "ranks"), 0);
    assert_true(json_is_null(json_object_get(mpi, "time")));
    assert_int_equal(json_array_size(json_object_get(mpi, "unmeasured")), 3);
    static const char *const names[] = {"run_ns", "communication_ns", "share", "time", "blocking"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(json_is_null(json_object_get(rank, names[i])));
    const json_t *receive = json_array_get(json_object_get(mpi, "calls"), 0);
    assert_string_equal(json_string_value(json_object_get(receive, "name")), "MPI_Irecv");
    assert_true(json_is_null(json_object_get(receive, "received_bytes")));
    json_decref(all);
}

/* --mpi-metrics clocks: only those were. */
static void test_only_clocks(void **state)
{
    _cleanup_(mpi_report_freep) struct mpi_report *report = made(2);
    static struct mpi_stats_row rows[2] = {
        {.call = CALL_MPI_Send, .count = 1, .total_ns = MS, .args_bytes = 100, .sent_bytes = 100},
        {.call = CALL_MPI_Irecv, .count = 1, .total_ns = MS, .args_bytes = 100}};
    for (size_t i = 0; i < 2; i++) {
        struct mpi_stats *stats = &report->set.ranks[i];
        stats->rows = rows;
        stats->row_count = 2;
        stats->span_count = stats->peer_count = 0;
        stats->peers_off = stats->requests_off = true;
    }
    _cleanup_(buf_done) struct buf text = text_of(report, -1);
    check_has(&text, "\nBalance over ranks");
    check_has(&text, "\n  the user's messages           400 B      200 B          -\n");
    check_has_not(&text, "it was not measured (--mpi-metrics)");
    assert_string_equal(line_of(&text, "MPI_Irecv") + strlen(line_of(&text, "MPI_Irecv")) - 2, " -");
    json_t *all = json_object();
    mpi_report_json(all, report);
    const json_t *mpi = json_object_get(all, "mpi"), *rank = json_array_get(json_object_get(mpi, "ranks"), 0);
    char *unmeasured = json_dumps(json_object_get(mpi, "unmeasured"), JSON_COMPACT);
    assert_string_equal(unmeasured, "[\"peers\",\"requests\"]");
    free(unmeasured);
    static const char *const names[] = {"run_ns", "communication_ns", "share", "time", "blocking"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_false(json_is_null(json_object_get(rank, names[i])));
    const json_t *call;
    size_t index;
    json_array_foreach(json_object_get(mpi, "calls"), index, call)
        assert_true(json_is_null(json_object_get(call, "received_bytes")) ==
                    (strcmp(json_string_value(json_object_get(call, "name")), "MPI_Irecv") == 0));
    const json_t *world = json_array_get(json_object_get(mpi, "communicators"), 0);
    static const char *const unknown[] = {"messages", "bytes"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_true(json_is_null(json_object_get(world, unknown[i])));
    json_decref(all);
}

/* More than there is room for: what they are, each by itself. */
static void test_requests_omitted(void **state)
{
    _cleanup_(mpi_report_freep) struct mpi_report *report = made(2);
    static struct mpi_stats_row row = {.call = CALL_MPI_Irecv, .count = 3, .args_bytes = 300, .got_bytes = 100};
    report->set.ranks[1].rows = &row;
    report->set.ranks[1].row_count = 1;
    report->set.ranks[1].requests_omitted = 2;
    report->set.ranks[1].sites_omitted = 5;
    report->set.ranks[1].omitted = 7;
    _cleanup_(buf_done) struct buf text = text_of(report, -1);
    check_has(&text, "2 non-blocking operations found no room, as more than 8192 were under way: what they received,");
    check_has(&text, "5 calls are of no call site, as there are too many\n");
    check_has_not(&text, " bytes found no room");
    check_has(&text, "> 100 B\n");
    json_t *all = json_object();
    mpi_report_json(all, report);
    size_t index, found = 0;
    json_t *each;
    json_array_foreach(json_object_get(json_object_get(all, "mpi"), "calls"), index, each)
    {
        bool receive = strcmp(json_string_value(json_object_get(each, "name")), "MPI_Irecv") == 0;
        found += receive;
        assert_int_equal(json_is_null(json_object_get(each, "received_bytes")), receive);
    }
    assert_int_equal(found, 1);
    json_decref(all);
}

static void test_errors(void **state)
{
    _cleanup_(mpi_report_freep) struct mpi_report *report = made(4);
    report->set.ranks[0].threads[0].errors = 1;
    report->set.ranks[2].threads[0].errors = 2;
    _cleanup_(buf_done) struct buf text = text_of(report, -1);
    check_has(&text, "\n  3 calls returned an error, on ranks 0,2\n");
}

/* They are counted as they started, whatever their launcher calls them; messages between them are no ranks'. */
static void test_programs(void **state)
{
    _cleanup_(mpi_report_freep) struct mpi_report *report = made(3);
    for (size_t i = 0; i < 3; i++) {
        struct mpi_stats *stats = &report->set.ranks[i];
        stats->namespace = i < 2 ? "a" : "b";
        stats->exe = i == 1 ? "/bin/viewer" : stats->exe;
        stats->spawned = i < 2;
        stats->started_wall_ns = i < 2 ? 2 * (uint64_t)SECOND : SECOND;
        stats->rank = i < 2 ? (int32_t)i : 1;
        stats->threads[0].outermost.communicate_ns += i * MS;
        stats->sites[0].total_ns += i * MS;
        stats->site_count = i == 2 ? 0 : 1;
        stats->threads[0].errors = i;
        stats->peer_count = 1;
        stats->peers[0] = (struct mpi_stats_peer){.peer = MPIA_RANK_FOREIGN,
                                                  .sent_count = i == 2 ? 4 : 0,
                                                  .sent_bytes = i == 2 ? 400 : 0,
                                                  .got_count = i < 2 ? 2 : 0,
                                                  .got_bytes = i < 2 ? 200 : 0};
    }
    _cleanup_(buf_done) struct buf text = text_of(report, -1);
    check_has(&text,
              "\nMPI: 3 ranks of 2 programs\n  program 1: 1 rank of solver under MPICH, MPI_THREAD_SINGLE\n"
              "  program 2: 2 ranks of solver, viewer under MPICH, MPI_THREAD_SINGLE, started by MPI_Comm_spawn\n");
    assert_non_null(strstr(line_of(&text, "   1      1  n  "), "     102 "));
    assert_non_null(strstr(line_of(&text, "   2      0  n  "), "     100 "));
    check_has(&text, "\nMessages to other programs: 4 of 400 B; from other programs: 4 of 400 B\n");
    check_has_not(&text, "from (down) to (across)");
    check_has(&text, " (10.0 % rank 0 of program 2 to 10.2 % rank 1 of program 1)");
    check_has(&text, "\n  3 calls returned an error, on rank 1 of program 1, rank 1 of program 2\n");
    check_has(&text, "\nBalance over ranks      least (prog rank)     average        most (prog rank)  most/average\n");
    check_has(&text, "\n  communication        100 ms     2     0      101 ms      102 ms     1     1        1.01 x\n");
    check_has(&text, "\nCall sites by rank  least (prog rank) ");
    check_has(&text,
              "\n                     0 ns     1     1     67.0 ms      101 ms     2     1        1.51 x  MPI_Barrier");
    check_has(&text, "  all of program 2\n");
    assert_int_equal(report->world_of[0], 0);
    assert_int_equal(report->set.ranks[0].pid, 102);
}

static void test_one_sided(void **state)
{
    _cleanup_(mpi_report_freep) struct mpi_report *report = made(2);
    struct mpi_stats *stats = &report->set.ranks[1];
    stats->peer_count = 2;
    stats->peers[0] = (struct mpi_stats_peer){.peer = 0, .call = CALL_MPI_Put, .sent_count = 3, .sent_bytes = 300};
    stats->peers[1] = (struct mpi_stats_peer){.peer = 0, .call = CALL_MPI_Get, .got_count = 1, .got_bytes = 64};
    _cleanup_(buf_done) struct buf text = text_of(report, -1);
    check_has(&text, "\nBytes of one-sided operations, origin (down) and target (across)\n               0         1\n"
                     "     0         .         .\n     1     364 B         .\n");
    check_has_not(&text, "Messages of the user, from");
}

/* Without clocks there is no percentage; long names are whole. */
static void test_sessions(void **state)
{
    _cleanup_(mpi_report_freep) struct mpi_report *report = made(1);
    struct mpi_stats *stats = &report->set.ranks[0];
    stats->state = MPIA_LOADED;
    stats->thread_count = 0;
    stats->rows[stats->row_count++] = (struct mpi_stats_row){.call = CALL_MPI_Session_init, .count = 1, .total_ns = MS};
    stats->rows[stats->row_count++] =
        (struct mpi_stats_row){.call = CALL_MPI_Group_from_session_pset, .count = 1234567890, .total_ns = MS};
    _cleanup_(buf_done) struct buf text = text_of(report, -1);
    check_has(&text, "their time in MPI is not known");
    check_has(&text, "has sessions, no MPI_Init: only counted\n");
    check_has(&text, "\n  MPI_Group_from_session_pset 1234567890 ");
    check_has(&text, "\n  MPI_Session_init                     1 ");
    check_has(&text, "      100 ms        -      1  all (solver.c:7)\n");
    check_has_not(&text, "%");
}

/* A rank that hangs, and was killed: the time has a name. */
static void test_open(void **state)
{
    _cleanup_(mpi_report_freep) struct mpi_report *report = made(2);
    for (size_t i = 0; i < 2; i++) {
        struct mpi_stats *stats = &report->set.ranks[i];
        struct mpi_stats_now *now = &stats->threads[0].now;
        stats->state = MPIA_RUNNING;
        now->call = i ? CALL_MPI_Recv : CALL_MPI_Barrier;
        now->age_ns = 6 * (uint64_t)SECOND;
        now->site = stats->sites[0];
        now->site.offset = i ? 0x20 : 0x10;
        now->site.line = i ? 9 : 7;
        stats->threads[0].outermost.communicate_ns += now->age_ns;
        stats->threads[0].outermost.total_ns += now->age_ns;
    }
    struct buf text = text_of(report, -1);
    check_has(&text,
              "  MPI_Barrier                          2      100 ms      100 ms      6.20 s      100 ms  (1 more open: "
              "6.00 s)\n");
    check_has(&text,
              "  MPI_Recv                             0           -           -      6.00 s           -  (1 more open: "
              "6.00 s)\n");
    check_has(&text,
              "  MPI_Recv                             0      6.00 s           -           -  49.18 %      1  all "
              "(solver.c:9)  (1 more open: 6.00 s)\n");
    buf_done(&text);
    json_t *json = json_object(), *calls;
    mpi_report_json(json, report);
    calls = json_object_get(json_object_get(json, "mpi"), "calls");
    assert_int_equal(json_array_size(calls), 2);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(json_integer_value(json_object_get(json_array_get(calls, i), "open_ns")),
                         6 * (uint64_t)SECOND);
    json_decref(json);
    assert_int_equal(report->sites[0].ranks, 2); /* the barrier */
    assert_int_equal(report->sites[0].by_rank[0].open_ns, 6 * (uint64_t)SECOND);
    assert_int_equal(report->sites[0].by_rank[1].rank, 1);
    assert_int_equal(report->sites[0].by_rank[1].total_ns, 100 * MS);
    assert_int_equal(report->sites[1].ranks, 1);
    assert_int_equal(mpi_report_only(report, 2), -ENOENT);
    assert_int_equal(mpi_report_only(report, 1), 0);
    assert_int_equal(report->calls[CALL_MPI_Recv].open_ns, 6 * (uint64_t)SECOND);
    assert_int_equal(report->outermost.count, 1);
    assert_int_equal(report->calls[CALL_MPI_Barrier].count, 1);
    assert_int_equal(report->site_count, 2);
    text = text_of(report, 1);
    check_has(&text, "  MPI_Recv  ");
    buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_other_threads),
                                       cmocka_unit_test(test_one_thread),
                                       cmocka_unit_test(test_blocking),
                                       cmocka_unit_test(test_failed_rank),
                                       cmocka_unit_test(test_named_rank),
                                       cmocka_unit_test(test_imbalance),
                                       cmocka_unit_test(test_little_imbalance),
                                       cmocka_unit_test(test_merged),
                                       cmocka_unit_test(test_resets),
                                       cmocka_unit_test(test_freed),
                                       cmocka_unit_test(test_freed_receives_may_have_got),
                                       cmocka_unit_test(test_completions),
                                       cmocka_unit_test(test_deaths),
                                       cmocka_unit_test(test_unmeasured),
                                       cmocka_unit_test(test_only_clocks),
                                       cmocka_unit_test(test_requests_omitted),
                                       cmocka_unit_test(test_errors),
                                       cmocka_unit_test(test_death_later_than_the_records),
                                       cmocka_unit_test(test_lost_node),
                                       cmocka_unit_test(test_lost_rank),
                                       cmocka_unit_test(test_paused),
                                       cmocka_unit_test(test_programs),
                                       cmocka_unit_test(test_sessions),
                                       cmocka_unit_test(test_one_sided),
                                       cmocka_unit_test(test_open)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
