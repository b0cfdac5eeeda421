/* SPDX-License-Identifier: Apache-2.0 */
/* Section of a report: where the job used processors, by samples (jobdir/analysis/sampled.h). */
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/analysis/sampled.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

enum {
    SUMMARY_FUNCTIONS = 5,
    REPORT_FUNCTIONS = 25,
    SAMPLES_FEW = 10, /* less say nothing of shares */
    WAITED_SHOWN = 3,
    COVERED_PERCENT = 90, /* of the processor time: below it is said */
    REPORT_PATHS = 24,    /* steps of paths of calls, */
    JSON_PATHS = 500,
    REPORT_PROCESSES_SAMPLED = 10,
    REPORT_THREADS = 20,
};

#define CALLS_MUCH 0.05 /* of all samples */
#define NAMELESS_MUCH 0.2
#define PATH_LEAST 0.02  /* likewise: no step of a path has less */
#define WAITED_LEAST 1.0 /* seconds, */
#define WAITED_SHARE 0.1 /* and of all time: less is not worth a line */

static double share_of(const struct sampled *sampled, uint64_t samples)
{
    return sampled->samples ? (double)samples / (double)sampled->samples : 0;
}

static void put_refused(struct buf *out, const struct sampled *sampled)
{
    buf_puts(out, "no samples: perf events are not allowed here (");
    text_show(out, sampled->refused);
    buf_puts(out, "); times are by process");
}

static void put_summary(struct buf *out, const struct sampled *sampled)
{
    text_label(out, "profile");
    if (sampled->refused) {
        put_refused(out, sampled);
        buf_puts(out, ": ");
    }
    size_t shown = 0;
    for (; shown < sampled->count && shown < SUMMARY_FUNCTIONS; shown++) {
        double share = share_of(sampled, sampled->functions[shown].self);
        if (share < 0.01)
            break;
        buf_printf(out, "%s%.0f %% ", shown ? ", " : "", 100 * share);
        sampled_put_name(out, &sampled->functions[shown]);
        buf_puts(out, sampled->functions[shown].below != SAMPLED_PROGRAM ? " below " : "");
        sampled_put_below(out, sampled, &sampled->functions[shown]);
    }
    buf_putc(out, '\n');
}

/* ---- waiting ---- */

struct waited { /* a function, and what it waited for */
    const struct sampled_function *function;
    enum waiting_for what;
    double seconds;
};

static int by_seconds(const void *a, const void *b)
{
    double left = ((const struct waited *)a)->seconds, right = ((const struct waited *)b)->seconds;
    return left > right ? -1 : left < right;
}

/* The longest first; the caller frees them. NULL: none, or there is no memory. */
static struct waited *waited_list(const struct sampled *sampled, size_t *ret_count)
{
    struct waited *list = calloc(sampled->count + 1, WAITING_KINDS * sizeof *list);
    *ret_count = 0;
    for (size_t i = 0; list && i < sampled->count; i++)
        for (int what = 1; what < WAITING_KINDS; what++)
            if (sampled->functions[i].waits[what] > 0)
                list[(*ret_count)++] =
                    (struct waited){&sampled->functions[i], (enum waiting_for)what, sampled->functions[i].waits[what]};
    if (list)
        qsort(list, *ret_count, sizeof *list, by_seconds);
    return list;
}

/* Of the time that threads were seen in: they computed, or waited. */
static double waited_share(const struct sampled *sampled, double seconds)
{
    double cpu = sampled->cpu_seconds > sampled->seconds ? sampled->cpu_seconds : sampled->seconds;
    return seconds > 0 ? seconds / (sampled->waiting_seconds + cpu) : 0;
}

/* Of several processes the one that waited so most; NULL: there is only one, or all have one name. */
static const char *waiter_of(const struct sampled *sampled, const struct waited *waited)
{
    _cleanup_(freep) double *seconds = calloc(sampled->process_count + 1, sizeof *seconds);
    const size_t function = (size_t)(waited->function - sampled->functions);
    size_t most = 0;
    bool others = false;
    for (size_t i = 1; i < sampled->process_count; i++)
        others |= strcmp(sampled->processes[i].name, sampled->processes[0].name) != 0;
    if (!seconds || !others)
        return NULL;
    for (size_t i = 0; i < sampled->wait_count; i++) {
        const struct sampled_node *node = &sampled->nodes[sampled->waits[i].node];
        if (node->function == function && sampled->waits[i].what == waited->what)
            seconds[node->process] += sampled->waits[i].seconds;
    }
    for (size_t i = 0; i < sampled->process_count; i++)
        most = seconds[i] > seconds[most] ? i : most;
    return seconds[most] > 0 ? sampled->processes[most].name : NULL;
}

