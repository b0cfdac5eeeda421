/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/report/failed.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/data/cleanup.h"
#include "jobdir/layers/culprit.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"

enum { CHAIN_MOST = 64, COMMAND_BYTES = 240, WHYS_SHOWN = 3 };

static const struct job_process *find_command(const struct job_model *model, pid_t supervisor)
{
    const struct job_process *found = NULL;
    for (size_t i = 0; i < model->ended_count; i++)
        if (model->ended[i].ppid == supervisor && (!found || model->ended[i].start < found->start))
            found = &model->ended[i];
    return found;
}

/* ---- telling ---- */

static json_t *exit_code_json(const void *row, const void *all)
{
    int status = ((const struct job_process *)row)->status;
    return status != JOB_STATUS_UNKNOWN && WIFEXITED(status) ? json_integer(WEXITSTATUS(status)) : json_null();
}

static json_t *signal_json(const void *row, const void *all)
{
    int status = ((const struct job_process *)row)->status;
    return status != JOB_STATUS_UNKNOWN && WIFSIGNALED(status) ? json_integer(WTERMSIG(status)) : json_null();
}

const struct field report_status_fields[] = {
    {"exit_code", FIELD_INTEGER, .flags = FIELD_OR_NULL, .json = exit_code_json,
     .about = "exit status; null: not known, still running, or killed by a signal"},
    {"signal", FIELD_INTEGER, .flags = FIELD_OR_NULL, .json = signal_json, .about = "that killed it"},
    {0}};

const struct field report_argv_fields[] = {
    {"argv", FIELD_LIST, FIELD_AT(struct job_process, argv), FIELD_OR_NULL, .of = fields_texts,
     .about = "command line when its program began, secrets as ***; of a child that executed nothing, its parent's; "
              "null: not known"},
    {"argv_cut", FIELD_BOOL, FIELD_AT(struct job_process, argv_cut), .about = "argv is not all of it"},
    {"cwd", FIELD_TEXT, FIELD_AT(struct job_process, cwd), FIELD_OR_NULL,
     .about = "working directory when its program began; null: not known"},
    {0}};

static const struct field failed_process_fields[] = {
    {"pid", FIELD_COUNT, FIELD_AT(struct job_process, pid)},
    {"name", FIELD_TEXT, FIELD_AT(struct job_process, name)},
    {"start_seconds", FIELD_SECONDS, FIELD_AT(struct job_process, start)},
    {"end_seconds", FIELD_SECONDS, FIELD_AT(struct job_process, end)},
    {"", FIELD_PART, .of = report_status_fields},
    {"", FIELD_PART, .of = report_argv_fields},
    {0}};

static json_t *chain_from(const struct job_model *model, const struct job_process *command)
{
    json_t *chain = json_array();
    command = command && culprit_has_failed(command) ? command : NULL;
    for (unsigned i = 0; command && i < CHAIN_MOST; i++) {
        json_array_insert_new(chain, 0, fields_json(failed_process_fields, command, model));
        command = culprit_of(model, command);
    }
    return chain;
}

static json_t *chain_json(const void *row, const void *all)
{
    return chain_from(row, find_command(row, *(const pid_t *)all));
}

/* What programs do themselves; other signals mostly come from whoever ends them. */
static bool has_crashed(const struct job_process *process)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS};
    int signo = job_status_signal(process->status);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (signo == signals[i])
            return true;
    return false;
}

json_t *report_failed_with_json(const struct job_model *model, int status)
{
    const struct job_process *last = NULL;
    for (size_t i = 0; i < model->ended_count; i++) {
        const struct job_process *process = &model->ended[i];
        if (culprit_has_failed(process) && (culprit_status(process) == status || has_crashed(process)) &&
            (!last || process->end > last->end))
            last = process;
    }
    return last ? chain_from(model, last) : NULL;
}

static json_t *first_json(const void *row, const void *all)
{
    const struct job_model *model = row;
    const struct job_process *first = NULL;
    for (size_t i = 0; i < model->ended_count; i++) {
        const struct job_process *process = &model->ended[i];
        if (!culprit_has_failed(process))
            continue;
        bool after = first && culprit_is_lookup(process->name) > culprit_is_lookup(first->name);
        bool before = !first || culprit_is_lookup(process->name) < culprit_is_lookup(first->name);
        if (before || (!after && process->end < first->end))
            first = process;
    }
    return first ? fields_json(failed_process_fields, first, all) : json_null();
}

