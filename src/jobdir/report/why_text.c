/* SPDX-License-Identifier: Apache-2.0 */
/* What was found, for people. */
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/mpi/look.h"
#include "jobdir/mpi/text.h"
#include "jobdir/analysis/why.h"
#include "jobdir/text/text.h"

enum { SHOWN_PARTS = 16, SHOWN_GROUPS = 40, SHOWN_THREADS = 16 };

static void put_ranks(struct buf *out, const struct mpi_why *why, const uint32_t *list, size_t count)
{
    int32_t *ranks = malloc((count + 1) * sizeof *ranks);
    for (size_t i = 0; ranks && i < count; i++)
        ranks[i] = why->ranks[list[i]].stats->rank;
    if (ranks)
        mpi_text_ranks(out, ranks, count);
    free(ranks);
}

static const struct mpi_why_thread *shown_thread(const struct mpi_why_rank *rank)
{
    return rank->shown < rank->thread_count ? &rank->threads[rank->shown] : NULL;
}

/* What was sent that is not what it waits for. */
static void put_unreceived(struct buf *out, const struct mpi_why_rank *rank, const struct mpi_why_thread *thread)
{
    const struct mpi_why_condition *condition = thread && thread->condition_count == 1 ? &thread->conditions[0] : NULL;
    if (condition && condition->elsewhere) {
        buf_printf(out, "; rank %d has sent to it on ", condition->peer);
        mpi_text_comm(out, rank->stats, condition->elsewhere_comm);
        buf_puts(out, ", and that has not been received: another communicator?");
    }
    if (!condition || !condition->unmatched)
        return;
    buf_printf(out, "; %llu message%s that ", (unsigned long long)condition->unmatched,
               condition->unmatched == 1 ? "" : "s");
    if (condition->peer >= 0)
        buf_printf(out, "rank %d sent there %s", condition->peer, condition->unmatched == 1 ? "has" : "have");
    else
        buf_puts(out, condition->unmatched == 1 ? "was sent there has" : "were sent there have");
    buf_puts(out, " not been received: another tag?");
}

/* The same, but of many requests only those that keep it waiting, as far as that is known. */
static struct mpi_stats_now open_of(const struct mpi_why_rank *rank, const struct mpi_why_thread *thread)
{
    const struct mpi_stats *stats = rank->stats;
    struct mpi_stats_now now = *mpi_why_call_of(thread);
    size_t count = 0;
    if (!(now.flags & MPIA_NOW_REQUESTS) || now.waiting < 2 || !thread->condition_count)
        return now;
    memset(now.waits, 0, sizeof now.waits);
    for (size_t i = 0; i < stats->request_count && count < MPIA_WAITS; i++)
        for (size_t k = 0; k < thread->condition_count; k++) {
            const struct mpi_stats_request *request = &stats->requests[i];
            const struct mpi_why_condition *condition = &thread->conditions[k];
            if (request->call == condition->call && request->comm == condition->comm &&
                request->peer == condition->peer && (request->ordinal || request->tag == condition->tag)) {
                now.waits[count++] = request->handle;
                break;
            }
        }
    return count ? now : *mpi_why_call_of(thread);
}