/* "53 % of its threads' time: 31 % make for the end of a child in waitpid, 22 % cc1 for a pipe in read". */
static void put_waited(struct buf *out, const struct sampled *sampled, const char *whose)
{
    size_t count;
    struct waited *list = waited_list(sampled, &count);
    const double total = waited_share(sampled, sampled->waiting_seconds);
    buf_printf(out, "%.0f %% of %s time", 100 * total, whose);
    for (size_t i = 0; i < count && i < WAITED_SHOWN; i++) {
        double share = waited_share(sampled, list[i].seconds);
        if (i && share < 0.01)
            break;
        bool named = list[i].function->name || strcmp(list[i].function->language, "native") != 0;
        buf_puts(out, i ? ", " : ": ");
        if (i || total - share >= 0.01)
            buf_printf(out, "%.0f %% ", 100 * share);
        const char *waiter = waiter_of(sampled, &list[i]);
        text_show(out, waiter ? waiter : "");
        buf_printf(out, "%s%s%s %s", waiter ? " " : "", list[i].what == WAITING_SLEEP ? "" : "for ",
                   list[i].what == WAITING_SLEEP ? "asleep" : waiting_text(list[i].what), named ? "in " : "");
        sampled_put_name(out, list[i].function);
    }
    buf_putc(out, '\n');
    free(list);
}

static bool waited_much(const struct sampled *sampled)
{
    return sampled->waiting_seconds >= WAITED_LEAST && waited_share(sampled, sampled->waiting_seconds) >= WAITED_SHARE;
}

static void put_share(struct buf *out, const void *at, const void *row, const void *all)
{
    buf_printf(out, "%.1f", 100 * share_of(all, *(const uint64_t *)at));
}

/* Two blanks before it, as all tables have them. */
static void put_name(struct buf *out, const void *at, const void *row, const void *all)
{
    buf_puts(out, "  ");
    sampled_put_name(out, row);
}

static void put_below(struct buf *out, const void *at, const void *row, const void *all)
{
    sampled_put_below(out, all, row);
}

static const struct field columns[] = {
    {.type = FIELD_SHOWN,
     .column = FIELD_COLUMN(1, 0, -44, "Where processors were used", .text = put_name, .whole = true)},
    {.type = FIELD_COUNT,
     FIELD_AT(struct sampled_function, self),
     .column = FIELD_COLUMN(2, 1, 7, "self %", .text = put_share)},
    {.type = FIELD_COUNT,
     FIELD_AT(struct sampled_function, total),
     .column = FIELD_COLUMN(3, 1, 8, "total %", .text = put_share)},
    {.type = FIELD_SECONDS, FIELD_AT(struct sampled_function, self_seconds), .column = FIELD_COLUMN(4, 1, 10, "self")},
    {0}};

/* Where there are some of libraries. */
static const struct field columns_below[] = {
    {"", FIELD_PART, .of = columns},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(5, 2, 0, "below", .text = put_below)},
    {0}};

/* Of processes that end before their first sample is due nothing is seen. */
static void put_covered(struct buf *out, const struct sampled *sampled)
{
    double cpu = sampled->cpu_seconds;
    if (100 * sampled->seconds < COVERED_PERCENT * cpu) {
        buf_puts(out, "  of ");
        text_seconds(out, cpu);
        buf_puts(out, " they have seen ");
        text_seconds(out, sampled->seconds);
        buf_printf(out, ": threads and processes shorter than %u ms are not sampled%s\n", 1000 / sampled->hz,
                   sampled->kernel ? "" : ", nor is the kernel's time (perf_event_paranoid)");
    }
    if (sampled->lost)
        buf_printf(out, "  %llu samples were lost: the node was too busy to take them\n",
                   (unsigned long long)sampled->lost);
}

/* Those with samples of their own, and behind them those of the program, or that have lines, that called much; not Python's own that import
 * (<frozen importlib._bootstrap>). */
static size_t choose(const struct sampled *sampled, const struct sampled_function **ret_rows)
{
    size_t count = 0;
    for (size_t i = 0; i < sampled->count; i++)
        if (sampled->functions[i].self)
            ret_rows[count++] = &sampled->functions[i];
    count = count < REPORT_FUNCTIONS ? count : REPORT_FUNCTIONS;
    for (size_t i = 0; i < sampled->count; i++) {
        const struct sampled_function *function = &sampled->functions[i];
        if (!function->self && *function->file && *function->file != '<' &&
            strncmp(function->name ? function->name : "", "__libc_start", 12) != 0 &&
            share_of(sampled, function->total) >= CALLS_MUCH)
            ret_rows[count++] = function;
    }
    return count;
}

/* Few samples of next to no processor time: no word of them. */
static bool says_nothing(const struct sampled *sampled)
{
    static const double LITTLE = 1; /* second */
    return sampled->samples < SAMPLES_FEW && sampled->cpu_seconds < LITTLE && !sampled->refused;
}

