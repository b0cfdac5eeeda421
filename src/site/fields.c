/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "site/site.h"

#include <stdlib.h>

/* Of struct site_node, struct site_user, struct site_job; `all` is the site. */
extern const struct field site_node_fields[], site_user_fields[], site_job_fields[];

/* What `scry site` says, for programs (doc/reference/site.schema.json) and as tables. */

/* ---- nodes ---- */

static json_t *node_problems(const void *row, const void *all)
{
    const struct site *site = all;
    const struct site_node *node = row;
    json_t *list = json_array();
    for (size_t i = 0; i < site->problem_count; i++)
        if (!site->problems[i].job && site->problems[i].node == node->name)
            json_array_append_new(list, json_string(site->problems[i].rule->name));
    return list;
}

static void put_problems(struct buf *out, const void *at, const void *row, const void *all)
{
    json_t *list = node_problems(row, all), *name;
    size_t index;
    json_array_foreach(list, index, name)
    {
        buf_printf(out, "%s%s", index ? ", " : "", json_string_value(name));
    }
    json_decref(list);
}

static int widest(const void *all, bool nodes)
{
    const struct site *site = all;
    size_t most = 5;
    for (const struct site_node *node = nodes ? site->nodes : NULL; node; node = node->hh.next)
        most = strlen(node->name) > most ? strlen(node->name) : most;
    for (const struct site_user *user = nodes ? NULL : site->users; user; user = user->hh.next)
        most = strlen(user->name) > most ? strlen(user->name) : most;
    return (int)(most < 24 ? most : 24);
}

static int node_width(const void *all)
{
    return widest(all, true);
}

static int user_width(const void *all)
{
    return widest(all, false);
}

/* clang-format off */
#define NODE(member) FIELD_AT(struct site_node, member)
const struct field site_node_fields[] = {
    {"node", FIELD_TEXT, NODE(name), .column = FIELD_COLUMN(1, 2, -16, "Nodes", .fit = node_width)},
    {"jobs", FIELD_COUNT, NODE(jobs), .about = "all, also those that are over", .column = FIELD_COLUMN(2, 2, 6, "jobs")},
    {"running", FIELD_COUNT, NODE(running), .column = FIELD_COLUMN(3, 2, 7, "running")},
    {"away", FIELD_COUNT, NODE(away), .about = "lost, unreachable, unwatched", .column = FIELD_COLUMN(4, 2, 4, "away")},
    {"wrong", FIELD_COUNT, NODE(wrong), .about = "failed, crashed, killed", .column = FIELD_COLUMN(5, 2, 5, "wrong")},
    {"crashes", FIELD_COUNT, NODE(crashes), .about = "of processes, in all jobs"},
    {"oom_kills", FIELD_COUNT, NODE(oom_kills), .about = "processes that the kernel killed for memory"},
    {"cpus", FIELD_COUNT, NODE(cpus), FIELD_NEGATIVE_IS_NULL, .column = FIELD_COLUMN(6, 2, 4, "cpus", .none = "-")},
    {"reserved_cpus", FIELD_NUMBER, NODE(reserved), .about = "that its running jobs asked for", .column = FIELD_COLUMN(7, 2, 8, "reserved")},
    {"load", FIELD_NUMBER, NODE(load), FIELD_NEGATIVE_IS_NULL, .about = "this and the next: of the last 15 minutes, as its running jobs saw it; the most", .column = FIELD_COLUMN(8, 2, 6, "load", .none = "-")},
    {"memory_bytes", FIELD_BYTES, NODE(memory_bytes), FIELD_NEGATIVE_IS_NULL, .column = FIELD_COLUMN(9, 2, 9, "memory", .none = "-")},
    {"available_bytes", FIELD_BYTES, NODE(available_bytes), FIELD_NEGATIVE_IS_NULL, .about = "the least", .column = FIELD_COLUMN(10, 2, 9, "available", .none = "-")},
    {"swap_used_bytes", FIELD_BYTES, NODE(swap_used_bytes), FIELD_NEGATIVE_IS_NULL},
    {"memory_pressure", FIELD_NUMBER, NODE(pressure), FIELD_NEGATIVE_IS_NULL, .about = "share of the time in which tasks waited for memory"},
    {"iowait", FIELD_NUMBER, NODE(iowait), FIELD_NEGATIVE_IS_NULL, .about = "share of the time in which processors waited for disks"},
    {"problems", FIELD_LIST, .json = node_problems, .of = fields_texts, .about = "names of rules", .column = FIELD_COLUMN(11, 2, 0, "problems", .text = put_problems)},
    {0},
};

/* ---- users ---- */