static const struct field why_fields[] = {{"reason", FIELD_TEXT, FIELD_AT(struct job_why, text)},
                                          {"count", FIELD_COUNT, FIELD_AT(struct job_why, count)},
                                          {0}};

static json_t *unknown_json(const void *row, const void *all)
{
    const struct job_model *model = row;
    json_t *list = json_array();
    for (const struct job_why *why = model->whys; why; why = why->hh.next)
        json_array_append_new(list, fields_json(why_fields, why, all));
    return list;
}

/* Of a struct job_model, which belongs to the number of its job's supervisor. */
static const struct field failed_fields[] = {
    {"count", FIELD_COUNT, FIELD_AT(struct job_model, failed),
     .about = "processes that ended with another status than 0, or by a signal"},
    {"unknown", FIELD_COUNT, FIELD_AT(struct job_model, unknown),
     .about = "processes of which it is not known how they ended"},
    {"unknown_reasons", FIELD_LIST, .json = unknown_json, .of = why_fields},
    {"first", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = first_json, .of = failed_process_fields,
     .about = "of all processes the first that failed, whether anybody minded or not; what only looks something up, as "
              "readlink, if nothing else did"},
    {"chain", FIELD_LIST, .json = chain_json, .of = failed_process_fields,
     .about = "what made the command fail: the process that failed first, then its parents up to the command, which is "
              "the last; empty: the command did not fail. Of the children of one that failed it is the first to fail "
              "after which it started nothing more, else the last whose status it ended with itself; of a shell, which "
              "may clean up after a failure, rather the last with its status, and one before what its traps start"},
    {0}};

json_t *report_failed_json(const struct job_model *model, pid_t supervisor)
{
    return fields_json(failed_fields, model, &supervisor);
}

static const struct field elsewhere_fields[] = {
    {"node", FIELD_TEXT},
    {"chain", FIELD_LIST, .of = failed_process_fields,
     .about =
         "the process that failed first there, its parents, and the command, which has the pid 0; seconds are since "
         "the start of the job"},
    {0}};

static json_t *elsewhere_json(const void *row, const void *all)
{
    json_t *last = job_report_last(row), *there = json_object_get(last, "elsewhere");
    json_t *json = there ? json_incref(there) : json_null();
    json_decref(last);
    return json;
}

const struct field report_failed_fields[] = {
    {"failed", FIELD_OBJECT, FIELD_AT(struct job_report, failed), FIELD_OR_NULL, .of = failed_fields,
     .about = "what failed; null: out of memory"},
    {"failed_elsewhere", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = elsewhere_json, .of = elsewhere_fields,
     .about = "of a job over several nodes, what failed first on another one and "
              "made the command fail; null: nothing that is known"},
    {0}};

/* ---- for people ---- */

bool report_command(struct buf *out, const json_t *argv, bool cut, size_t most)
{
    size_t index;
    const json_t *arg;
    _cleanup_(buf_done) struct buf whole = BUF_INIT;
    json_array_foreach(argv, index, arg)
    {
        const char *text = json_string_value(arg);
        buf_puts(&whole, index ? " " : "");
        text_show(&whole, !text ? "?" : *text ? text : "''");
    }
    text_cut(out, whole.data ? whole.data : "", most);
    buf_puts(out, cut ? " ..." : "");
    return json_array_size(argv) > 0;
}

static void put_process(struct buf *out, const json_t *process)
{
    char name[32];
    const json_t *code = json_object_get(process, "exit_code");
    text_show(out, json_string_value(json_object_get(process, "name")));
    json_int_t pid = json_integer_value(json_object_get(process, "pid"));
    if (pid)
        buf_printf(out, " (pid %lld)", (long long)pid);
    buf_putc(out, ' ');
    if (json_is_integer(code))
        buf_printf(out, "exit %d", (int)json_integer_value(code));
    else
        buf_puts(out, text_signal((int)json_integer_value(json_object_get(process, "signal")), name, sizeof name));
}