static void put_call(struct buf *out, const struct mpi_why *why, const struct mpi_why_rank *rank,
                     const struct mpi_why_thread *thread)
{
    const struct mpi_stats_now *now = thread ? mpi_why_call_of(thread) : NULL;
    if (!now || now->call == CALL_NONE) {
        size_t before = out->len;
        if (rank->state == MPI_WHY_DIED || rank->state == MPI_WHY_ENDED)
            mpi_end_text(out, rank->stats);
        if (out->len == before && (thread ? thread->state : rank->state) == MPI_WHY_STOPPED) {
            buf_puts(out, "stopped by ");
            text_show(out, mpi_why_stopper(thread));
            buf_puts(out, ", outside of MPI");
        }
        if (out->len == before)
            buf_puts(out, rank->state == MPI_WHY_DIED    ? "died without MPI_Finalize"
                          : rank->state == MPI_WHY_ENDED ? "ended"
                          : rank->state == MPI_WHY_STARTS && rank->stats->late
                              ? "has not called MPI since it is watched"
                          : rank->state == MPI_WHY_STARTS                                 ? "has not called MPI_Init"
                          : rank->blocked || (thread && thread->state == MPI_WHY_BLOCKED) ? "outside of MPI"
                                                                                          : "computes");
        if (rank->where && (!thread || thread == shown_thread(rank))) {
            buf_puts(out, ": ");
            buf_puts(out, rank->where);
        }
        if (rank->asleep)
            buf_puts(out, "; none of its threads can go on, if no signal's handler wakes one");
        return;
    }
    if (thread->state == MPI_WHY_POLLS)
        buf_puts(out, "polls: ");
    const struct mpi_stats_now open = open_of(rank, thread);
    mpi_text_now(out, rank->stats, &open);
    put_unreceived(out, rank, thread);
    for (size_t i = 0; i < thread->condition_count; i++) {
        const struct mpi_why_condition *condition = &thread->conditions[i];
        if (condition->reason != MPI_WHY_FOR_POST && condition->reason != MPI_WHY_FOR_COMPLETE)
            continue;
        buf_printf(out, "; waits for rank%s ", condition->for_count == 1 ? "" : "s");
        put_ranks(out, why, condition->for_ranks, condition->for_count);
        buf_printf(out, " to call %s", condition->reason == MPI_WHY_FOR_POST ? "MPI_Win_post" : "MPI_Win_complete");
    }
    if (thread->state == MPI_WHY_STOPPED) {
        buf_puts(out, "; stopped by ");
        text_show(out, mpi_why_stopper(thread));
    }
}

void mpi_why_call_text(struct buf *out, const struct mpi_why *why, const struct mpi_why_rank *rank,
                       const struct mpi_why_thread *thread)
{
    put_call(out, why, rank, thread);
    if (rank->stats->unheard_ns)
        buf_puts(out, " (when it was heard of last)");
}

static void put_where(struct buf *out, const struct mpi_why_rank *rank, const struct mpi_why_thread *thread)
{
    const struct mpi_stats_now *now = thread ? mpi_why_call_of(thread) : NULL;
    if (!now || now->call == CALL_NONE)
        return;
    size_t before = out->len;
    buf_puts(out, ", at ");
    size_t after = out->len;
    mpi_text_site(out, &now->site);
    if (out->len == after && !out->failed) {
        out->len = before;
        out->data[before] = 0;
    }
    if (rank->python && thread == shown_thread(rank)) {
        buf_puts(out, ", called by ");
        buf_puts(out, rank->python);
    }
}

static void put_age(struct buf *out, uint64_t least_ns, uint64_t most_ns)
{
    buf_puts(out, ", for ");
    text_seconds(out, (double)least_ns / 1e9);
    if (most_ns > least_ns + least_ns / 10) {
        buf_puts(out, " to ");
        text_seconds(out, (double)most_ns / 1e9);
    }
}

static uint64_t age_of(const struct mpi_why_rank *rank)
{
    const struct mpi_why_thread *thread = shown_thread(rank);
    return thread ? mpi_why_age_of(thread) : 0;
}

/* Beside the one that its line is about: those that are held up, too. NULL: there is no further one. */
static const struct mpi_why_thread *next_other(const struct mpi_why_rank *rank, size_t *at)
{
    while (*at < rank->thread_count) {
        const struct mpi_why_thread *thread = &rank->threads[(*at)++];
        bool held_up = thread->state == MPI_WHY_WAITS || thread->state == MPI_WHY_POLLS ||
                       thread->state == MPI_WHY_IO || thread->state == MPI_WHY_STOPPED;
        if (held_up && thread != shown_thread(rank))
            return thread;
    }
    return NULL;
}

