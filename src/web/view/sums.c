/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "jobdir/mpi/text.h"
#include "jobdir/text/text.h"
#include "jobdir/trace/trace.h"
#include "jobdir/trace/switches.h"
#include "web/view/ask.h"
#include "web/view/lane.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* What the ranks' statistics of MPI say, by process: the numbers that the report adds up. */

static void put_rank(struct buf *out, const struct mpi_report *report, size_t i)
{
    const struct mpi_stats *stats = &report->set.ranks[i];
    buf_printf(out, "%s{\"process\":%zu,\"node\":", i ? "," : "", i);
    view_put_text(out, stats->node);
    buf_printf(out, ",\"pid\":%" PRId32 ",\"rank\":%" PRId32 ",\"world\":%" PRIu32 ",\"name\":", stats->pid,
               stats->rank, report->world_of[i]);
    view_put_text(out, text_base(stats->exe ? stats->exe : ""));
    buf_putc(out, '}');
}

static const struct mpi_stats_row *row_of(const struct mpi_stats *stats, uint32_t call)
{
    static const struct mpi_stats_row none;
    for (size_t i = 0; i < stats->row_count; i++)
        if (stats->rows[i].call == call)
            return &stats->rows[i];
    return &none;
}

static void put_call(struct buf *out, const struct mpi_report *report, uint32_t call)
{
    static const struct {
        const char *name;
        size_t at;
    } members[] = {{"calls", offsetof(struct mpi_stats_row, count)},
                   {"total_ns", offsetof(struct mpi_stats_row, total_ns)},
                   {"sent_bytes", offsetof(struct mpi_stats_row, sent_bytes)},
                   {"received_bytes", offsetof(struct mpi_stats_row, got_bytes)},
                   {"bytes", offsetof(struct mpi_stats_row, args_bytes)}};
    buf_printf(out, "{\"name\":\"%s\",\"class\":\"%s\"", mpi_text_call(call), view_class_name(view_class_of(call)));
    for (size_t k = 0; k < sizeof members / sizeof *members; k++) {
        buf_printf(out, ",\"%s\":[", members[k].name);
        for (size_t i = 0; i < report->set.count; i++) {
            const struct mpi_stats_row *row = row_of(&report->set.ranks[i], call);
            bool known =
                members[k].at != offsetof(struct mpi_stats_row, got_bytes) || !(row->got_least || row->got_unknown);
            buf_puts(out, i ? "," : "");
            buf_printf(out, known ? "%" PRIu64 : "null", *(const uint64_t *)((const char *)row + members[k].at));
        }
        buf_putc(out, ']');
    }
    buf_putc(out, '}');
}

static int need_ranks(const struct view *view, struct err *err)
{
    if (view->report.mpi)
        return 0;
    return err_set(err, -ENODATA, "the job has no statistics of MPI: it ran no MPI program, or was run without --mpi");
}

/* Of the statistics only: what traces lack, changes nothing here. `also` may be NULL. */
static void put_notes(struct buf *out, struct view *view, const char *also)
{
    const struct mpi_report *report = view->report.mpi;
    int64_t ranks = view_ranks_wanted(view), counted = (int64_t)report->set.count;
    char note[128];
    buf_puts(out, "],\"notes\":[");
    if (counted < ranks) {
        snprintf(note, sizeof note,
                 "%" PRId64 " of %" PRId64 " ranks have no statistics of MPI here: they are left out", ranks - counted,
                 ranks);
        view_put_text(out, note);
        buf_puts(out, report->unreadable_count || also ? "," : "");
    }
    if (report->unreadable_count)
        view_put_text(out, report->unreadable.text);
    if (also) {
        buf_puts(out, report->unreadable_count ? "," : "");
        view_put_text(out, also);
    }
    buf_puts(out, "]}");
}

int answer_volume(struct view *view, const struct asked *asked, struct buf *out, struct err *err)
{
    (void)asked;
    const struct mpi_report *report = view->report.mpi;
    bool first = true;
    if (need_ranks(view, err) < 0)
        return err->code;
    buf_puts(out, "{\"processes\":[");
    for (size_t i = 0; i < report->set.count; i++)
        put_rank(out, report, i);
    buf_puts(out, "],\"calls\":[");
    for (uint32_t call = CALL_NONE + 1; call < CALL_COUNT; call++)
        if (report->calls[call].count || report->calls[call].open) {
            buf_puts(out, first ? "" : ",");
            first = false;
            put_call(out, report, call);
        }
    put_notes(out, view, NULL);
    return 0;
}

