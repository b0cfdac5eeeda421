/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/jobs/ranks.h"

#include <stdio.h>
#include <string.h>

#include "jobdir/text/text.h"
#include "shm/waits.h"

/* ---- for people ---- */

static void put_for(struct buf *out, uint64_t ns)
{
    if (ns < RANKS_SHORT_NS)
        return;
    buf_puts(out, " for ");
    text_seconds(out, (double)ns / 1e9);
}

/* What its first thread waits for outside of MPI; false: for nothing that is known. */
static bool put_wait(struct buf *out, const struct rank_now *rank)
{
    const struct thread_wait *wait = &rank->wait;
    if (wait->kind == THREAD_WAITS_OWNER && wait->tid == rank->pid)
        buf_puts(out, "waits for a mutex that it holds itself");
    else if (wait->kind == THREAD_WAITS_OWNER)
        buf_printf(out, "waits for a mutex that thread %d holds", wait->tid);
    else if (wait->kind == THREAD_WAITS_END)
        buf_printf(out, "waits for the end of thread %d", wait->tid);
    else if (wait->kind == THREAD_WAITS_OTHERS)
        buf_puts(out, "waits for another thread");
    else
        return false;
    return true;
}

void ranks_state_text(struct buf *out, const struct rank_now *rank)
{
    static const char *const states[][2] = {
        {"computing", "computing"},           {"starting", "has not returned from MPI_Init"},
        {"ended", "has called MPI_Finalize"}, {"died", "died without MPI_Finalize"},
        {"aborted", "called MPI_Abort"},      {"off", "is not counted"}};
    if (*rank->call && strcmp(rank->state, "starting") != 0) {
        buf_printf(out, "in %s", rank->call);
        put_for(out, rank->since_ns);
        if (*rank->details) {
            buf_puts(out, ": ");
            text_show(out, rank->details);
        }
    } else if (!put_wait(out, rank)) {
        for (size_t i = 0; i < sizeof states / sizeof *states; i++)
            if (strcmp(rank->state, states[i][0]) == 0)
                buf_puts(out, states[i][1]);
        put_for(out, rank->since_ns);
    }
    if (*rank->fault) {
        buf_puts(out, ": ");
        text_show(out, rank->fault);
    }
    if (rank->elsewhere && rank->old_seconds > 0) {
        buf_puts(out, " (");
        text_seconds(out, rank->old_seconds);
        buf_puts(out, " ago)");
    }
}

static const char *word_of(const struct rank_now *rank, char *text, size_t size)
{
    static const char *const words[][2] = {{"ended", "ended"}, {"off", "not counted"}};
    if (*rank->call && strcmp(rank->state, "starting") != 0) {
        snprintf(text, size, "in %s", rank->call);
        return text;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(rank->state, words[i][0]) == 0)
            return words[i][1];
    if (rank->wait.kind == THREAD_WAITS_OWNER)
        return "waiting for a mutex";
    return rank->wait.kind == THREAD_WAITS_END || rank->wait.kind == THREAD_WAITS_OTHERS ? "waiting for a thread"
                                                                                         : rank->state;
}

void ranks_summary(struct buf *out, const struct rank_now *list, size_t count, bool with_library)
{
    enum { WORDS = 6 };
    struct {
        char text[64];
        size_t count;
    } words[WORDS];
    size_t used = 0, others = 0;
    for (size_t i = 0; i < count; i++) {
        char text[64];
        const char *word = word_of(&list[i], text, sizeof text);
        size_t at = 0;
        while (at < used && strcmp(words[at].text, word) != 0)
            at++;
        if (at == used && used < WORDS) {
            snprintf(words[used].text, sizeof words[used].text, "%s", word);
            words[used++].count = 0;
        }
        if (at < used)
            words[at].count++;
        else
            others++;
    }
    const char *library = list[0].library;
    buf_printf(out, "%zu %srank%s", count, list[0].spawned ? "spawned " : "", count == 1 ? "" : "s");
    if (list[0].ranks > (int32_t)count)
        buf_printf(out, " of %d", list[0].ranks);
    if (with_library && *library)
        buf_printf(out, " under %s", strcmp(library, "openmpi") == 0 ? "Open MPI" : "MPICH");
    for (size_t i = 0; i < used; i++)
        buf_printf(out, "%s %zu %s", i ? "," : ":", words[i].count, words[i].text);
    if (others)
        buf_printf(out, ", %zu in other calls", others);
}

double ranks_share(const struct rank_now *rank)
{
    uint64_t whole = rank->compute_ns + rank->communicate_ns;
    return whole ? (double)rank->communicate_ns / (double)whole : -1;
}

static json_t *share_json(const void *row, const void *all)
{
    double share = ranks_share(row);
    return share < 0 ? json_null() : json_real(share);
}

/* ---- the table ---- */

static bool in_ps(const void *all)
{
    return ((const struct ranks_view *)all)->report != NULL;
}

static bool in_top(const void *all)
{
    return !in_ps(all);
}

static bool is_wide(const void *all)
{
    return !((const struct ranks_view *)all)->narrow;
}

static int host_width(const void *all)
{
    return ((const struct ranks_view *)all)->host_width;
}

static struct job_process *process_of(const struct rank_now *rank, const void *all)
{
    const struct job_report *report = ((const struct ranks_view *)all)->report;
    struct job_process *process = NULL;
    if (!rank->elsewhere)
        HASH_FIND_INT(report->model.alive, &rank->pid, process);
    for (size_t i = 0; !process && i < report->part_count; i++)
        if (report->parts[i].info.host && strcmp(report->parts[i].info.host, rank->host) == 0)
            HASH_FIND_INT(report->parts[i].model.alive, &rank->pid, process);
    return process;
}