static json_t *used_json(const void *row, const void *all)
{
    const struct site_user *user = row;
    return user->reserved_seconds > 0 ? json_real(user->reserved_cpu_seconds / user->reserved_seconds) : json_null();
}

static void put_used(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct site_user *user = row;
    if (user->reserved_seconds > 0)
        buf_printf(out, "%.0f%%", 100 * user->reserved_cpu_seconds / user->reserved_seconds);
    else
        buf_putc(out, '-');
}

#define USER(member) FIELD_AT(struct site_user, member)
const struct field site_user_fields[] = {
    {"owner", FIELD_TEXT, USER(name), .column = FIELD_COLUMN(1, 2, -16, "Users", .fit = user_width)},
    {"jobs", FIELD_COUNT, USER(jobs), .column = FIELD_COLUMN(2, 2, 6, "jobs")},
    {"running", FIELD_COUNT, USER(running), .column = FIELD_COLUMN(3, 2, 7, "running")},
    {"away", FIELD_COUNT, USER(away), .about = "lost, unreachable, unwatched", .column = FIELD_COLUMN(4, 2, 4, "away")},
    {"wrong", FIELD_COUNT, USER(wrong), .about = "failed, crashed, killed", .column = FIELD_COLUMN(5, 2, 5, "wrong")},
    {"cpu_seconds", FIELD_SECONDS, USER(cpu_seconds), .column = FIELD_COLUMN(6, 2, 12, "CPU time")},
    {"reserved_seconds", FIELD_SECONDS, USER(reserved_seconds), .about = "processors that jobs asked for times their time; of those that asked for a number"},
    {"used", FIELD_NUMBER, .flags = FIELD_OR_NULL, .json = used_json, .about = "CPU time of these jobs, of reserved_seconds", .column = FIELD_COLUMN(7, 2, 4, "used", .text = put_used)},
    {"problems", FIELD_COUNT, USER(problems), .about = "of their jobs", .column = FIELD_COLUMN(8, 2, 8, "problems")},
    {0},
};
/* clang-format on */

/* ---- problems ---- */

static json_t *rule_json(const void *row, const void *all)
{
    return json_string(((const struct site_problem *)row)->rule->name);
}

static json_t *unit_json(const void *row, const void *all)
{
    return json_string(((const struct site_problem *)row)->rule->unit);
}

static json_t *job_json(const void *row, const void *all)
{
    const struct site_problem *problem = row;
    return problem->job ? fields_json(site_job_fields, problem->job, all) : json_null();
}

/* clang-format off */
#define JOB(member) FIELD_AT(struct site_job, member)
const struct field site_job_fields[] = {
    {"owner", FIELD_TEXT, JOB(owner)},
    {"id", FIELD_TEXT, JOB(id)},
    {"name", FIELD_TEXT, JOB(name)},
    {"state", FIELD_TEXT, JOB(state)},
    {"batch_id", FIELD_TEXT, JOB(batch_id), FIELD_ZERO_IS_NULL},
    {"started", FIELD_NUMBER, JOB(started), FIELD_NEGATIVE_IS_NULL, .about = "seconds since 1970"},
    {"wall_seconds", FIELD_SECONDS, JOB(wall_seconds), FIELD_NEGATIVE_IS_NULL},
    {"cpu_seconds", FIELD_SECONDS, JOB(cpu_seconds)},
    {"cpus_asked", FIELD_NUMBER, JOB(cpus_asked), FIELD_NEGATIVE_IS_NULL},
    {"recent_cpus", FIELD_NUMBER, JOB(recent.cpus), FIELD_NEGATIVE_IS_NULL, .about = "processors used in the last 15 minutes"},
    {"memory_used_bytes", FIELD_BYTES, JOB(memory_used_bytes), FIELD_NEGATIVE_IS_NULL},
    {"memory_asked_bytes", FIELD_BYTES, JOB(memory_asked_bytes), FIELD_NEGATIVE_IS_NULL},
    {"progress", FIELD_NUMBER, JOB(progress), FIELD_NEGATIVE_IS_NULL},
    {"warnings", FIELD_COUNT, JOB(warnings)},
    {"last_warning", FIELD_TEXT, JOB(last_warning), FIELD_ZERO_IS_NULL},
    {0},
};