/* ---- distributions ---- */

enum { DISTRIBUTIONS = 4096, BUCKETS = 4096 };

struct spread { /* one distribution over all ranks */
    const struct mpi_stats_distribution *of;
    uint64_t total, ranks;
    struct mpi_stats_bucket *buckets;
    size_t count;
};

static int by_from(const void *a, const void *b)
{
    const struct mpi_stats_bucket *left = a, *right = b;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return left->to < right->to ? -1 : left->to > right->to;
}

/* Buckets with the same bounds become one. */
static size_t buckets_join(struct mpi_stats_bucket *buckets, size_t count)
{
    size_t used = 0;
    qsort(buckets, count, sizeof *buckets, by_from);
    for (size_t i = 0; i < count; i++)
        if (used && by_from(&buckets[used - 1], &buckets[i]) == 0)
            buckets[used - 1].count += buckets[i].count;
        else
            buckets[used++] = buckets[i];
    return used;
}

static int add_distribution(struct spread *list, size_t *count, const struct mpi_stats_distribution *of)
{
    size_t at = 0;
    while (at < *count && strcmp(list[at].of->name, of->name) != 0)
        at++;
    if (at == DISTRIBUTIONS)
        return 0;
    if (at == *count)
        list[(*count)++] = (struct spread){.of = of};
    struct spread *spread = &list[at];
    struct mpi_stats_bucket *grown = reallocarray(spread->buckets, spread->count + of->count + 1, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    for (size_t i = 0; i < of->count; i++)
        grown[spread->count + i] = of->buckets[i];
    spread->buckets = grown;
    spread->count = buckets_join(grown, spread->count + of->count);
    spread->total += of->total;
    spread->ranks++;
    return 0;
}

static void put_distribution(struct buf *out, const struct spread *spread)
{
    buf_puts(out, "{\"name\":");
    view_put_text(out, spread->of->name);
    buf_printf(out, ",\"unit\":\"%s\",\"total\":%" PRIu64 ",\"ranks\":%" PRIu64 ",\"buckets\":[",
               spread->of->is_time ? "ns" : "bytes", spread->total, spread->ranks);
    for (size_t i = 0; i < spread->count && i < BUCKETS; i++)
        buf_printf(out, "%s[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", i ? "," : "", spread->buckets[i].from,
                   spread->buckets[i].to, spread->buckets[i].count);
    buf_puts(out, "]}");
}

int answer_distributions(struct view *view, const struct asked *asked, struct buf *out, struct err *err)
{
    (void)asked;
    size_t count = 0;
    int code = 0;
    struct err unread = {0};
    if (need_ranks(view, err) < 0)
        return err->code;
    struct mpi_report *report = view->report.mpi;
    _cleanup_(freep) struct spread *list = calloc(DISTRIBUTIONS + 1, sizeof *list);
    struct arena *arena = report->set.arena;
    for (size_t i = 0; list && i < report->set.count && code >= 0; i++) {
        struct mpi_stats *stats = &report->set.ranks[i];
        if (!stats->distribution_count)
            code = mpi_stats_read_distributions(stats, stats->dir ? stats->dir : view->job, arena, &unread);
        for (size_t k = 0; k < stats->distribution_count && code >= 0; k++)
            code = add_distribution(list, &count, &stats->distributions[k]);
    }
    buf_puts(out, "{\"distributions\":[");
    for (size_t i = 0; i < count; i++) {
        buf_puts(out, i ? "," : "");
        put_distribution(out, &list[i]);
        free(list[i].buckets);
    }
    put_notes(out, view,
              *unread.text ? unread.text
              : count      ? NULL
                           : "no distributions were recorded: scry run --mpi stats --mpi-distributions all records "
                             "sizes and durations in buckets");
    return !list || code < 0 ? err_set(err, -ENOMEM, "out of memory") : 0;
}

/* When the thread of a lane had no processor, as its tracer has recorded it (jobdir/trace/switches.h). */

/* When its thread had no processor. NULL: that is not known, or only in part (the job runs, the trace was continued). */
static struct trace_switches *lane_switches(const struct view *view, const struct view_lane *lane)
{
    struct trace_switches *switches;
    const struct trace *trace = view->list[lane->key.trace];
    uint64_t from = trace_number(trace, "switches_from");
    if (view->running || !from || trace_rest(trace) || trace_switches_new(&switches) < 0)
        return NULL;
    trace_switches_go_on(switches, trace_path(trace), from, trace_number(trace, "switches_until"),
                         trace_number(trace, "switches_bytes"));
    return switches;
}

bool lane_call_time(const struct view *view, const struct view_lane *lane, const struct lane_call *call,
                    struct call_time *ret_time)
{
    struct profile_spent now;
    struct call begun = {.entry_time = call->entry_time, .has_spent = true};
    struct trace_event ended = {
        .entry_time = call->entry_time, .time = lane_ticks(view, lane, call->end), .how = call->how, .spent = &now};
    struct trace_switches *switches = lane_switches(view, lane);
    if (!switches)
        return false;
    trace_switches_spent(switches, lane->key.tid, begun.entry_time, &begun.spent);
    trace_switches_spent(switches, lane->key.tid, ended.time, &now);
    trace_switches_free(switches);
    return call_time(view->list[lane->key.trace], &begun, &ended, ret_time);
}

/*
 * Sums over a part of the picture. They are added up as the report does it (jobdir/trace/profile.h), with what lies
 * outside of the part cut off, so that over the whole window they are those of the report.
 */

struct sum {
    uint32_t function;
    uint64_t calls;
    double total_ns, self_ns;
    double waiting_ns; /* of self_ns, without a processor */
};

struct sums {
    struct view *view;
    int64_t from, to;
    struct sum *list; /* by function */
    size_t room;
    double class_ns[VIEW_CLASSES];
    uint64_t class_calls[VIEW_CLASSES];
    double lane_ns; /* of all lanes, from their begin to their end */
    double off_ns;  /* of it, threads that are no ranks waited without a processor */
    /* of the lane that is read */
    const struct view_lane *lane;
    struct profile *profile; /* of its trace */
    uint64_t from_ticks, to_ticks;
    struct trace_switches *switches; /* NULL: a rank, or it is not known */
};

/* ---- a lane ---- */

/* What the thread had spent without a processor until then, for what is fed next. */
static void feed_spent(struct sums *sums, uint64_t time)
{
    struct profile_spent spent;
    if (!sums->switches)
        return;
    trace_switches_spent(sums->switches, sums->lane->key.tid, time, &spent);
    profile_spent_now(sums->profile, &spent);
}

static void feed_opens(void *ctx, const struct open_calls *open)
{
    struct sums *sums = ctx;
    feed_spent(sums, sums->from_ticks);
    for (size_t i = 0; i < open->count; i++) {
        const struct open_call *call = &open->list[i];
        uint64_t since = call->entry_time > sums->from_ticks ? call->entry_time : sums->from_ticks;
        profile_enter(sums->profile, sums->lane->key.serial, call->stack, call->id, since);
    }
}

static void feed_event(void *ctx, const struct trace_event *event)
{
    struct sums *sums = ctx;
    struct trace_event cut = *event;
    if (cut.entry_time < sums->from_ticks)
        cut.entry_time = sums->from_ticks;
    feed_spent(sums, event->time);
    profile_feed(sums->profile, &cut);
}

static void feed_closes(void *ctx, const struct open_calls *open)
{
    struct sums *sums = ctx;
    feed_spent(sums, sums->to_ticks);
    for (size_t i = open->count; i--;)
        profile_leave(sums->profile, sums->lane->key.serial, open->list[i].stack, sums->to_ticks);
}

/* Of ranks the messages say when they waited. */
static bool may_wait(const struct view *view, const struct view_lane *lane)
{
    return view->traces[lane->key.trace].rank < 0;
}

/* So long the thread had no processor, and nothing to do. */
static double waited_ns(const struct view *view, const struct view_lane *lane, int64_t from, int64_t to)
{
    struct profile_spent before, after;
    struct trace_switches *switches = may_wait(view, lane) ? lane_switches(view, lane) : NULL;
    if (!switches)
        return 0;
    trace_switches_spent(switches, lane->key.tid, lane_ticks(view, lane, from), &before);
    trace_switches_spent(switches, lane->key.tid, lane_ticks(view, lane, to), &after);
    trace_switches_free(switches);
    return trace_ticks_ns(view->list[lane->key.trace], after.waiting - before.waiting);
}

static int read_lane(struct sums *sums, const struct view_lane *lane, struct err *err)
{
    const struct lane_reader reader = {.opens = feed_opens, .event = feed_event, .closes = feed_closes, .ctx = sums};
    sums->lane = lane;
    sums->from_ticks = lane_ticks(sums->view, lane, sums->from);
    sums->to_ticks = lane_ticks(sums->view, lane, sums->to);
    int64_t from = lane->from_ns > sums->from ? lane->from_ns : sums->from,
            to = lane->to_ns < sums->to ? lane->to_ns : sums->to;
    if (to > from) {
        sums->lane_ns += (double)(to - from);
        sums->off_ns += waited_ns(sums->view, lane, from, to);
    }
    sums->switches = may_wait(sums->view, lane) ? lane_switches(sums->view, lane) : NULL;
    int code = lane_read(sums->view, lane, sums->from, sums->to, &reader, err);
    trace_switches_free(sums->switches);
    return code;
}

static int add_rows(struct sums *sums, size_t trace)
{
    _cleanup_(freep) struct profile_row *rows = NULL;
    size_t count;
    const struct trace *of = sums->view->list[trace];
    if (profile_rows(sums->profile, 0, &rows, &count) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        uint32_t function =
            rows[i].function == PROFILE_OTHERS ? UINT32_MAX : view_function(sums->view, trace, rows[i].function);
        if (function == UINT32_MAX)
            continue;
        if (!GROW_ZERO_TO(sums->list, (size_t)function + 1, sums->room))
            return -ENOMEM;
        struct sum *sum = &sums->list[function];
        sum->function = function;
        sum->calls += rows[i].calls;
        sum->total_ns += trace_ticks_ns(of, rows[i].total);
        sum->self_ns += trace_ticks_ns(of, rows[i].self);
        sum->waiting_ns += trace_ticks_ns(of, rows[i].self_spent.waiting);
    }
    return 0;
}

/* Of each trace the lanes that are wanted, in one profile. */
static int read_traces(struct sums *sums, const bool *lanes, struct err *err)
{
    struct view *view = sums->view;
    int code = 0;
    for (size_t trace = 0; code == 0 && trace < view->trace_count; trace++) {
        bool any = false;
        for (size_t i = 0; code == 0 && i < view->lane_count; i++) {
            if (!lanes[i] || view->lane_list[i]->key.trace != trace)
                continue;
            if (!any && profile_new(&sums->profile, 0) < 0)
                code = -ENOMEM;
            any = true;
            if (code == 0)
                code = read_lane(sums, view->lane_list[i], err);
        }
        if (any && code == 0)
            code = add_rows(sums, trace);
        profile_free(sums->profile);
        sums->profile = NULL;
    }
    return code;
}

/* ---- classes ---- */

static void move_to_wait(struct sums *sums, enum view_class class, double ns)
{
    double most = ns < sums->class_ns[class] ? ns : sums->class_ns[class];
    sums->class_ns[class] -= most > 0 ? most : 0;
    sums->class_ns[VIEW_WAIT] += most > 0 ? most : 0;
}

/* Threads that waited without a processor: in calls, and outside of recorded ones. */
static void add_off(struct sums *sums)
{
    for (size_t i = 0; i < sums->room; i++)
        if (sums->list[i].waiting_ns > 0) {
            move_to_wait(sums, sums->view->function_list[i]->class, sums->list[i].waiting_ns);
            sums->off_ns -= sums->list[i].waiting_ns;
        }
    move_to_wait(sums, VIEW_COMPUTE, sums->off_ns);
}

/* What of calls was waiting is taken out of their class. */
static void add_waits(struct sums *sums, const bool *lanes)
{
    size_t count;
    const struct line_wait *waits = lines_waits(sums->view, &count);
    for (size_t i = 0; i < count; i++) {
        int64_t from = waits[i].begin > sums->from ? waits[i].begin : sums->from,
                to = waits[i].until < sums->to ? waits[i].until : sums->to;
        if (to <= from || !lanes[waits[i].lane])
            continue;
        move_to_wait(sums, waits[i].class, (double)(to - from));
        sums->class_calls[VIEW_WAIT]++;
    }
}

static void add_classes(struct sums *sums, const bool *lanes)
{
    double in_calls = 0;
    for (size_t i = 0; i < sums->room; i++) {
        enum view_class class = sums->list[i].calls ? sums->view->function_list[i]->class : VIEW_COMPUTE;
        sums->class_calls[class] += sums->list[i].calls;
        sums->class_ns[class] += sums->list[i].self_ns;
        in_calls += class == VIEW_COMPUTE ? 0 : sums->list[i].self_ns;
    }
    if (sums->lane_ns - in_calls > sums->class_ns[VIEW_COMPUTE]) /* also what no recorded function says */
        sums->class_ns[VIEW_COMPUTE] = sums->lane_ns - in_calls;
    add_waits(sums, lanes);
    add_off(sums);
}

/* ---- the answer ---- */

static int by_self(const void *a, const void *b)
{
    const struct sum *left = a, *right = b;
    if (left->self_ns != right->self_ns)
        return left->self_ns > right->self_ns ? -1 : 1;
    return left->function < right->function ? -1 : left->function > right->function;
}

static void put_functions(struct buf *out, struct sums *sums, size_t most)
{
    size_t count = 0;
    for (size_t i = 0; i < sums->room; i++)
        if (sums->list[i].calls)
            sums->list[count++] = sums->list[i];
    if (count)
        qsort(sums->list, count, sizeof *sums->list, by_self);
    buf_puts(out, "\"functions\":[");
    for (size_t i = 0; i < count && i < most; i++) {
        const struct sum *sum = &sums->list[i];
        buf_printf(out, "%s{\"id\":%" PRIu32 ",\"name\":", i ? "," : "", sum->function);
        view_put_text(out, sums->view->function_list[sum->function]->name);
        buf_printf(out, ",\"calls\":%" PRIu64 ",\"total_ns\":%" PRId64 ",\"self_ns\":%" PRId64 "}", sum->calls,
                   view_ns(sum->total_ns), view_ns(sum->self_ns));
    }
    buf_printf(out, "],\"functions_omitted\":%zu", count > most ? count - most : 0);
}

static void put_classes(struct buf *out, const struct sums *sums)
{
    bool first = true;
    buf_puts(out, "\"classes\":[");
    for (unsigned i = 0; i < VIEW_CLASSES; i++) {
        if (!sums->class_calls[i] && sums->class_ns[i] <= 0)
            continue;
        buf_printf(out, "%s{\"class\":\"%s\",\"calls\":%" PRIu64 ",\"total_ns\":%" PRId64 "}", first ? "" : ",",
                   view_class_name(i), sums->class_calls[i], view_ns(sums->class_ns[i]));
        first = false;
    }
    buf_putc(out, ']');
}

void asked_part(const struct view *view, const struct asked *asked, int64_t *ret_from, int64_t *ret_to)
{
    *ret_from = asked->has_from ? asked->from : view->from_ns;
    *ret_to = asked->has_to && asked->to < view->to_ns ? asked->to : INT64_MAX; /* what ends with the window is in it */
}

int answer_selection(struct view *view, const struct asked *asked, struct buf *out, struct err *err)
{
    struct sums sums = {.view = view};
    _cleanup_(freep) bool *lanes = calloc(view->lane_count + 1, sizeof *lanes);
    if (!lanes)
        return err_set(err, -ENOMEM, "out of memory");
    asked_part(view, asked, &sums.from, &sums.to);
    int code = asked_numbers(asked->lanes, view->lane_count, lanes, err);
    if (code == 0)
        code = read_traces(&sums, lanes, err);
    if (code == 0) {
        uint64_t messages, bytes;
        add_classes(&sums, lanes);
        lines_sum(view, lanes, sums.from, sums.to, &messages, &bytes);
        buf_putc(out, '{');
        put_classes(out, &sums);
        buf_putc(out, ',');
        put_functions(out, &sums, (size_t)asked->limit);
        buf_printf(out, ",\"messages\":{\"count\":%" PRIu64 ",\"bytes\":%" PRIu64 "},\"complete\":%s}", messages, bytes,
                   view->complete && view->messages_done ? "true" : "false");
    }
    free(sums.list);
    return code == -ENOMEM ? err_set(err, code, "out of memory") : code;
}