/* Where much was in functions that have no names: how they would get some. */
static void put_nameless(struct buf *out, const struct sampled *sampled)
{
    for (size_t i = 0; i < sampled->count; i++) {
        const struct sampled_function *function = &sampled->functions[i];
        if (share_of(sampled, function->self) < NAMELESS_MUCH || function->below != SAMPLED_PROGRAM)
            continue;
        if (!function->name && *function->module == '/') {
            buf_puts(out, "  names of functions of ");
            text_show(out, text_base(function->module));
            buf_puts(out, " were not found: probably strip, or cc -s, has removed its table of symbols\n");
        } else if (function->name && *function->name == '[' && strcmp(function->language, "jit") == 0) { /* all of it */
            buf_puts(out, "  ");
            text_show(out, function->name);
            buf_puts(out, " would have names in /tmp/perf-PID.map (java -XX:+UnlockDiagnosticVMOptions "
                          "-XX:+DumpPerfMapAtExit, node --perf-basic-prof)\n");
        }
    }
}

static void put_table(struct buf *out, const struct sampled *sampled)
{
    const struct sampled_function **rows = calloc(sampled->count + 1, sizeof *rows);
    size_t count = rows && sampled->samples >= SAMPLES_FEW ? choose(sampled, rows) : 0;
    bool below = false;
    for (size_t i = 0; i < count; i++)
        below |= rows[i]->below != SAMPLED_PROGRAM;
    fields_table(out, &(struct field_table){below ? columns_below : columns}, rows, count, 0, sampled);
    if (sampled->refused) {
        buf_puts(out, count ? "  " : "\nWhere processors were used\n  ");
        put_refused(out, sampled);
        buf_puts(out, ", and of Python by function\n");
        free(rows);
        return;
    }
    buf_printf(out, "%s  %llu sample%s, %u in each second of a thread's processor time%s\n",
               count ? "" : "\nWhere processors were used\n", (unsigned long long)sampled->samples,
               sampled->samples == 1 ? "" : "s", sampled->hz,
               count ? " (--json lists all functions)" : ": too few to say");
    if (count)
        put_nameless(out, sampled);
    put_covered(out, sampled);
    free(rows);
}

/* ---- paths of calls ---- */

struct path_step {
    const struct sampled_node *node;
    const struct sampled *sampled;
    int64_t parent; /* in the list; -1: none */
    unsigned depth;
};

struct paths {
    struct path_step *list;
    size_t count;
};

static int by_total(const void *a, const void *b)
{
    const struct sampled_node *left = ((const struct path_step *)a)->node, *right = ((const struct path_step *)b)->node;
    if (left->total != right->total)
        return left->total > right->total ? -1 : 1;
    if (left->seconds != right->seconds)
        return left->seconds > right->seconds ? -1 : 1;
    return left < right ? -1 : left > right;
}

static int by_node(const void *a, const void *b)
{
    const struct sampled_node *left = ((const struct path_step *)a)->node, *right = ((const struct path_step *)b)->node;
    return left < right ? -1 : left > right;
}

/* The `most` steps with most time, callers before what they call: who calls has no less. *ret_nodes, which they are of, and the list
 * are malloc'ed. */
static struct paths paths_of(const struct sampled *sampled, bool brief, size_t most, struct sampled_node **ret_nodes)
{
    size_t count;
    struct paths paths = {0};
    *ret_nodes = NULL;
    if (sampled_merge(sampled, NULL, brief, ret_nodes, &count) < 0 ||
        !(paths.list = calloc(count + 1, sizeof *paths.list)))
        return paths;
    for (size_t i = 0; i < count; i++)
        paths.list[i] = (struct path_step){&(*ret_nodes)[i], sampled, -1, 0};
    qsort(paths.list, count, sizeof *paths.list, by_total);
    paths.count = count < most ? count : most;
    qsort(paths.list, paths.count, sizeof *paths.list, by_node);
    for (size_t i = 0; i < paths.count; i++)
        for (size_t above = i; paths.list[i].node->parent >= 0 && paths.list[i].parent < 0 && above-- > 0;)
            if (paths.list[above].node == &(*ret_nodes)[paths.list[i].node->parent]) {
                paths.list[i].parent = (int64_t)above;
                paths.list[i].depth = paths.list[above].depth + 1;
            }
    return paths;
}

/* In the order in which a tree is read: below each caller what it calls, that with most time first. */
static void paths_order(const struct paths *paths, int64_t parent, const struct path_step **ret_rows,
                        size_t *inout_count)
{
    bool done[REPORT_PATHS] = {false};
    for (;;) {
        size_t best = SIZE_MAX;
        for (size_t i = 0; i < paths->count; i++)
            if (!done[i] && paths->list[i].parent == parent &&
                (best == SIZE_MAX || paths->list[i].node->total > paths->list[best].node->total))
                best = i;
        if (best == SIZE_MAX)
            return;
        done[best] = true;
        if (share_of(paths->list[best].sampled, paths->list[best].node->total) < PATH_LEAST)
            return;
        ret_rows[(*inout_count)++] = &paths->list[best];
        paths_order(paths, (int64_t)best, ret_rows, inout_count);
    }
}