static void put_others(struct buf *out, const struct mpi_why *why, const struct mpi_why_rank *rank)
{
    const struct mpi_why_thread *thread;
    size_t count = 0;
    for (size_t at = 0; (thread = next_other(rank, &at)); count++) {
        if (count >= SHOWN_THREADS)
            continue;
        buf_printf(out, "    thread %d", thread->thread->tid);
        if (thread->thread->name && *thread->thread->name) {
            buf_puts(out, " (");
            text_show(out, thread->thread->name);
            buf_putc(out, ')');
        }
        buf_puts(out, ": ");
        mpi_why_call_text(out, why, rank, thread);
        put_where(out, rank, thread);
        if (mpi_why_age_of(thread))
            put_age(out, mpi_why_age_of(thread), mpi_why_age_of(thread));
        buf_putc(out, '\n');
    }
    if (count > SHOWN_THREADS)
        buf_printf(out, "    ... and %zu more threads (--json lists them)\n", count - SHOWN_THREADS);
}

void mpi_why_actor_text(struct buf *out, const struct mpi_why_actor *actor)
{
    const struct thread_wait *wait = &actor->seen->wait;
    if (actor->where)
        buf_puts(out, actor->where);
    else if (wait->kind == THREAD_WAITS_OWNER && wait->tid == actor->seen->tid)
        buf_puts(out, "waits for a mutex that it holds itself: it will wait for ever");
    else if (wait->kind == THREAD_WAITS_OWNER)
        buf_printf(out, "waits for a mutex that is held by thread %d", wait->tid);
    else if (wait->kind == THREAD_WAITS_END)
        buf_printf(out, "waits for the end of thread %d", wait->tid);
    else if (wait->kind == THREAD_WAITS_OTHERS)
        thread_wait_put_others(out, wait);
    else
        buf_puts(out, wait->kind == THREAD_HAS_ENDED ? "has ended" : "outside of MPI, may call it yet");
}

/* Of threads that have not called MPI, or are outside: those that keep it from being stuck, those of a circle, and of one that is asleep
 * all of which it is known what they wait for. */
static bool is_told(const struct mpi_why_rank *rank, const struct mpi_why_actor *actor)
{
    for (size_t i = 0; i < rank->circle_count; i++)
        if (&rank->actors[rank->circle[i]] == actor)
            return !actor->thread || actor->thread != shown_thread(rank);
    if (rank->asleep && actor->where)
        return !actor->thread || actor->thread != shown_thread(rank);
    return !actor->thread && actor->free && rank->state == MPI_WHY_WAITS && !rank->stuck;
}

/* `of_each`: alike on several ranks. */
static void put_actors(struct buf *out, const struct mpi_why_rank *rank, bool of_each)
{
    size_t count = 0;
    for (size_t i = 0; i < rank->actor_count; i++) {
        const struct mpi_why_actor *actor = &rank->actors[i];
        if (!is_told(rank, actor) || count++ >= SHOWN_THREADS)
            continue;
        if (of_each) {
            buf_puts(out, "    another thread of each: ");
        } else {
            buf_printf(out, "    thread %d (", actor->seen->tid);
            text_show(out, actor->seen->name);
            buf_puts(out, "): ");
        }
        mpi_why_actor_text(out, actor);
        buf_putc(out, '\n');
    }
    if (count > SHOWN_THREADS)
        buf_printf(out, "    ... and %zu more threads (--json lists them)\n", count - SHOWN_THREADS);
}

static void put_process(struct buf *out, const struct mpi_why_rank *rank)
{
    buf_puts(out, " (");
    text_show(out, rank->stats->node ? rank->stats->node : "?");
    buf_printf(out, ", process %d)", rank->stats->pid);
}