static void put_letter(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct job_process *process = process_of(row, all);
    buf_putc(out, process ? process->state : '-');
}

static void put_cpu(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct job_process *process = process_of(row, all);
    if (process)
        buf_printf(out, "%.0f%%", 100 * process->cpu_share);
    else
        buf_putc(out, '-');
}

static void put_memory(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct job_process *process = process_of(row, all);
    if (process)
        text_size(out, process->rss);
    else
        buf_putc(out, '-');
}

static void put_percent(struct buf *out, double share)
{
    if (share < 0)
        buf_putc(out, '-');
    else
        buf_printf(out, "%.1f", 100 * share);
}

static void put_share(struct buf *out, const void *at, const void *row, const void *all)
{
    put_percent(out, ranks_share(row));
}

static void put_recent(struct buf *out, const void *at, const void *row, const void *all)
{
    put_percent(out, *(const double *)at);
}

static void put_state(struct buf *out, const void *at, const void *row, const void *all)
{
    ranks_state_text(out, row);
}

int ranks_host_width(const struct rank_now *list, size_t count, size_t most)
{
    size_t width = strlen("HOST");
    for (size_t i = 0; i < count; i++)
        width = strlen(list[i].host) > width ? strlen(list[i].host) : width;
    return (int)(width < most ? width : most);
}

const struct field ranks_fields[] = {
    {"rank", FIELD_INTEGER, FIELD_AT(struct rank_now, rank), .about = "in its MPI_COMM_WORLD",
     .column = {1, 0, 4, "RANK"}},
    {"size", FIELD_INTEGER, FIELD_AT(struct rank_now, ranks), .about = "of its MPI_COMM_WORLD; -1: not known yet"},
    {"mpi_job", FIELD_TEXT, FIELD_AT(struct rank_now, mpi_job),
     .about = "the launcher's name of the MPI program; one job can have several"},
    {"host", FIELD_TEXT, FIELD_AT(struct rank_now, host),
     .column = {2, 2, .fit = host_width, .heading = "HOST", .when = is_wide}},
    {"pid", FIELD_COUNT, FIELD_AT(struct rank_now, pid), .column = {3, 1, 8, "PID", .when = is_wide}},
    {"library", FIELD_CHOICE, FIELD_AT(struct rank_now, library), .choices = "openmpi|mpich|"},
    {"spawned", FIELD_BOOL, FIELD_AT(struct rank_now, spawned), .about = "it was started by MPI_Comm_spawn"},
    {"state", FIELD_CHOICE, FIELD_AT(struct rank_now, state),
     .choices = "starting|computing|in_call|ended|died|aborted|off",
     .about = "starting: MPI_Init has not returned; ended: MPI_Finalize was called; died: without it; off: not counted "
              "at the moment, see fault"},
    {"call", FIELD_TEXT, FIELD_AT(struct rank_now, call), FIELD_ZERO_IS_NULL, .about = "the MPI call that it is in"},
    {"doing", FIELD_TEXT, FIELD_AT(struct rank_now, text), FIELD_ZERO_IS_NULL,
     .about = "the call for people, with its peer, size and communicator"},
    {"since_seconds", FIELD_SECONDS, FIELD_AT(struct rank_now, since_ns), FIELD_FROM_ZERO,
     .about = "for how long it computes, or is in the call"},
    {"peer", FIELD_INTEGER, FIELD_AT(struct rank_now, peer), FIELD_NEGATIVE_IS_NULL,
     .about = "destination, source, root or target of the call, as a rank of MPI_COMM_WORLD; null: none, or any"},
    {"tag", FIELD_INTEGER, FIELD_AT(struct rank_now, tag), FIELD_NEGATIVE_IS_NULL},
    {"mpi_share", FIELD_NUMBER, .flags = FIELD_OR_NULL, .json = share_json,
     .about = "of the time since MPI_Init, in MPI calls: 0 to 1",
     .column = {7, 1, 5, "MPI %", .when = in_top, .text = put_share}},
    {"recent_mpi_share", FIELD_NUMBER, FIELD_AT(struct rank_now, recent), FIELD_NEGATIVE_IS_NULL,
     .about = "of the time between the last two looks; null where it is looked at once",
     .column = {8, 2, 5, "NOW %", .when = in_top, .text = put_recent}},
    {"fault", FIELD_TEXT, FIELD_AT(struct rank_now, fault), FIELD_ZERO_IS_NULL, .about = "why it is not counted"},
    {"old_seconds", FIELD_SECONDS, FIELD_AT(struct rank_now, old_seconds), FIELD_FROM_ZERO,
     .about = "how long ago this was so; 0: now. Ranks of a node that does not answer are shown as they last said"},
    {.type = FIELD_SHOWN, .column = {4, 1, 1, "S", .when = in_ps, .text = put_letter}},
    {.type = FIELD_SHOWN, .column = {5, 1, 6, "CPU", .when = in_ps, .text = put_cpu}},
    {.type = FIELD_SHOWN, .column = {6, 1, 8, "MEMORY", .when = in_ps, .text = put_memory}},
    {.type = FIELD_SHOWN, .column = {9, 2, 0, "STATE", .when = in_ps, .text = put_state}},
    {.type = FIELD_SHOWN, .column = {9, 2, 0, .when = in_top, .text = put_state}},
    {0}};

json_t *ranks_json(const struct rank_now *list, size_t count)
{
    return fields_list(ranks_fields, list, count, sizeof *list, NULL);
}