static void put_step(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct path_step *step = row;
    buf_printf(out, "%*s", 2 + 2 * (int)step->depth, "");
    if (step->node->function == SAMPLED_PROGRAM)
        text_show(out, step->sampled->processes[step->node->process].name);
    else
        sampled_put_name(out, &step->sampled->functions[step->node->function]);
}

static void put_step_total(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct path_step *step = row;
    buf_printf(out, "%.1f", 100 * share_of(step->sampled, step->node->total));
}

static void put_step_self(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct path_step *step = row;
    if (step->node->self)
        buf_printf(out, "%.1f", 100 * share_of(step->sampled, step->node->self));
}

static const struct field step_columns[] = {
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(1, 0, -60, "By path of calls", .text = put_step, .whole = true)},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(2, 1, 8, "total %", .text = put_step_total)},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(3, 1, 7, "self %", .text = put_step_self)},
    {0}};

static void put_paths(struct buf *out, const struct sampled *sampled)
{
    struct sampled_node *nodes;
    struct paths paths = paths_of(sampled, true, REPORT_PATHS, &nodes);
    const struct path_step *rows[REPORT_PATHS];
    size_t count = 0, deep = 0;
    if (paths.list)
        paths_order(&paths, -1, rows, &count);
    for (size_t i = 0; i < count; i++)
        deep += rows[i]->depth > 1;
    if (deep) /* else the table of functions says it */
        fields_table(out, &(struct field_table){step_columns}, rows, count, 0, sampled);
    free(paths.list);
    free(nodes);
}

/* ---- processes ---- */

struct sampled_row { /* a process */
    const struct sampled_process *process;
    const struct sampled *sampled;
    const char *node, *most;
    const struct mpi_stats *stats; /* of its rank; NULL: it is none */
    uint32_t world;                /* of several programs: which one, from 1; 0 */
};

const struct mpi_stats *job_report_sampled_rank(const struct job_report *report, const struct sampled_process *process)
{
    for (size_t i = 0; report->mpi && i < report->mpi->set.count; i++) {
        const struct mpi_stats *stats = &report->mpi->set.ranks[i];
        const char *part = stats->dir && strcmp(stats->dir, report->path) != 0 ? text_base(stats->dir) : "";
        if (stats->pid == process->pid && strcmp(part, process->part) == 0)
            return stats;
    }
    return NULL;
}

static int by_time(const void *a, const void *b)
{
    const struct sampled_process *left = ((const struct sampled_row *)a)->process,
                                 *right = ((const struct sampled_row *)b)->process;
    if (left->samples != right->samples)
        return left->samples > right->samples ? -1 : 1;
    if (left->waiting_seconds != right->waiting_seconds)
        return left->waiting_seconds > right->waiting_seconds ? -1 : 1;
    return left < right ? -1 : left > right;
}

static struct sampled_row row_of(const struct job_report *report, const struct sampled *sampled,
                                 const struct sampled_process *process)
{
    return (struct sampled_row){.process = process,
                                .sampled = sampled,
                                .node = *process->part      ? process->part
                                        : report->info.host ? report->info.host
                                                            : "",
                                .most =
                                    process->most == SAMPLED_PROGRAM ? NULL : sampled->functions[process->most].name,
                                .stats = job_report_sampled_rank(report, process)};
}

/* Those with most time first; malloc'ed. NULL: no memory. */
static struct sampled_row *rows_of(const struct job_report *report, const struct sampled *sampled, size_t *ret_count)
{
    struct sampled_row *rows = calloc(sampled->process_count + 1, sizeof *rows);
    size_t count = 0;
    for (size_t i = 0; rows && i < sampled->process_count; i++) {
        const struct sampled_process *process = &sampled->processes[i];
        if (!process->samples && !(process->waiting_seconds > 0))
            continue;
        rows[count++] = row_of(report, sampled, process);
    }
    if (rows)
        qsort(rows, count, sizeof *rows, by_time);
    *ret_count = count;
    return rows;
}

static void put_process(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct sampled_row *one = row;
    buf_puts(out, "  ");
    if (one->stats)
        buf_printf(out, "rank %d  ", (int)one->stats->rank);
    text_show(out, one->process->name);
    if (one->process->pid)
        buf_printf(out, " %lld", (long long)one->process->pid);
    if (*one->process->part) {
        buf_puts(out, " on ");
        text_show(out, one->node);
    }
}

static void put_process_share(struct buf *out, const void *at, const void *row, const void *all)
{
    buf_printf(out, "%.1f",
               100 * share_of(((const struct sampled_row *)row)->sampled,
                              ((const struct sampled_row *)row)->process->samples));
}