static void put_rank_line(struct buf *out, const struct mpi_why *why, const struct mpi_why_rank *rank)
{
    buf_printf(out, "  rank %d", rank->stats->rank);
    put_process(out, rank);
    buf_puts(out, ": ");
    mpi_why_call_text(out, why, rank, shown_thread(rank));
    put_where(out, rank, shown_thread(rank));
    if (age_of(rank))
        put_age(out, age_of(rank), age_of(rank));
    buf_putc(out, '\n');
    put_others(out, why, rank);
    put_actors(out, rank, false);
}

static void put_finding(struct buf *out, const struct mpi_why *why, const struct mpi_why_finding *finding)
{
    buf_putc(out, '\n');
    text_show(out, finding->text);
    buf_putc(out, '\n');
    for (size_t i = 0; i < finding->rank_count && i < SHOWN_PARTS; i++)
        put_rank_line(out, why, &why->ranks[finding->ranks[i]]);
    if (finding->rank_count > SHOWN_PARTS)
        buf_printf(out, "  ... and %zu more\n", finding->rank_count - SHOWN_PARTS);
    if (!finding->victim_count)
        return;
    buf_printf(out, "  waiting for %s: rank%s ", finding->rank_count == 1 ? "it" : "these",
               finding->victim_count == 1 ? "" : "s");
    put_ranks(out, why, finding->victims, finding->victim_count);
    buf_putc(out, '\n');
}

/* ---- ranks that no finding has told, alike ones on one line ---- */

struct line {
    char *text;
    size_t head; /* of it, the part about the rank's own thread; its others follow, a line each */
    uint32_t index;
    uint64_t age_ns;
};

static int by_text(const void *a, const void *b)
{
    const struct line *left = a, *right = b;
    int order = strcmp(left->text ? left->text : "", right->text ? right->text : "");
    return order ? order : left->index < right->index ? -1 : left->index > right->index;
}

struct alike {
    size_t first, count;
    uint32_t index;
};

static int by_first(const void *a, const void *b)
{
    const struct alike *left = a, *right = b;
    return left->index < right->index ? -1 : left->index > right->index;
}

static void put_alike(struct buf *out, const struct mpi_why *why, const struct line *lines, size_t count)
{
    uint64_t least = UINT64_MAX, most = 0;
    _cleanup_(freep) uint32_t *list = malloc((count + 1) * sizeof *list);
    for (size_t i = 0; list && i < count; i++) {
        list[i] = lines[i].index;
        least = lines[i].age_ns < least ? lines[i].age_ns : least;
        most = lines[i].age_ns > most ? lines[i].age_ns : most;
    }
    if (!list)
        return;
    buf_printf(out, "  rank%s ", count == 1 ? "" : "s");
    put_ranks(out, why, list, count);
    if (count == 1)
        put_process(out, &why->ranks[list[0]]);
    const char *text = lines[0].text ? lines[0].text : "";
    buf_printf(out, ": %.*s", (int)lines[0].head, text);
    if (most)
        put_age(out, least, most);
    buf_putc(out, '\n');
    if (count == 1) {
        put_others(out, why, &why->ranks[list[0]]);
        put_actors(out, &why->ranks[list[0]], false);
    } else {
        buf_puts(out, text + lines[0].head);
    }
}