#define PROBLEM(member) FIELD_AT(struct site_problem, member)
static const struct field problem_fields[] = {
    {"rule", FIELD_TEXT, .json = rule_json, .about = "its name, see scry-site(1)"},
    {"node", FIELD_TEXT, PROBLEM(node)},
    {"job", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = job_json, .of = site_job_fields, .about = "null: it is the node's problem"},
    {"value", FIELD_NUMBER, PROBLEM(value), .about = "the figure that says so"},
    {"of", FIELD_NUMBER, PROBLEM(of), FIELD_NEGATIVE_IS_NULL, .about = "what it is compared with"},
    {"unit", FIELD_TEXT, .json = unit_json, .about = "of both"},
    {"text", FIELD_TEXT, PROBLEM(text), .about = "the reason, with its figures"},
    {"advice", FIELD_TEXT, PROBLEM(advice)},
    {0},
};
/* clang-format on */

/* ---- all ---- */

static const struct field count_fields[] = {{"state", FIELD_TEXT, FIELD_AT(struct site_count, state)},
                                            {"jobs", FIELD_COUNT, FIELD_AT(struct site_count, jobs)},
                                            {0}};

static const struct field failure_fields[] = {{"how", FIELD_TEXT, FIELD_AT(struct site_failure, how),
                                               .about = "\"exit status 3\", \"SIGSEGV\", \"out of memory\""},
                                              {"jobs", FIELD_COUNT, FIELD_AT(struct site_failure, jobs)},
                                              {0}};

/* The kind of reason, in a column of 14. */
static void put_cause(struct buf *out, const void *at, const void *row, const void *all)
{
    static const struct {
        const char *cause, *words;
    } kinds[] = {{"cause_asked", "ended by hand"},   {"cause_command", "a command"},
                 {"cause_credential", "credential"}, {"cause_crash", "crash"},
                 {"cause_disk_full", "disk full"},   {"cause_exception", "exception"},
                 {"cause_gave_up", "gave up"},       {"cause_killed", "killed"},
                 {"cause_launcher", "launcher"},     {"cause_left", "left early"},
                 {"cause_limit", "a limit"},         {"cause_log", "its log"},
                 {"cause_memory", "memory"},         {"cause_memory_short", "memory"},
                 {"cause_mpi_late", "late rank"},    {"cause_mpi_stall", "stuck in MPI"},
                 {"cause_node_lost", "node lost"},   {"cause_process", "a process"},
                 {"cause_rank", "a rank"},           {"cause_said", "its words"},
                 {"cause_signal", "a signal"},       {"cause_standstill", "stood still"},
                 {"cause_start", "no start"},        {"cause_stuck", "stuck"},
                 {"hidden_failure", "hidden by 0"}};
    const char *cause = ((const struct site_reason *)row)->cause;
    const char *words = *cause && strcmp(cause, "cause_unknown") != 0 ? "another" : "not known";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        words = strcmp(cause, kinds[i].cause) == 0 ? kinds[i].words : words;
    buf_puts(out, words);
}

static void put_reason(struct buf *out, const void *at, const void *row, const void *all)
{
    enum { REASON_COLUMNS = 120 };
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    text_show_brief(&shown, ((const struct site_reason *)row)->text);
    text_cut_end(out, shown.data ? shown.data : "", REASON_COLUMNS);
}

static void put_job(struct buf *out, const struct site_job *job)
{
    text_show(out, job->owner);
    buf_putc(out, '/');
    text_show(out, job->id);
}

static json_t *newest_json(const void *row, const void *all)
{
    json_t *list = json_array();
    const struct site_reason *reason = row;
    for (size_t i = 0; i < SITE_REASON_JOBS && reason->newest[i]; i++)
        json_array_append_new(list, json_sprintf("%s/%s", reason->newest[i]->owner, reason->newest[i]->id));
    return list;
}

/* Below one another they would push the reason away: so they stand in front of it. */
static void put_newest(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct site_reason *reason = row;
    for (size_t i = 0; i < SITE_REASON_JOBS && reason->newest[i]; i++) {
        buf_puts(out, i ? ", " : "");
        put_job(out, reason->newest[i]);
    }
    buf_puts(out, ": ");
    put_reason(out, at, row, all);
}

/* clang-format off */
#define REASON(member) FIELD_AT(struct site_reason, member)
static const struct field reason_fields[] = {
    {"cause", FIELD_TEXT, REASON(cause), FIELD_ZERO_IS_NULL, .about = "the kind of its [note](notes.md); null: none is known", .column = FIELD_COLUMN(1, 2, -14, "Failures", .text = put_cause)},
    {"jobs", FIELD_COUNT, REASON(jobs), .column = FIELD_COLUMN(2, 2, 6, "jobs")},
    {"text", FIELD_TEXT, REASON(text), .about = "the reason of the newest one; if none is known, how it failed", .column = FIELD_COLUMN(3, 2, 0, "the newest of them: reason of the first", .text = put_newest)},
    {"owner", FIELD_TEXT, REASON(owner), .about = "this and the next: which is the newest one"},
    {"id", FIELD_TEXT, REASON(id)},
    {"newest", FIELD_LIST, .json = newest_json, .of = fields_texts, .about = "OWNER/ID of that, and of those before it, at most three"},
    {0},
};
/* clang-format on */