static void put_process_most(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct sampled_row *one = row;
    if (one->process->most != SAMPLED_PROGRAM)
        sampled_put_name(out, &one->sampled->functions[one->process->most]);
}

static json_t *rank_json(const void *row, const void *all)
{
    const struct mpi_stats *stats = ((const struct sampled_row *)row)->stats;
    return stats ? json_integer(stats->rank) : json_null();
}

static const struct field sampled_process_fields[] = {
    {"pid", FIELD_INTEGER, FIELD_AT(struct sampled_process, pid)},
    {"name", FIELD_TEXT, FIELD_AT(struct sampled_process, name)},
    {"samples", FIELD_COUNT, FIELD_AT(struct sampled_process, samples)},
    {"self_seconds", FIELD_SECONDS, FIELD_AT(struct sampled_process, seconds), .about = "of processor time",
     .column = FIELD_COLUMN(3, 1, 10, "self")},
    {"waiting_seconds", FIELD_SECONDS, FIELD_AT(struct sampled_process, waiting_seconds),
     .column = FIELD_COLUMN(4, 1, 10, "waiting")},
    {0}};

static const struct field row_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct sampled_row, process), FIELD_POINTER, .of = sampled_process_fields},
    {"node", FIELD_TEXT, FIELD_AT(struct sampled_row, node)},
    {"rank", FIELD_INTEGER, .flags = FIELD_OR_NULL, .json = rank_json, .about = "of MPI_COMM_WORLD; null: it is none"},
    {"function", FIELD_TEXT, FIELD_AT(struct sampled_row, most), FIELD_OR_NULL,
     .about = "the one with most of its samples; null: none, or its name is not known"},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(1, 0, -34, "By process", .text = put_process, .whole = true)},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(2, 1, 7, "self %", .text = put_process_share)},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(5, 2, 0, "most in", .text = put_process_most)},
    {0}};

static void put_processes(struct buf *out, const struct job_report *report, const struct sampled *sampled)
{
    size_t count;
    struct sampled_row *rows = rows_of(report, sampled, &count);
    if (rows && count > 1)
        fields_table(out,
                     &(struct field_table){row_fields, .most = REPORT_PROCESSES_SAMPLED, .more = "--json lists all"},
                     rows, count, sizeof *rows, sampled);
    free(rows);
}

/* ---- threads ---- */

struct thread_row {
    const struct sampled_thread *thread;
    const struct sampled *sampled;
    const char *node, *most;
    struct sampled_row process;
};

static int by_thread_time(const void *a, const void *b)
{
    const struct sampled_thread *left = ((const struct thread_row *)a)->thread,
                                *right = ((const struct thread_row *)b)->thread;
    if (left->samples != right->samples)
        return left->samples > right->samples ? -1 : 1;
    if (left->waiting_seconds != right->waiting_seconds)
        return left->waiting_seconds > right->waiting_seconds ? -1 : 1;
    return left < right ? -1 : left > right;
}

/* The busiest first; malloc'ed. NULL: no memory. */
static struct thread_row *thread_rows_of(const struct job_report *report, const struct sampled *sampled)
{
    struct thread_row *rows = calloc(sampled->thread_count + 1, sizeof *rows);
    for (size_t i = 0; rows && i < sampled->thread_count; i++) {
        const struct sampled_thread *thread = &sampled->threads[i];
        rows[i] =
            (struct thread_row){.thread = thread,
                                .sampled = sampled,
                                .most = thread->most == SAMPLED_PROGRAM ? NULL : sampled->functions[thread->most].name,
                                .process = row_of(report, sampled, &sampled->processes[thread->process])};
    }
    if (rows && sampled->thread_count)
        qsort(rows, sampled->thread_count, sizeof *rows, by_thread_time);
    return rows;
}

/* What these processes have come to beside the first so many threads. */
struct others {
    double seconds, waiting_seconds;
};

static struct others others_of(const struct sampled *sampled, const struct thread_row *rows, size_t shown)
{
    struct others others = {0};
    _cleanup_(freep) bool *has = calloc(sampled->process_count + 1, sizeof *has);
    for (size_t i = 0; has && i < sampled->thread_count; i++)
        has[sampled->threads[i].process] = true;
    for (size_t i = 0; has && i < sampled->process_count; i++) {
        others.seconds += has[i] ? sampled->processes[i].seconds : 0;
        others.waiting_seconds += has[i] ? sampled->processes[i].waiting_seconds : 0;
    }
    for (size_t i = 0; i < shown; i++) {
        others.seconds -= rows[i].thread->seconds;
        others.waiting_seconds -= rows[i].thread->waiting_seconds;
    }
    return (struct others){others.seconds > 0 ? others.seconds : 0,
                           others.waiting_seconds > 0 ? others.waiting_seconds : 0};
}