static void put_failure(struct buf *out, const char *label, const json_t *process, const char *node)
{
    const char *cwd = json_string_value(json_object_get(process, "cwd"));
    text_label(out, label);
    put_process(out, process);
    buf_printf(out, " at %.2f s", json_number_value(json_object_get(process, "end_seconds")));
    if (node) {
        buf_puts(out, " on node ");
        text_show(out, node);
    }
    buf_putc(out, '\n');
    text_label(out, "");
    if (!report_command(out, json_object_get(process, "argv"), json_is_true(json_object_get(process, "argv_cut")),
                        COMMAND_BYTES))
        buf_puts(out, "its command line is not known");
    buf_putc(out, '\n');
    if (!cwd)
        return;
    text_label(out, "");
    buf_puts(out, "in ");
    text_show(out, cwd);
    buf_putc(out, '\n');
}

static void put_parents(struct buf *out, const json_t *chain)
{
    size_t index;
    const json_t *process;
    text_label(out, "");
    buf_puts(out, "then ");
    json_array_foreach(chain, index, process)
    {
        if (index == 0)
            continue;
        buf_puts(out, index > 1 ? ", " : "");
        put_process(out, process);
    }
    buf_putc(out, '\n');
}

static void put_unknown(struct buf *out, const json_t *failed)
{
    json_int_t unknown = json_integer_value(json_object_get(failed, "unknown"));
    const json_t *reasons = json_object_get(failed, "unknown_reasons"), *reason;
    size_t index;
    if (!unknown)
        return;
    text_label(out, "unknown");
    buf_printf(out, "how %lld process%s ended\n", (long long)unknown, unknown == 1 ? "" : "es");
    json_array_foreach(reasons, index, reason)
    {
        if (index == WHYS_SHOWN)
            break;
        text_label(out, "");
        buf_printf(out, "%lld: ", (long long)json_integer_value(json_object_get(reason, "count")));
        text_show(out, json_string_value(json_object_get(reason, "reason")));
        buf_putc(out, '\n');
    }
}

/* Where it is more than what is shown: that of `shown` processes. */
static void put_count(struct buf *out, uint64_t count, uint64_t elsewhere, size_t shown)
{
    if (count + elsewhere <= shown || count + elsewhere <= 1)
        return;
    text_label(out, "");
    buf_printf(out, "%" PRIu64 " processes failed in all", count + elsewhere);
    if (elsewhere)
        buf_printf(out, ", %" PRIu64 " of them on other nodes", elsewhere);
    buf_puts(out, " (--json lists them)\n");
}

void report_failed_text(struct buf *out, const json_t *failed, uint64_t elsewhere, bool all)
{
    const json_t *chain = json_object_get(failed, "chain"), *first = json_object_get(failed, "first");
    const json_t *cause = json_array_get(chain, 0);
    uint64_t count = (uint64_t)json_integer_value(json_object_get(failed, "count"));
    size_t length = json_array_size(chain);
    bool other = json_is_object(first) && !json_equal(first, cause) &&
                 !culprit_is_lookup(json_string_value(json_object_get(first, "name")));
    if (length > 1) { /* of the command itself all is said */
        put_failure(out, "failed", cause, NULL);
        put_parents(out, chain);
    }
    if (other && all)
        put_failure(out, length > 1 ? "earlier" : "failed", first, NULL);
    if (all) {
        if (length > 1 || other || elsewhere)
            put_count(out, count, elsewhere, length);
        put_unknown(out, failed);
    }
}

void report_failures_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    json_t *last = job_report_last(report);
    const json_t *there = json_object_get(last, "elsewhere");
    const json_t *chain = json_object_get(there, "chain");
    uint64_t elsewhere = 0;
    for (size_t i = 0; i < report->part_count; i++)
        elsewhere += report->parts[i].model.failed;
    if (json_array_size(chain)) { /* what failed here failed because of it */
        put_failure(out, "failed", json_array_get(chain, 0), json_string_value(json_object_get(there, "node")));
        put_parents(out, chain);
        if (whole)
            put_count(out, report->model.failed, elsewhere, json_array_size(chain));
    } else {
        report_failed_text(out, report->failed, elsewhere, whole);
    }
    json_decref(last);
}