static void put_all(struct buf *out, const struct mpi_why *why)
{
    _cleanup_(freep) struct line *lines = calloc(why->count + 1, sizeof *lines);
    _cleanup_(freep) struct alike *groups = calloc(why->count + 1, sizeof *groups);
    _cleanup_(freep) bool *told = calloc(why->count + 1, sizeof *told);
    size_t count = 0, group_count = 0;
    if (!lines || !groups || !told)
        return;
    for (size_t i = 0; i < why->finding_count; i++)
        for (size_t k = 0; k < why->findings[i].rank_count && k < SHOWN_PARTS; k++)
            told[why->findings[i].ranks[k]] = true;
    for (size_t i = 0; i < why->count; i++) {
        const struct mpi_why_rank *rank = &why->ranks[i];
        if (told[i])
            continue;
        struct buf text = BUF_INIT;
        const struct mpi_why_thread *other;
        mpi_why_call_text(&text, why, rank, shown_thread(rank));
        put_where(&text, rank, shown_thread(rank));
        size_t head = text.len;
        for (size_t at = 0; (other = next_other(rank, &at));) {
            buf_puts(&text, "    another thread of each: ");
            mpi_why_call_text(&text, why, rank, other);
            put_where(&text, rank, other);
            buf_putc(&text, '\n');
        }
        put_actors(&text, rank, true);
        char *whole = buf_take(&text);
        lines[count++] = (struct line){whole, whole ? head : 0, (uint32_t)i, age_of(rank)};
    }
    qsort(lines, count, sizeof *lines, by_text);
    for (size_t i = 0, next; i < count; i = next) {
        for (next = i + 1;
             next < count && lines[i].text && lines[next].text && strcmp(lines[i].text, lines[next].text) == 0;)
            next++;
        groups[group_count++] = (struct alike){i, next - i, lines[i].index};
    }
    qsort(groups, group_count, sizeof *groups, by_first);
    if (count)
        buf_puts(out, count < why->count ? "\nOther ranks\n" : "\nRanks\n");
    for (size_t i = 0; i < group_count && i < SHOWN_GROUPS; i++)
        put_alike(out, why, &lines[groups[i].first], groups[i].count);
    if (group_count > SHOWN_GROUPS)
        buf_printf(out, "  ... and %zu more, each with another call (--json lists them)\n", group_count - SHOWN_GROUPS);
    for (size_t i = 0; i < count; i++)
        free(lines[i].text);
}

/* Of whom it is not known whether they can go on. */
static void put_starved(struct buf *out, const struct mpi_why *why)
{
    _cleanup_(freep) uint32_t *list = malloc((why->count + 1) * sizeof *list);
    size_t count = 0;
    for (size_t i = 0; list && i < why->count; i++) {
        const struct mpi_why_rank *rank = &why->ranks[i];
        bool starved = false;
        for (size_t k = 0; k < rank->thread_count; k++)
            starved |= mpi_why_is_starved(&rank->threads[k]);
        if (starved && !rank->stuck)
            list[count++] = (uint32_t)i;
    }
    if (!count)
        return;
    buf_printf(out, "\nrank%s ", count == 1 ? "" : "s");
    put_ranks(out, why, list, count);
    buf_puts(out, count == 1 ? " had no processor while it was looked at: what it waits for may have come. Ask again\n"
                             : " had no processor while they were looked at: what they wait for may have come. Ask "
                               "again\n");
}

static void put_unseen(struct buf *out, const struct mpi_why *why)
{
    _cleanup_(freep) uint32_t *list = malloc((why->count + 1) * sizeof *list);
    size_t count = 0;
    for (size_t i = 0; list && i < why->count && !why->computing && !why->polling && !why->unheard; i++)
        if (why->ranks[i].state == MPI_WHY_WAITS && !why->ranks[i].stuck && mpi_why_is_unseen(&why->ranks[i]))
            list[count++] = (uint32_t)i;
    if (!count)
        return;
    buf_printf(out, "\nof rank%s ", count == 1 ? "" : "s");
    put_ranks(out, why, list, count);
    buf_puts(out, " not all threads can be looked at from here: one that has not called MPI may call it yet\n");
}

static void put_late(struct buf *out, const struct mpi_why *why)
{
    size_t count = 0;
    for (size_t i = 0; i < why->count; i++)
        count += why->ranks[i].stats->late;
    if (count)
        buf_printf(
            out,
            "\n%zu rank%s ran before %s calls were watched, so whom the ranks wait for, and whether any is stuck, "
            "is not known\n",
            count, count == 1 ? "" : "s", count == 1 ? "its" : "their");
}