static void put_thread(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct thread_row *one = row;
    buf_puts(out, "  ");
    if (one->process.stats)
        buf_printf(out, "rank %d  ", (int)one->process.stats->rank);
    text_show(out, one->thread->name);
    buf_printf(out, " %lld", (long long)one->thread->tid);
    if (one->thread->tid != one->process.process->pid) {
        buf_puts(out, " of ");
        text_show(out, one->process.process->name);
        buf_printf(out, " %lld", (long long)one->process.process->pid);
    }
    if (*one->process.process->part) {
        buf_puts(out, " on ");
        text_show(out, one->process.node);
    }
}

static void put_thread_share(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct thread_row *one = row;
    buf_printf(out, "%.1f", 100 * share_of(one->sampled, one->thread->samples));
}

static void put_thread_most(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct thread_row *one = row;
    if (one->thread->most != SAMPLED_PROGRAM)
        sampled_put_name(out, &one->sampled->functions[one->thread->most]);
}

static const struct field sampled_thread_fields[] = {
    {"tid", FIELD_INTEGER, FIELD_AT(struct sampled_thread, tid), .about = "of the kernel"},
    {"name", FIELD_TEXT, FIELD_AT(struct sampled_thread, name)},
    {"samples", FIELD_COUNT, FIELD_AT(struct sampled_thread, samples)},
    {"self_seconds", FIELD_SECONDS, FIELD_AT(struct sampled_thread, seconds), .about = "of processor time",
     .column = FIELD_COLUMN(3, 1, 10, "self")},
    {"waiting_seconds", FIELD_SECONDS, FIELD_AT(struct sampled_thread, waiting_seconds),
     .column = FIELD_COLUMN(4, 1, 10, "waiting")},
    {0}};

static const struct field thread_process_fields[] = {
    {"pid", FIELD_INTEGER, FIELD_AT(struct sampled_process, pid)},
    {"process", FIELD_TEXT, FIELD_AT(struct sampled_process, name), .about = "its name"},
    {0}};

static const struct field thread_row_process_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct sampled_row, process), FIELD_POINTER, .of = thread_process_fields},
    {"node", FIELD_TEXT, FIELD_AT(struct sampled_row, node)},
    {"rank", FIELD_INTEGER, .flags = FIELD_OR_NULL, .json = rank_json, .about = "of MPI_COMM_WORLD; null: it is none"},
    {0}};

static const struct field thread_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct thread_row, thread), FIELD_POINTER, .of = sampled_thread_fields},
    {"", FIELD_PART, FIELD_AT(struct thread_row, process), .of = thread_row_process_fields},
    {"function", FIELD_TEXT, FIELD_AT(struct thread_row, most), FIELD_OR_NULL,
     .about = "the one with most of its samples, or, without, in which it waited most; null: its name is not known"},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(1, 0, -44, "By thread", .text = put_thread, .whole = true)},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(2, 1, 7, "self %", .text = put_thread_share)},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(5, 2, 0, "most in", .text = put_thread_most)},
    {0}};

static void put_threads(struct buf *out, const struct job_report *report, const struct sampled *sampled)
{
    static const double LITTLE = 0.1; /* seconds */
    struct thread_row *rows = thread_rows_of(report, sampled);
    size_t shown = sampled->thread_count < REPORT_THREADS ? sampled->thread_count : REPORT_THREADS;
    if (rows && shown) {
        const struct others others = others_of(sampled, rows, shown);
        fields_table(out, &(struct field_table){thread_fields}, rows, shown, sizeof *rows, sampled);
        if (others.seconds >= LITTLE || others.waiting_seconds >= LITTLE) {
            buf_puts(out, "  the other threads of these processes: ");
            text_seconds(out, others.seconds);
            buf_puts(out, ", waiting ");
            text_seconds(out, others.waiting_seconds);
            buf_putc(out, '\n');
        }
    }
    free(rows);
}

static bool profile_read(const struct job_report *report, struct sampled **ret_sampled)
{
    return report->path && report->path[0] && (report->info.profile_hz || !report->info.json) &&
           sampled_read(ret_sampled, report->path, report->part_count > 0) == 0;
}

void report_profile_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    struct sampled *sampled;
    if (report->one_rank || !profile_read(report, &sampled))
        return;
    bool nothing = !sampled->samples || says_nothing(sampled);
    if (whole && nothing && waited_much(sampled))
        buf_puts(out, "\nWhere threads waited\n");
    else if (whole && !says_nothing(sampled))
        put_table(out, sampled);
    else if (sampled->samples >= SAMPLES_FEW)
        put_summary(out, sampled);
    if (waited_much(sampled)) {
        if (whole)
            buf_puts(out, "  threads waited ");
        else
            text_label(out, "waited");
        bool one = sampled->process_count < 2 && !sampled->thread_count;
        put_waited(out, sampled, whole ? "their" : one ? "its" : "its threads'");
    }
    if (whole && sampled->samples >= SAMPLES_FEW) {
        put_paths(out, sampled);
        put_processes(out, report, sampled);
        put_threads(out, report, sampled);
    }
    sampled_free(sampled);
}

