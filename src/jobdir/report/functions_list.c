/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of a job: all together, by rank, who calls whom, and from where. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "jobdir/report/functions_internal.h"
#include "jobdir/report/mpi_report.h"
#include "jobdir/text/text.h"

enum {
    SHOWN_BY_RANK = 10,
    SHOWN_CALLERS = 12,
    SHOWN_CALLEES = 6,
    WIDE = 110, /* columns in which all of a function's times have room */
};

/* ---- one function ---- */

static const struct job_function_rank *report_function_by_rank(const struct job_functions *functions,
                                                               const struct job_function *function, struct mpi_who who)
{
    struct job_function_rank *cell, key = {.key = {function, who}};
    HASH_FIND(hh, functions->by_rank, &key.key, sizeof key.key, cell);
    return cell;
}

void report_put_source(struct buf *out, const struct job_function *function)
{
    if (!function->file[0])
        return;
    buf_puts(out, "  ");
    text_show(out, text_base(function->file));
    if (function->line)
        buf_printf(out, ":%" PRIu32, function->line);
}

double report_share(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

void report_put_function(struct buf *out, const struct job_function *function)
{
    text_function(out, function->name, function->file);
    report_put_source(out, function);
}

/* Then nothing is known but how often it was called and for how long in all. */
bool report_only_counted(const struct job_function *function)
{
    return function->counted == function->calls;
}

/* The same, and for how long is not known either. */
static bool none_kept(const struct job_function *function)
{
    return function->unkept && function->counted + function->unkept == function->calls;
}

/* All its calls were open at the last record, or the records of their ends are missing: how long they took is not
 * known. */
static bool never_ended(const struct job_function *function)
{
    uint64_t undated = function->open + function->lost;
    return undated && undated == function->calls && function->total_ns <= 0;
}

bool report_time_unknown(const struct job_function *function)
{
    return never_ended(function) || none_kept(function);
}

/* What the number of calls does not say. */
void report_put_remarks(struct buf *out, const struct job_function *function)
{
    if (function->tallied)
        buf_printf(out, "  (of %s%" PRIu64 ": the others only counted)", function->calls_at_least ? "at least " : "",
                   function->calls + function->thinned);
    else if (function->thinned)
        buf_printf(out, "  (of %" PRIu64 ": --rate)", function->calls + function->thinned);
    if (function->counted && !report_only_counted(function))
        buf_printf(out, "  (%" PRIu64 " only counted)", function->counted);
    if (function->unkept)
        buf_printf(out, "  (%" PRIu64 " not kept)", function->unkept);
    if (function->unwound)
        buf_printf(out, "  (%" PRIu64 " unwound)", function->unwound);
    if (function->open)
        buf_printf(out, "  (%" PRIu64 " open at the end)", function->open);
    if (function->lost)
        buf_printf(out, "  (of %" PRIu64 " the end is missing)", function->lost);
}

/* ---- all ---- */

struct spent { /* < 0: too much is not known */
    double cpu_ns, waiting_ns, preempted_ns;
};

struct function_row {
    const struct job_function *function;
    struct spent total, self;
};

/* What all rows of the table belong to, in the text. */
struct view {
    const struct job_functions *functions;
    size_t columns;
};

static struct spent spent_of(double ns, const struct job_spent *spent)
{
    double cpu_ns;
    if (!job_cpu_ns(ns, spent, &cpu_ns))
        return (struct spent){-1, -1, -1};
    return (struct spent){cpu_ns, spent->waiting_ns, spent->preempted_ns};
}

static struct function_row row_of(const struct job_function *function)
{
    return (struct function_row){.function = function,
                                 .total = spent_of(function->total_ns, &function->total_spent),
                                 .self = spent_of(function->self_ns, &function->self_spent)};
}

/* Mean, least and greatest time of a call are shown where there is room for them. */
static bool is_wide(const void *all)
{
    const struct view *view = all;
    return !view->columns || view->columns >= WIDE;
}

static void put_self(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct job_function *function = row;
    if (report_only_counted(function))
        buf_puts(out, "only counted");
    else if (report_time_unknown(function))
        buf_printf(out, "?%7s", "");
    else {
        text_ns(out, function->self_ns);
        buf_printf(out, " %5.1f%%", report_share(function->self_ns, ((const struct view *)all)->functions->self_ns));
    }
}

static void put_total(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct job_function *function = row;
    if (report_time_unknown(function))
        buf_putc(out, '?');
    else
        text_ns(out, function->total_ns);
}

static void put_extreme(struct buf *out, const void *at, const void *row, const void *all)
{
    if (!report_only_counted(row) && !report_time_unknown(row))
        text_ns(out, *(const double *)at);
}

static void put_spent(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct job_function *function = ((const struct function_row *)row)->function;
    if (*(const double *)at >= 0 && !report_only_counted(function) && !report_time_unknown(function))
        text_ns(out, *(const double *)at);
    else
        buf_puts(out, report_only_counted(function) ? "" : "?");
}

static void put_mean(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct job_function *function = row;
    bool counted = report_only_counted(function);
    uint64_t kept = function->calls - (counted ? 0 : function->counted + function->unkept);
    if (counted ? function->calls != 0 : !report_time_unknown(function))
        text_ns(out, (counted ? function->total_ns : function->sum_ns) / (double)kept);
}

/* Others had the processor: worth a word where it is much of what it took. */
static void put_preempted(struct buf *out, const struct job_function *function)
{
    double cpu_ns;
    if (report_only_counted(function) || !job_cpu_ns(function->self_ns, &function->self_spent, &cpu_ns) ||
        function->self_spent.preempted_ns <= function->self_ns / 20)
        return;
    buf_puts(out, "  (preempted ");
    text_ns(out, function->self_spent.preempted_ns);
    buf_putc(out, ')');
}

static void put_function(struct buf *out, const void *at, const void *row, const void *all)
{
    report_put_function(out, row);
    put_preempted(out, row);
    report_put_remarks(out, row);
}

static const struct field count_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct job_function, name),
     .column = FIELD_COLUMN(9, 2, 0, "function", .text = put_function)},
    {"file", FIELD_TEXT, FIELD_AT(struct job_function, file), .about = "of the source; empty where it is not known"},
    {"line", FIELD_COUNT, FIELD_AT(struct job_function, line)},
    {"calls", FIELD_COUNT, FIELD_AT(struct job_function, calls), .column = FIELD_COLUMN(5, 1, 9, "calls")},
    {"total_ns", FIELD_NS, FIELD_AT(struct job_function, total_ns),
     .about = "with the calls in it; of a call inside another of the same function only the outer counts",
     .column = FIELD_COLUMN(4, 0, 11, "total", .text = put_total)},
    {"self_ns", FIELD_NS, FIELD_AT(struct job_function, self_ns), .about = "without the recorded calls in it",
     .column = FIELD_COLUMN(1, 0, 16, "Functions self", .text = put_self)},
    {"min_ns", FIELD_NS, FIELD_AT(struct job_function, min_ns), .about = "of a call",
     .column = FIELD_COLUMN(7, 0, 10, "min", .when = is_wide, .text = put_extreme)},
    {"max_ns", FIELD_NS, FIELD_AT(struct job_function, max_ns), .about = "of a call",
     .column = FIELD_COLUMN(8, 0, 10, "max", .when = is_wide, .text = put_extreme)},
    {"open", FIELD_COUNT, FIELD_AT(struct job_function, open),
     .about = "calls that never ended: they count until the end of the trace"},
    {"unwound", FIELD_COUNT, FIELD_AT(struct job_function, unwound),
     .about = "calls that ended by an exception or longjmp"},
    {"counted", FIELD_COUNT, FIELD_AT(struct job_function, counted),
     .about = "calls that were only counted: their time is in total_ns only"},
    {"thinned", FIELD_COUNT, FIELD_AT(struct job_function, thinned),
     .about = "further calls, that were left out to keep the rate (--rate), or tallied"},
    {"tallied", FIELD_COUNT, FIELD_AT(struct job_function, tallied),
     .about =
         "of thinned, those that were only counted, since records cost more than they tell: from then on the function "
         "has no times, they are its callers'"},
    {"calls_at_least", FIELD_BOOL, FIELD_AT(struct job_function, calls_at_least),
     .about = "of tallied there were more: to count them, too, would have cost as much as they do"},
    {"end_missing", FIELD_COUNT, FIELD_AT(struct job_function, lost),
     .about = "calls that ended, but the record of that is missing: they count for no time"},
    {"unkept", FIELD_COUNT, FIELD_AT(struct job_function, unkept),
     .about = "of calls, those whose records were overwritten or beyond a limit: in no time"},
    {"total_unknown_ns", FIELD_NS, FIELD_AT(struct job_function, total_spent.unknown_ns),
     .about = "of total_ns, whether it had a processor is not known: why, see trace.unwatched"},
    {"self_unknown_ns", FIELD_NS, FIELD_AT(struct job_function, self_spent.unknown_ns),
     .about = "of self_ns, whether it had a processor is not known: why, see trace.unwatched"},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(6, 0, 10, "mean", .when = is_wide, .text = put_mean)},
    {0}};