/* Ranks that neither wait nor compute. */
static const struct {
    enum mpi_why_state state;
    const char *one, *several;
} other_states[] = {
    {MPI_WHY_MOVES, "is in a call that waits for nobody, or just began",
     "are in calls that wait for nobody, or just began"},
    {MPI_WHY_IO, "reads or writes files", "read or write files"},
    {MPI_WHY_STOPPED, "is stopped", "are stopped"},
    {MPI_WHY_STARTS, "starts", "start"},
    {MPI_WHY_ENDED, "has ended", "have ended"},
    {MPI_WHY_DIED, "died", "died"},
};

static void put_other_states(struct buf *out, const struct mpi_why *why, const char *between)
{
    for (size_t i = 0; i < sizeof other_states / sizeof *other_states; i++) {
        size_t count = 0;
        for (size_t k = 0; k < why->count; k++)
            count += why->ranks[k].state == other_states[i].state && !why->ranks[k].stats->unheard_ns;
        if (count) {
            buf_printf(out, "%s%zu %s", between, count, count == 1 ? other_states[i].one : other_states[i].several);
            between = ", ";
        }
    }
}

/* How many wait. Who computes as far as MPI knows, but was seen to be blocked, does not. */
static void put_head(struct buf *out, const struct mpi_why *why)
{
    size_t outside = 0;
    for (size_t i = 0; i < why->count; i++)
        outside += why->ranks[i].state == MPI_WHY_COMPUTES && why->ranks[i].blocked;
    size_t computing = why->computing - outside;
    buf_printf(out, "%zu rank%s: ", why->count, why->count == 1 ? "" : "s");
    size_t before = out->len;
    if (why->waiting || why->polling || why->computing) {
        if (why->stuck && why->stuck == why->waiting)
            buf_printf(out, "%zu stuck", why->stuck);
        else
            buf_printf(out, "%zu wait%s", why->waiting, why->waiting == 1 ? "s" : "");
        if (why->stuck && why->stuck != why->waiting)
            buf_printf(out, " (%zu of them stuck)", why->stuck);
        if (why->polling)
            buf_printf(out, ", %zu poll%s", why->polling, why->polling == 1 ? "s" : "");
        if (outside)
            buf_printf(out, ", %zu %s blocked outside of MPI", outside, outside == 1 ? "is" : "are");
        if (computing || !outside)
            buf_printf(out, ", %zu compute%s", computing, computing == 1 ? "s" : "");
        put_other_states(out, why, ", ");
    } else {
        put_other_states(out, why, "");
    }
    if (why->unheard)
        buf_printf(out, "%s%zu %s on nodes that do not answer", out->len > before ? ", " : "", why->unheard,
                   why->unheard == 1 ? "is" : "are");
    if (why->still_ns) {
        buf_puts(out, "; none has begun or ended a call for ");
        text_seconds(out, (double)why->still_ns / 1e9);
    }
    buf_putc(out, '\n');
}

static void put_findings(struct buf *out, const struct mpi_why *why)
{
    for (size_t i = 0; i < why->finding_count; i++)
        put_finding(out, why, &why->findings[i]);
}

/* With an empty line before each. */
static void put_doubts(struct buf *out, const struct mpi_why *why)
{
    put_starved(out, why);
    put_unseen(out, why);
    put_late(out, why);
}

static const char *without_newline(const struct buf *text)
{
    return text->data ? text->data + strspn(text->data, "\n") : "";
}

/* What it comes from is the answer: that is first. */
void mpi_why_text(struct buf *out, const struct mpi_why *why)
{
    _cleanup_(buf_done) struct buf findings = BUF_INIT;
    put_findings(&findings, why);
    if (findings.len)
        buf_printf(out, "%s\n", without_newline(&findings));
    put_head(out, why);
    put_doubts(out, why);
    put_all(out, why);
}

void mpi_why_line(struct buf *out, const struct mpi_why *why)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    put_findings(&text, why);
    put_doubts(&text, why);
    if (!text.len)
        put_head(&text, why);
    const char *line = without_newline(&text);
    buf_append(out, line, strcspn(line, "\n"));
}