/* ---- for programs ---- */

static json_t *waits_json(const void *row, const void *all)
{
    const struct sampled_function *function = row;
    json_t *list = json_array();
    for (int what = 1; what < WAITING_KINDS; what++)
        if (function->waits[what] > 0)
            json_array_append_new(list, json_pack("{s:s, s:f}", "for", waiting_word((enum waiting_for)what), "seconds",
                                                  function->waits[what]));
    return list;
}

static const struct field below_function_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct sampled_function, name)},
    {"file", FIELD_TEXT, FIELD_AT(struct sampled_function, file), .about = "of its source; \"\": not known"},
    {"line", FIELD_INTEGER, FIELD_AT(struct sampled_function, line), FIELD_ZERO_IS_NULL},
    {0}};

static const struct field below_fields[] = {
    {"", FIELD_PART, .of = below_function_fields}, {"samples", FIELD_COUNT, .about = "of this function's own"}, {0}};

struct profile_all {
    const struct sampled *sampled;
    struct sampled_row *rows;
    size_t row_count;
    struct thread_row *threads;
    size_t thread_count;
    struct others others;
    struct path_step *steps;
    size_t step_count;
};

static json_t *below_json(const void *row, const void *all)
{
    const struct sampled_function *function = row;
    const struct profile_all *profile = all;
    if (function->below == SAMPLED_PROGRAM)
        return json_null();
    json_t *json = fields_json(below_function_fields, &profile->sampled->functions[function->below], NULL);
    json_object_set_new(json, "samples", json_integer((json_int_t)function->below_samples));
    return json;
}

static const struct field waits_fields[] = {
    {"for", FIELD_CHOICE,
     .choices = "lock|condition|thread|child|sleep|pipe|socket|disk|terminal|events|signal|message|mpi|other"},
    {"seconds", FIELD_SECONDS},
    {0}};

static const struct field function_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct sampled_function, name), FIELD_OR_NULL,
     .about = "null: only the module is known"},
    {"module", FIELD_TEXT, FIELD_AT(struct sampled_function, module), .about = "the file that it is in; \"\": none"},
    {"file", FIELD_TEXT, FIELD_AT(struct sampled_function, file), .about = "of its source; \"\": not known"},
    {"line", FIELD_INTEGER, FIELD_AT(struct sampled_function, line), FIELD_ZERO_IS_NULL},
    {"language", FIELD_CHOICE, FIELD_AT(struct sampled_function, language),
     .choices = "native|python|javascript|jit|kernel|process|thread",
     .about = "jit: of code that a program made while it ran; process, thread: see refused"},
    {"self_samples", FIELD_COUNT, FIELD_AT(struct sampled_function, self)},
    {"total_samples", FIELD_COUNT, FIELD_AT(struct sampled_function, total), .about = "in it, or in what it called"},
    {"self_seconds", FIELD_SECONDS, FIELD_AT(struct sampled_function, self_seconds), .about = "of processor time"},
    {"total_seconds", FIELD_SECONDS, FIELD_AT(struct sampled_function, total_seconds)},
    {"waiting_seconds", FIELD_SECONDS, FIELD_AT(struct sampled_function, waiting_seconds),
     .about = "of threads that waited in it, or in a library that it called for that"},
    {"waits", FIELD_LIST, .json = waits_json, .of = waits_fields, .about = "the same by what for"},
    {"processes", FIELD_COUNT, FIELD_AT(struct sampled_function, processes), .about = "in which it was sampled"},
    {"below", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = below_json, .of = below_fields,
     .about =
         "of one of a library: the program's own function nearest above it that has most of its own samples; null: "
         "none, or it is the program's"},
    {0}};

/* Of a struct path_step. */
static json_t *step_name_json(const void *row, const void *all)
{
    const struct path_step *step = row;
    if (step->node->function == SAMPLED_PROGRAM)
        return text_json(step->sampled->processes[step->node->process].name);
    const char *name = step->sampled->functions[step->node->function].name;
    return name ? text_json(name) : json_null();
}

static json_t *step_function_json(const void *row, const void *all)
{
    const struct path_step *step = row;
    return step->node->function == SAMPLED_PROGRAM ? json_null() : json_integer((json_int_t)step->node->function);
}

static const struct field step_node_fields[] = {
    {"self_samples", FIELD_COUNT, FIELD_AT(struct sampled_node, self)},
    {"total_samples", FIELD_COUNT, FIELD_AT(struct sampled_node, total)},
    {"waiting_seconds", FIELD_SECONDS, FIELD_AT(struct sampled_node, seconds), .about = "in it, or in what it called"},
    {0}};