static json_t *failures_json(const void *row, const void *all)
{
    const struct site *site = row;
    return fields_list(failure_fields, site->failures, site->failure_count, sizeof *site->failures, site);
}

static json_t *states_json(const void *row, const void *all)
{
    const struct site *site = row;
    return fields_list(count_fields, site->states, site->state_count, sizeof *site->states, site);
}

static json_t *problems_json(const void *row, const void *all)
{
    const struct site *site = row;
    return fields_list(problem_fields, site->problems, site->problem_count, sizeof *site->problems, site);
}

static json_t *nodes_json(const void *row, const void *all)
{
    json_t *list = json_array();
    for (const struct site_node *node = ((const struct site *)row)->nodes; node; node = node->hh.next)
        json_array_append_new(list, fields_json(site_node_fields, node, row));
    return list;
}

static json_t *users_json(const void *row, const void *all)
{
    json_t *list = json_array();
    for (const struct site_user *user = ((const struct site *)row)->users; user; user = user->hh.next)
        json_array_append_new(list, fields_json(site_user_fields, user, row));
    return list;
}

static json_t *reasons_json(const void *row, const void *all)
{
    json_t *list = json_array();
    for (const struct site_reason *reason = ((const struct site *)row)->reasons; reason; reason = reason->hh.next)
        json_array_append_new(list, fields_json(reason_fields, reason, row));
    return list;
}

static json_t *jobs_json(const void *row, const void *all)
{
    return json_integer(HASH_COUNT(((const struct site *)row)->jobs));
}

/* clang-format off */
static const struct field site_fields[] = {
    {"record", FIELD_TEXT, FIELD_AT(struct site, record), .about = "the database"},
    {"time", FIELD_NUMBER, FIELD_AT(struct site, time), .about = "seconds since 1970"},
    {"since_seconds", FIELD_NUMBER, FIELD_AT(struct site, filter.since_seconds), .about = "jobs that ended longer ago are left out"},
    {"jobs", FIELD_COUNT, .json = jobs_json},
    {"states", FIELD_LIST, .json = states_json, .of = count_fields},
    {"failures", FIELD_LIST, .json = failures_json, .of = failure_fields, .about = "how jobs failed, most first"},
    {"reasons", FIELD_LIST, .json = reasons_json, .of = reason_fields, .about = "why jobs failed, or exit status 0 hides it, most first: those that are the same but for numbers and what stands in quotes are one"},
    {"nodes", FIELD_LIST, .json = nodes_json, .of = site_node_fields, .about = "by name"},
    {"users", FIELD_LIST, .json = users_json, .of = site_user_fields, .about = "most CPU time first"},
    {"problems", FIELD_LIST, .json = problems_json, .of = problem_fields, .about = "by rule"},
    {0},
};
/* clang-format on */

json_t *site_json(const struct site *site)
{
    return fields_json(site_fields, site, site);
}

json_t *site_schema(void)
{
    return fields_schema(site_fields);
}

/* ---- for people ---- */

enum {
    SHOWN_NODES = 40,
    SHOWN_USERS = 20,
    SHOWN_FAILURES = 5,
    SHOWN_REASONS = 10,
    SHOWN_PROBLEMS = 25 /* of a rule */
};

static void put_head(struct buf *out, const struct site *site)
{
    text_label(out, "record");
    text_show(out, site->record);
    buf_putc(out, '\n');
    text_label(out, "jobs");
    buf_printf(out, "%u", HASH_COUNT(site->jobs));
    for (size_t i = 0; i < site->state_count; i++)
        buf_printf(out, "%s%lld %s", i ? ", " : ": ", (long long)site->states[i].jobs, site->states[i].state);
    buf_puts(out, "; of those that are over, the last ");
    text_seconds(out, site->filter.since_seconds);
    buf_putc(out, '\n');
    if (!site->failure_count)
        return;
    text_label(out, "failed");
    for (size_t i = 0; i < site->failure_count && i < SHOWN_FAILURES; i++)
        buf_printf(out, "%s%lld %s", i ? ", " : "", (long long)site->failures[i].jobs, site->failures[i].how);
    if (site->failure_count > SHOWN_FAILURES)
        buf_printf(out, ", %zu more", site->failure_count - SHOWN_FAILURES);
    buf_putc(out, '\n');
}