void mpi_why_call_at(struct buf *out, const struct mpi_why_rank *rank)
{
    const struct mpi_why_thread *thread = shown_thread(rank);
    const struct mpi_stats_now *now = thread ? mpi_why_call_of(thread) : NULL;
    _cleanup_(buf_done) struct buf site = BUF_INIT;
    if (!now || now->call == CALL_NONE)
        return;
    mpi_text_site(&site, &now->site);
    buf_puts(out, call_info(now->call)->name);
    if (site.len && !site.failed)
        buf_printf(out, " at %s", site.data);
}

/* Those of a finding: once where they are alike, else of the first two. */
static void put_calls_of(struct buf *out, const struct mpi_why *why, const struct mpi_why_finding *finding)
{
    enum { SHOWN = 2 };
    _cleanup_(buf_done) struct buf first = BUF_INIT;
    bool alike = true;
    for (size_t i = 0; i < finding->rank_count; i++) {
        _cleanup_(buf_done) struct buf each = BUF_INIT;
        mpi_why_call_at(i ? &each : &first, &why->ranks[finding->ranks[i]]);
        if (!first.len || first.failed || each.failed || (i && !each.len))
            return;
        alike = alike && (!i || strcmp(each.data, first.data) == 0);
    }
    if (alike && first.len)
        buf_printf(out, ", in %s", first.data);
    for (size_t i = 0; i < finding->rank_count && i < SHOWN && !alike; i++) {
        buf_printf(out, "%srank %d in ", i ? ", " : ": ", why->ranks[finding->ranks[i]].stats->rank);
        mpi_why_call_at(out, &why->ranks[finding->ranks[i]]);
    }
    if (!alike && finding->rank_count > SHOWN)
        buf_printf(out, " and %zu more", finding->rank_count - SHOWN);
}

/* Of ranks that disagree, or have left others behind: two that are in different places. */
static void put_calls_apart(struct buf *out, const struct mpi_why *why, const struct mpi_why_finding *finding)
{
    _cleanup_(buf_done) struct buf first = BUF_INIT;
    const struct mpi_why_rank *one = &why->ranks[finding->ranks[0]];
    mpi_why_call_at(&first, one);
    for (size_t i = 1; first.len && !first.failed && i < finding->rank_count + finding->victim_count; i++) {
        const struct mpi_why_rank *other =
            &why->ranks[i < finding->rank_count ? finding->ranks[i] : finding->victims[i - finding->rank_count]];
        _cleanup_(buf_done) struct buf each = BUF_INIT;
        mpi_why_call_at(&each, other);
        if (!each.len || each.failed || strcmp(each.data, first.data) == 0)
            continue;
        buf_printf(out, "; rank %d is in %s, rank %d in %s", one->stats->rank, first.data, other->stats->rank,
                   each.data);
        return;
    }
}

void mpi_why_reason(struct buf *out, const struct mpi_why *why)
{
    mpi_why_line(out, why);
    if (why->finding_count &&
        (why->findings[0].kind == MPI_WHY_DEADLOCK || why->findings[0].kind == MPI_WHY_POLLS_IN_VAIN))
        put_calls_of(out, why, &why->findings[0]);
    if (why->finding_count && why->findings[0].kind == MPI_WHY_MISMATCH)
        put_calls_apart(out, why, &why->findings[0]);
    bool told = false;
    for (size_t i = 0; why->finding_count && i < why->findings[0].rank_count && !told; i++) {
        const struct mpi_why_rank *rank = &why->ranks[why->findings[0].ranks[i]];
        _cleanup_(buf_done) struct buf hint = BUF_INIT;
        put_unreceived(&hint, rank, shown_thread(rank));
        told = hint.len && !hint.failed;
        if (told)
            buf_printf(out, "; rank %d: %s", rank->stats->rank, hint.data + strlen("; "));
    }
}
