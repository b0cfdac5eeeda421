/* SPDX-License-Identifier: Apache-2.0 */
/* `scry site` for people. */
#include "site/print.h"

#include <stdlib.h>

#include "base/data/cleanup.h"
#include "jobdir/text/text.h"

enum { SHOWN_NODES = 40, SHOWN_USERS = 20, SHOWN_PROBLEMS = 25 /* of a rule */ };

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
        text_show(out, job->owner);
        buf_putc(out, '/');
        text_show(out, job->id);
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
    for (size_t i = 0; i < site->problem_count;) {
        buf_putc(out, '\n');
        i = put_rule(out, site, i);
    }
    if (!site->problem_count)
        buf_puts(out, "\nNo job or node has a problem that scry knows.\n");
    text_wrap(out, start, columns);
}