/* Of a struct function_row. */
const struct field report_function_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct function_row, function), FIELD_POINTER, .of = count_fields},
    {"total_cpu_ns", FIELD_NS, FIELD_AT(struct function_row, total.cpu_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of total_ns, on a processor; null: too much is not known"},
    {"total_waiting_ns", FIELD_NS, FIELD_AT(struct function_row, total.waiting_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of total_ns, waiting: off the processors by its own will; null: too much is not known"},
    {"total_preempted_ns", FIELD_NS, FIELD_AT(struct function_row, total.preempted_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of total_ns, off the processors though it could have run; null: too much is not known"},
    {"self_cpu_ns", FIELD_NS, FIELD_AT(struct function_row, self.cpu_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of self_ns, on a processor; null: too much is not known",
     .column = FIELD_COLUMN(2, 0, 10, "cpu", .text = put_spent)},
    {"self_waiting_ns", FIELD_NS, FIELD_AT(struct function_row, self.waiting_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of self_ns, waiting: off the processors by its own will; null: too much is not known",
     .column = FIELD_COLUMN(3, 0, 10, "waiting", .text = put_spent)},
    {"self_preempted_ns", FIELD_NS, FIELD_AT(struct function_row, self.preempted_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of self_ns, off the processors though it could have run; null: too much is not known"},
    {0}};

json_t *report_function_json(const struct job_function *function)
{
    const struct function_row row = row_of(function);
    return fields_json(report_function_fields, &row, NULL);
}

/* Under the title of a table in which something is missing that nobody asked to leave out. */
void report_put_not_whole(struct buf *out, const struct job_functions *functions, bool times)
{
    uint64_t missing = functions->overwritten + functions->discarded;
    if (missing)
        buf_printf(out, "  not whole: of %" PRIu64 " events %" PRIu64 " are missing%s\n", functions->events + missing,
                   missing, times ? "; their time counts as that of the calls around them" : "");
    else if (functions->incomplete)
        buf_puts(out, "  not whole: only a part of the trace was read\n");
    else if (functions->functions_omitted || functions->threads_omitted || functions->too_deep)
        buf_puts(out, "  not whole: some calls are missing (see Tracing)\n");
    else if (functions->children_omitted)
        buf_printf(out, "  not whole: %" PRIu64 " children of fork were not traced\n", functions->children_omitted);
}

static void put_functions(struct buf *out, const struct job_functions *functions, size_t columns)
{
    const struct view view = {functions, columns};
    size_t shown = 0, count = HASH_COUNT(functions->functions);
    if (!count)
        return;
    buf_putc(out, '\n');
    fields_title(out, report_function_fields, &view);
    report_put_not_whole(out, functions, true);
    report_unwatched_text(out, functions);
    for (const struct job_function *function = functions->functions; function && shown < SHOWN_FUNCTIONS;
         function = function->hh.next, shown++) {
        const struct function_row row = row_of(function);
        fields_row(out, report_function_fields, &row, &view);
    }
    if (count > shown)
        buf_printf(out, "  ... and %zu more with less time of their own (--json lists all)\n", count - shown);
}

/* ---- by rank ---- */

static json_t *world_json(const void *row, const void *all)
{
    return json_integer((json_int_t)((const struct job_function_rank *)row)->key.who.program - 1);
}

static const struct field rank_fields[] = {
    {"rank", FIELD_COUNT, FIELD_AT(struct job_function_rank, key.who.rank)},
    {"world", FIELD_COUNT, .json = world_json, .about = "which MPI_COMM_WORLD of the job, from 0"},
    {"calls", FIELD_COUNT, FIELD_AT(struct job_function_rank, calls)},
    {"total_ns", FIELD_NS, FIELD_AT(struct job_function_rank, total_ns)},
    {"self_ns", FIELD_NS, FIELD_AT(struct job_function_rank, self_ns)},
    {0}};

static json_t *ranks_json(const void *row, const void *all)
{
    const struct job_functions *functions = all;
    json_t *list = json_array();
    for (size_t i = 0; i < functions->rank_count; i++) {
        const struct job_function_rank *cell =
            report_function_by_rank(functions, ((const struct function_row *)row)->function, functions->ranks[i]);
        if (cell)
            json_array_append_new(list, fields_json(rank_fields, cell, all));
    }
    return list;
}

static const struct field function_by_rank_fields[] = {
    {"", FIELD_PART, .of = report_function_fields},
    {"ranks", FIELD_LIST, .json = ranks_json, .of = rank_fields,
     .about = "of programs that use MPI: the same by rank, those that called it"},
    {0}};

static json_t *list_json(const void *row, const void *all)
{
    json_t *list = json_array();
    for (const struct job_function *each = ((const struct job_functions *)row)->functions; each; each = each->hh.next) {
        const struct function_row one = row_of(each);
        json_array_append_new(list, fields_json(function_by_rank_fields, &one, row));
    }
    return list;
}

/* For people: its program only if there are several. */
struct mpi_who report_shown_who(const struct job_functions *functions, struct mpi_who who)
{
    return (struct mpi_who){who.rank, functions->programs.count > 1 ? who.program : 0};
}

/* Own times; of functions that are only counted all of it. */
static void put_by_rank(struct buf *out, const struct job_functions *functions)
{
    size_t shown = 0;
    for (const struct job_function *each = functions->functions;
         each && functions->rank_count > 1 && shown < SHOWN_BY_RANK; each = each->hh.next) {
        struct mpi_spread spread = {0};
        for (size_t i = 0; i < functions->rank_count; i++) {
            const struct job_function_rank *cell = report_function_by_rank(functions, each, functions->ranks[i]);
            double ns = !cell ? 0 : report_only_counted(each) ? cell->total_ns : cell->self_ns;
            mpi_spread_add(&spread, report_shown_who(functions, functions->ranks[i]), ns);
        }
        if (spread.most <= 0)
            continue;
        _cleanup_(buf_done) struct buf name = BUF_INIT;
        report_put_function(&name, each);
        spread.name = name.data ? name.data : "";
        mpi_spread_put(out, &spread, shown++ ? NULL : "Functions by rank", functions->programs.count > 1);
    }
}

/* ---- who calls whom ---- */

static json_t *caller_json(const void *row, const void *all)
{
    const struct job_function *caller = ((const struct job_edge *)row)->key.caller;
    return text_json(caller ? caller->name : NULL);
}

static void put_callee(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct job_function *callee = row;
    text_function(out, callee->name, callee->file);
}

static void put_times(struct buf *out, const void *at, const void *row, const void *all)
{
    buf_printf(out, "%" PRIu64 " x", ((const struct job_edge *)row)->calls);
}

static const struct field callee_fields[] = {{"function", FIELD_TEXT, FIELD_AT(struct job_function, name),
                                              .column = FIELD_COLUMN(1, 4, -44, .text = put_callee)},
                                             {0}};

static const struct field edge_fields[] = {
    {"caller", FIELD_TEXT, .flags = FIELD_OR_NULL, .json = caller_json, .about = "null: none recorded"},
    {"", FIELD_PART, FIELD_AT(struct job_edge, key.function), FIELD_POINTER, .of = callee_fields},
    {"calls", FIELD_COUNT, FIELD_AT(struct job_edge, calls), .column = FIELD_COLUMN(2, 1, 12, .text = put_times)},
    {"total_ns", FIELD_NS, FIELD_AT(struct job_edge, total_ns), .column = FIELD_COLUMN(3, 0, 12)},
    {0}};

static json_t *edges_json(const void *row, const void *all)
{
    json_t *list = json_array();
    for (const struct job_edge *each = ((const struct job_functions *)row)->edges; each; each = each->hh.next)
        json_array_append_new(list, fields_json(edge_fields, each, row));
    return list;
}

static void put_callees(struct buf *out, const struct job_functions *functions, const struct job_function *caller)
{
    size_t shown = 0, more = 0;
    for (const struct job_edge *edge = functions->edges; edge; edge = edge->hh.next) {
        if (edge->key.caller != caller)
            continue;
        if (shown == SHOWN_CALLEES) {
            more++;
            continue;
        }
        shown++;
        fields_row(out, edge_fields, edge, functions);
    }
    if (more)
        buf_printf(out, "    ... and %zu more\n", more);
}

/* Callers in the order of the time of what they call, each with what it calls. */
static void put_graph(struct buf *out, const struct job_functions *functions)
{
    const struct job_function *done[SHOWN_CALLERS];
    size_t count = 0, left = 0;
    for (const struct job_edge *edge = functions->edges; edge; edge = edge->hh.next) {
        bool known = !edge->key.caller;
        for (size_t i = 0; i < count && !known; i++)
            known = done[i] == edge->key.caller;
        if (known)
            continue;
        if (count == SHOWN_CALLERS) {
            left++;
            continue;
        }
        done[count++] = edge->key.caller;
        if (count == 1) {
            buf_puts(out, "\nWho calls whom\n");
            report_put_not_whole(out, functions, true);
        }
        buf_puts(out, "  ");
        report_put_function(out, edge->key.caller);
        buf_putc(out, '\n');
        put_callees(out, functions, edge->key.caller);
    }
    if (left)
        buf_printf(out, "  ... and %zu more pairs of other callers (--json lists all)\n", left);
}

void report_functions_text(struct buf *out, const struct job_functions *functions, size_t columns)
{
    put_functions(out, functions, columns);
    put_by_rank(out, functions);
    put_graph(out, functions);
}

/* Of a struct job_functions. */
const struct field report_functions_fields[] = {
    {"functions", FIELD_LIST, .json = list_json, .of = function_by_rank_fields,
     .about = "recorded functions over all processes, most own time first"},
    {"calls", FIELD_LIST, .json = edges_json, .of = edge_fields, .about = "who calls whom, most time first"},
    {0}};

/* ---- call sites ---- */

/* Where functions are called from (trace_place): of each place the calls and their time. */

enum { SHOWN_SITES = 15, RECURSION = 32 /* calls around one that are looked at */ };

/* The call is inside of one from the same place: its time is in that one's. */
static bool is_inside(const struct call *call)
{
    const struct call *around = call->parent;
    for (unsigned i = 0; around && i < RECURSION; i++, around = around->parent)
        if (around->place == call->place)
            return true;
    return false;
}

static struct job_site *site_of(struct reading *reading, const struct trace_place *place)
{
    struct job_functions *all = reading->all;
    struct job_function *function = report_function(reading, place->function);
    struct job_site *site;
    char *key;
    if (!function)
        return NULL;
    int len = asprintf(&key, "%p %d %" PRIx64 " %s %s", (void *)function, place->inlined, place->offset,
                       place->build_id, place->module);
    if (len < 0)
        return NULL;
    HASH_FIND(hh, all->sites, key, (size_t)len, site);
    if (site || !(site = calloc(1, sizeof *site))) {
        free(key);
        return site;
    }
    *site = (struct job_site){.key = key,
                              .function = function,
                              .module = arena_dup(&all->names, place->module, strlen(place->module)),
                              .build_id = arena_dup(&all->names, place->build_id, strlen(place->build_id)),
                              .offset = place->offset,
                              .inlined = place->inlined,
                              .caller = "",
                              .file = ""};
    if (!site->module || !site->build_id) {
        free(key);
        free(site);
        return NULL;
    }
    HASH_ADD_KEYPTR(hh, all->sites, site->key, (size_t)len, site);
    return site;
}

void report_site_call(struct reading *reading, const struct call *call, double ns)
{
    const struct trace_place *place = call->place == UINT32_MAX ? NULL : trace_place(reading->trace, call->place);
    if (!place || !*place->module)
        return;
    if (!GROW_ZERO_TO(reading->sites, (size_t)call->place + 1, reading->site_room)) {
        reading->code = -ENOMEM;
        return;
    }
    struct job_site **site = &reading->sites[call->place];
    if (!*site && !(*site = site_of(reading, place))) {
        reading->code = -ENOMEM;
        return;
    }
    (*site)->calls++;
    if (!is_inside(call))
        (*site)->total_ns += ns;
}

static int by_total(const struct job_site *a, const struct job_site *b)
{
    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    if (a->calls != b->calls)
        return a->calls > b->calls ? -1 : 1;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

void report_sites_sort(struct job_functions *all)
{
    HASH_SRT(hh, all->sites, by_total);
}

static bool same_line(const struct job_site *a, const struct job_site *b)
{
    return *a->file && a->function == b->function && a->line == b->line && strcmp(a->file, b->file) == 0 &&
           strcmp(a->caller, b->caller) == 0;
}

void job_sites_join(struct job_functions *functions)
{
    struct job_site *site, *next, *other;
    HASH_ITER(hh, functions->sites, site, next)
    {
        if (!*site->file) /* all of them that have no names are not compared with each other */
            continue;
        for (other = functions->sites; other != site && !same_line(other, site); other = other->hh.next)
            ;
        if (other == site)
            continue;
        other->calls += site->calls;
        other->total_ns += site->total_ns;
        HASH_DEL(functions->sites, site);
        free(site->key);
        free(site);
    }
    report_sites_sort(functions);
    functions->sites_named = true;
}

void report_sites_free(struct job_functions *all)
{
    HASH_FREE_ALL(all->sites, free(each->key));
    arena_done(&all->names);
}

static void put_place(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct job_site *site = row;
    text_function(out, site->function->name, site->function->file);
    buf_puts(out, " from ");
    text_show(out, text_base(*site->file ? site->file : site->module));
    buf_printf(out, *site->file ? ":%" PRIu64 : "+0x%" PRIx64, *site->file ? site->line : site->offset);
    if (*site->caller) {
        buf_puts(out, " in ");
        text_show(out, site->caller);
    }
}

static json_t *name_json(const void *row, const void *all)
{
    return text_json(((const struct job_site *)row)->function->name);
}

const struct field report_site_fields[] = {
    {"function", FIELD_TEXT, .json = name_json},
    {"from_function", FIELD_TEXT, FIELD_AT(struct job_site, caller),
     .about = "the function that calls; \"\": not known"},
    {"from_file", FIELD_TEXT, FIELD_AT(struct job_site, file), .about = "\"\": not known"},
    {"from_line", FIELD_COUNT, FIELD_AT(struct job_site, line)},
    {"from_module", FIELD_TEXT, FIELD_AT(struct job_site, module)},
    {"from_offset", FIELD_COUNT, FIELD_AT(struct job_site, offset),
     .about = "the return address, as the file of the module has it"},
    {"calls", FIELD_COUNT, FIELD_AT(struct job_site, calls), .column = FIELD_COLUMN(2, 1, 8, "calls")},
    {"total_ns", FIELD_NS, FIELD_AT(struct job_site, total_ns),
     .about = "of calls inside each other from one place, the outermost",
     .column = FIELD_COLUMN(1, 0, 15, "Calls come from")},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(3, 2, 0, "function, from", .text = put_place)},
    {0}};

json_t *report_sites_json(const void *functions, const void *all)
{
    json_t *list = json_array();
    size_t count = 0;
    for (const struct job_site *site = ((const struct job_functions *)functions)->sites;
         site && count < FUNCTIONS_SITES; site = site->hh.next, count++)
        json_array_append_new(list, fields_json(report_site_fields, site, functions));
    return list;
}

void report_put_sites(struct buf *out, const struct job_functions *functions)
{
    const struct job_site *list[SHOWN_SITES];
    size_t count = 0;
    for (const struct job_site *site = functions->sites; site && functions->sites_named && count < SHOWN_SITES;
         site = site->hh.next)
        list[count++] = site;
    fields_table(out, &(struct field_table){report_site_fields}, list, count, 0, functions);
}