/* Those with problems first; the rest as it stands. */
static bool has_problem(const struct site *site, const struct site_node *node)
{
    for (size_t i = 0; i < site->problem_count; i++)
        if (!site->problems[i].job && site->problems[i].node == node->name)
            return true;
    return false;
}

static void put_nodes(struct buf *out, const struct site *site)
{
    size_t count = 0, all = HASH_COUNT(site->nodes);
    _cleanup_(freep) const struct site_node **list = calloc(all + 1, sizeof *list);
    for (int turn = 0; turn < 2 && list; turn++)
        for (const struct site_node *node = site->nodes; node; node = node->hh.next)
            if (has_problem(site, node) == (turn == 0))
                list[count++] = node;
    static const struct field_table table = {site_node_fields, "Nodes", SHOWN_NODES, "; scry site --json has all"};
    if (list)
        fields_table(out, &table, list, count, 0, site);
}

static void put_reasons(struct buf *out, const struct site *site)
{
    size_t count = 0;
    _cleanup_(freep) const struct site_reason **list = calloc(HASH_COUNT(site->reasons) + 1, sizeof *list);
    for (const struct site_reason *reason = list ? site->reasons : NULL; reason; reason = reason->hh.next)
        list[count++] = reason;
    static const struct field_table table = {reason_fields, "Failures", SHOWN_REASONS, "; scry site --json has all"};
    if (list)
        fields_table(out, &table, list, count, 0, site);
}

static void put_users(struct buf *out, const struct site *site)
{
    size_t count = 0;
    _cleanup_(freep) const struct site_user **list = calloc(HASH_COUNT(site->users) + 1, sizeof *list);
    for (const struct site_user *user = list ? site->users : NULL; user; user = user->hh.next)
        list[count++] = user;
    static const struct field_table table = {site_user_fields, "Users", SHOWN_USERS, "; scry site --json has all"};
    if (list)
        fields_table(out, &table, list, count, 0, site);
}

static void put_problem(struct buf *out, const struct site_problem *problem)
{
    const struct site_job *job = problem->job;
    buf_puts(out, "  ");
    if (job) {
        put_job(out, job);
        if (*job->name) {
            buf_puts(out, " (");
            text_show(out, job->name);
            buf_putc(out, ')');
        }
        buf_puts(out, " on ");
    }
    text_show(out, problem->node);
    buf_puts(out, ": ");
    text_show(out, problem->text);
    buf_putc(out, '\n');
}

/* A rule with all for which it holds; what to do stands once, if it is the same for all. */
static size_t put_rule(struct buf *out, const struct site *site, size_t first)
{
    const struct site_rule *rule = site->problems[first].rule;
    size_t behind = first;
    bool same = true;
    for (; behind < site->problem_count && site->problems[behind].rule == rule; behind++)
        same &= strcmp(site->problems[behind].advice, site->problems[first].advice) == 0;
    buf_printf(out, "%zu %s%s %s: %s\n", behind - first, rule->of_job ? "job" : "node", behind - first == 1 ? "" : "s",
               rule->name, rule->about);
    for (size_t i = first; i < behind && i < first + SHOWN_PROBLEMS; i++) {
        put_problem(out, &site->problems[i]);
        if (!same)
            buf_printf(out, "    -> %s\n", site->problems[i].advice);
    }
    if (behind > first + SHOWN_PROBLEMS)
        buf_printf(out, "  ... and %zu more; scry site --json has all\n", behind - first - SHOWN_PROBLEMS);
    if (same)
        buf_printf(out, "  -> %s\n", site->problems[first].advice);
    return behind;
}

/* Jobs that failed by themselves are no problem of a site. */
static void put_no_problem(struct buf *out, const struct site *site)
{
    int64_t wrong = 0;
    for (const struct site_user *user = site->users; user; user = user->hh.next)
        wrong += user->wrong;
    buf_putc(out, '\n');
    buf_printf(out, "No job or node has %s problem that scry knows.\n", wrong ? "another" : "a");
}

void site_print(struct buf *out, const struct site *site, size_t columns)
{
    size_t start = out->len;
    put_head(out, site);
    if (!site->jobs) {
        buf_puts(out, "\nNo job runs, and none ended in this time. --since goes further back.\n");
        return;
    }
    put_nodes(out, site);
    put_users(out, site);
    put_reasons(out, site);
    for (size_t i = 0; i < site->problem_count;) {
        buf_putc(out, '\n');
        i = put_rule(out, site, i);
    }
    if (!site->problem_count)
        put_no_problem(out, site);
    text_wrap(out, start, columns);
}