static const struct field step_fields[] = {
    {"parent", FIELD_INTEGER, FIELD_AT(struct path_step, parent), FIELD_NEGATIVE_IS_NULL,
     .about = "who called it: a place in this list, before its own; null: it is a program"},
    {"name", FIELD_TEXT, .flags = FIELD_OR_NULL, .json = step_name_json, .about = "of the function, or the program"},
    {"function", FIELD_INTEGER, .flags = FIELD_OR_NULL, .json = step_function_json,
     .about = "its place in functions; null: it is a program"},
    {"", FIELD_PART, FIELD_AT(struct path_step, node), FIELD_POINTER, .of = step_node_fields},
    {0}};

static const struct field sampled_fields[] = {
    {"hz", FIELD_COUNT, FIELD_AT(struct sampled, hz), .about = "samples in each second of a thread's processor time"},
    {"samples", FIELD_COUNT, FIELD_AT(struct sampled, samples)},
    {"lost", FIELD_COUNT, FIELD_AT(struct sampled, lost)},
    {"seconds", FIELD_SECONDS, FIELD_AT(struct sampled, seconds),
     .about = "of processor time that the samples stand for"},
    {"cpu_seconds", FIELD_SECONDS, FIELD_AT(struct sampled, cpu_seconds), .about = "of processor time that there was"},
    {"cost_seconds", FIELD_SECONDS, FIELD_AT(struct sampled, cost_seconds),
     .about = "of processor time that scry took for them"},
    {"waiting_seconds", FIELD_SECONDS, FIELD_AT(struct sampled, waiting_seconds),
     .about = "of threads that waited, without pools that stood and those that waited for a child or a thread"},
    {"kernel", FIELD_BOOL, FIELD_AT(struct sampled, kernel),
     .about = "the kernel's time for the job is in it; false: perf_event_paranoid does not let users see it"},
    {"refused", FIELD_TEXT, FIELD_AT(struct sampled, refused), FIELD_OR_NULL,
     .about =
         "why there are no samples: functions are processes, threads by their names, and functions of Python then"},
    {"functions", FIELD_LIST, FIELD_ROWS(struct sampled, functions, count), .of = function_fields},
    {0}};

static const struct field others_fields[] = {
    {"self_seconds", FIELD_SECONDS, FIELD_AT(struct others, seconds), .about = "of processor time"},
    {"waiting_seconds", FIELD_SECONDS, FIELD_AT(struct others, waiting_seconds)},
    {0}};

static json_t *others_json(const void *row, const void *all)
{
    return fields_json(others_fields, &((const struct profile_all *)row)->others, NULL);
}

static const struct field profile_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct profile_all, sampled), FIELD_POINTER, .of = sampled_fields},
    {"processes", FIELD_LIST, FIELD_ROWS(struct profile_all, rows, row_count), .of = row_fields,
     .about = "that have samples, or waited: most time first"},
    {"threads", FIELD_LIST, FIELD_ROWS(struct profile_all, threads, thread_count), .of = thread_fields,
     .about =
         "of processes in which others than the first ran or waited, most time first: the 200 busiest of each node"},
    {"other_threads", FIELD_OBJECT, .json = others_json, .of = others_fields,
     .about = "what the others of these processes have come to together"},
    {"tree", FIELD_LIST, FIELD_ROWS(struct profile_all, steps, step_count), .of = step_fields,
     .about = "paths of calls, callers before what they call: the 500 steps with most time"},
    {0}};

static json_t *profile_json(const void *row, const void *all)
{
    const struct job_report *report = row;
    struct sampled *sampled;
    struct sampled_node *nodes;
    if (!profile_read(report, &sampled))
        return json_null();
    struct paths paths = paths_of(sampled, false, JSON_PATHS, &nodes);
    struct profile_all whole = {.sampled = sampled, .steps = paths.list, .step_count = paths.count};
    whole.rows = rows_of(report, sampled, &whole.row_count);
    whole.threads = thread_rows_of(report, sampled);
    whole.thread_count = whole.threads ? sampled->thread_count : 0;
    whole.others = others_of(sampled, whole.threads, whole.thread_count);
    json_t *json = fields_json(profile_fields, &whole, &whole);
    free(whole.rows);
    free(whole.threads);
    free(paths.list);
    free(nodes);
    sampled_free(sampled);
    return json;
}

static json_t *profile_brief_json(const void *row, const void *all)
{
    struct sampled *sampled;
    if (!profile_read(row, &sampled))
        return json_null();
    json_t *json = fields_json(sampled_fields, sampled, &(struct profile_all){.sampled = sampled});
    sampled_free(sampled);
    return json;
}

#define PROFILE_FIELD(json_, of_) \
    { \
        "profile", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = (json_), .of = (of_), \
                                 .about = "where processors were used, by samples; null: none were taken (--profile)" \
    }

const struct field report_profile_fields[] = {PROFILE_FIELD(profile_json, profile_fields), {0}};
const struct field report_profile_brief_fields[] = {PROFILE_FIELD(profile_brief_json, sampled_fields), {0}};
