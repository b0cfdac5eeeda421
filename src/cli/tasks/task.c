/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tasks/task.h"

#include "base/data/cleanup.h"
#include "base/system/log.h"
#include "cli/common/cli.h"
#include "cli/common/table.h"
#include "jobdir/text/text.h"
#include "task/answer.h"
#include "task/start.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *tasks_text_of(const json_t *json, const char *member)
{
    const char *text = json_string_value(json_object_get(json, member));
    return text ? text : "";
}

static double tasks_number_of(const json_t *json, const char *member)
{
    const json_t *value = json_object_get(json, member);
    return json_is_number(value) ? json_number_value(value) : -1;
}

/* ", 42 %, 12 s left"; also of a phase */
static void tasks_put_progress(struct buf *out, const json_t *json)
{
    double share = tasks_number_of(json, "progress"), left = tasks_number_of(json, "left_seconds");
    if (share >= 0)
        buf_printf(out, ", %.0f %%", (double)(int)(share * 100));
    if (left >= 0) {
        buf_puts(out, ", ");
        text_seconds(out, left);
        buf_puts(out, " left");
    }
}

void tasks_put_state(struct buf *out, const struct task_store *store, const json_t *task)
{
    const char *why = tasks_text_of(json_object_get(task, "error"), "text"), *elsewhere = task_elsewhere(store, task);
    const char *waits = tasks_text_of(task, "waits_for");
    buf_puts(out, tasks_text_of(task, "state"));
    if (elsewhere && task_is_active(task)) {
        buf_puts(out, " on ");
        text_show(out, elsewhere);
    }
    tasks_put_progress(out, task);
    if (*waits) {
        buf_puts(out, ", waiting for: ");
        text_show(out, waits);
    }
    if (*why)
        buf_puts(out, ": ");
    text_show(out, why);
}

/* scry task: what became of tasks, and what is to be done with them. */

enum { LISTED = 20 };

static int fail(const struct err *err)
{
    cli_log_error(err);
    return EXIT_ERRORS;
}

static int print_json(json_t *json_take)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    text_put_json(&out, json_take);
    cli_print(out.data ? out.data : "", out.len);
    return out.failed ? EXIT_ERRORS : 0;
}

enum { COLUMN_TASK, COLUMN_NAME, COLUMN_PROCESSES, COLUMN_RUNS, COLUMN_SPACE, COLUMN_STATE, COLUMNS };

static const struct table_column columns[] = {
    [COLUMN_TASK] = {"TASK"},
    [COLUMN_NAME] = {"NAME"},
    [COLUMN_PROCESSES] = {"PROCESSES", .number = true, .omitted = 2},
    [COLUMN_RUNS] = {"RUNS", .number = true, .omitted = 3},
    [COLUMN_SPACE] = {"SPACE", .number = true, .omitted = 1, .if_any = true},
    [COLUMN_STATE] = {"STATE", .least = 33}, /* building, 25 %, 59 min 28 s left: half of a time is another time */
    [COLUMNS] = {0},
};

static void add_task(struct table *table, const struct task_store *store, const json_t *task)
{
    _cleanup_(buf_done) struct buf name = BUF_INIT;
    double bytes = tasks_number_of(task, "space_bytes");
    struct table_row *row = table_add(table);
    if (!row)
        return;
    text_show(&name, tasks_text_of(task, "name"));
    buf_puts(&row->cells[COLUMN_TASK], tasks_text_of(task, "id"));
    text_cut(&row->cells[COLUMN_NAME], name.data ? name.data : "", table->width < 100 ? 12 : 24);
    buf_printf(&row->cells[COLUMN_PROCESSES], "%.0f", tasks_number_of(task, "processes"));
    buf_printf(&row->cells[COLUMN_RUNS], "%.0f/%.0f", tasks_number_of(task, "runs_done"),
               tasks_number_of(task, "runs_wanted"));
    if (bytes >= 0)
        text_size(&row->cells[COLUMN_SPACE], (uint64_t)bytes);
    tasks_put_state(&row->cells[COLUMN_STATE], store, task);
}

static int list(const struct task_store *store, const struct options *options)
{
    struct err err;
    size_t i;
    json_t *json = task_answer_list(store, options_on(options, "all") ? 0 : LISTED, &err), *task;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    if (!json)
        return fail(&err);
    if (err.code < 0)
        log_warning("not listed: %s", err.text);
    if (options_on(options, "json"))
        return print_json(json);
    _cleanup_(table_done) struct table table = {.columns = columns, .width = text_columns(STDOUT_FILENO)};
    json_array_foreach(json_object_get(json, "tasks"), i, task) add_task(&table, store, task);
    if (table.count)
        table_put(&out, &table);
    else
        buf_puts(&out, "no tasks yet: scry submit makes one\n");
    cli_print(out.data ? out.data : "", out.len);
    json_decref(json);
    return 0;
}

/* " left 2 processes behind, which were ended: sleep, dask-worker" */
static void put_left(struct buf *out, const json_t *left)
{
    double count = tasks_number_of(left, "processes");
    json_t *name;
    size_t i;
    if (count < 1)
        return;
    buf_printf(out, "  left %.0f process%s behind, which %s ended:", count, count < 2 ? "" : "es",
               count < 2 ? "was" : "were");
    json_array_foreach(json_object_get(left, "names"), i, name)
    {
        buf_puts(out, i ? ", " : " ");
        text_show(out, json_string_value(name));
    }
}

static void put_phase(struct buf *out, const json_t *phase)
{
    double began = tasks_number_of(phase, "began_seconds"), ended = tasks_number_of(phase, "ended_seconds");
    buf_printf(out, "  %-7s %3.0f  ", tasks_text_of(phase, "phase"), tasks_number_of(phase, "run"));
    if (ended < 0)
        buf_puts(out, "under way");
    else
        text_seconds(out, ended > began ? ended - began : 0);
    if (ended < 0)
        tasks_put_progress(out, phase);
    put_left(out, json_object_get(phase, "left_behind"));
    buf_putc(out, '\n');
}

static void put_run(struct buf *out, const json_t *run)
{
    double seconds = tasks_number_of(run, "seconds");
    buf_printf(out, "  %3.0f  %-9s ", tasks_number_of(run, "run"), tasks_text_of(run, "state"));
    if (seconds >= 0)
        text_seconds(out, seconds);
    if (seconds >= 0)
        buf_printf(out, ", exit status %lld", (long long)json_integer_value(json_object_get(run, "exit_code")));
    buf_printf(out, "  %s\n", tasks_text_of(run, "job"));
}

/* What of a run nobody sees in its job. */
static void put_unseen(struct buf *out, const json_t *run, const char *id)
{
    double ranks = tasks_number_of(run, "ranks"), counted = tasks_number_of(run, "ranks_counted");
    double traced = tasks_number_of(run, "ranks_traced"), let_go = tasks_number_of(run, "untraced_processes");
    bool less_counted = counted >= 0 && counted < ranks, less_traced = traced >= 0 && traced < ranks;
    if (!less_counted && !less_traced && (ranks >= 0 || let_go <= 0))
        return;
    buf_printf(out, "run %.0f: ", tasks_number_of(run, "run"));
    if (ranks < 0)
        buf_printf(out, "%.0f process%s not traced", let_go, let_go < 2 ? " was" : "es were");
    if (less_traced)
        buf_printf(out, "%.0f of %.0f ranks %s no trace", ranks - traced, ranks, ranks - traced < 2 ? "has" : "have");
    if (less_counted)
        buf_printf(out, "%s%.0f of %.0f ranks %s no statistics", less_traced ? ", " : "", ranks - counted, ranks,
                   ranks - counted < 2 ? "has" : "have");
    buf_printf(out, "; what is shown is without them. scry report %s says why; scry task rerun %s runs it again%s\n",
               tasks_text_of(run, "job"), id, let_go > 0 ? ", best when the machine is less busy" : "");
}

static int show(const struct task_store *store, const struct options *options, const char *id)
{
    struct err err;
    size_t i;
    json_t *json = task_answer_one(store, id, &err), *each;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    if (!json)
        return fail(&err);
    if (options_on(options, "json"))
        return print_json(json);
    buf_printf(&out, "task %s  ", id);
    text_show(&out, tasks_text_of(json, "name"));
    buf_puts(&out, "\n");
    tasks_put_state(&out, store, json);
    buf_puts(&out, "\nphases\n");
    json_array_foreach(json_object_get(json, "phases"), i, each) put_phase(&out, each);
    buf_puts(&out, "runs\n");
    json_array_foreach(json_object_get(json, "runs"), i, each) put_run(&out, each);
    json_array_foreach(json_object_get(json, "runs"), i, each) put_unseen(&out, each, id);
    buf_puts(&out, "scry report JOB shows a run\n");
    if (tasks_number_of(json, "space_bytes") >= 0) {
        buf_puts(&out, "takes ");
        text_size(&out, (uint64_t)tasks_number_of(json, "space_bytes"));
        buf_printf(&out, " of the disk, until scry task rm %s\n", id);
    }
    cli_print(out.data ? out.data : "", out.len);
    json_decref(json);
    return 0;
}

static void put_figure(struct buf *out, const char *format, double value)
{
    if (value >= 0)
        buf_printf(out, format, value);
    else
        buf_printf(out, "%11s", "-");
}

static int scaling(const struct task_store *store, const struct options *options, const char *const *ids, size_t count)
{
    struct err err;
    size_t i;
    json_t *json = task_answer_scaling(store, ids, count, &err), *each;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    if (!json)
        return fail(&err);
    if (options_on(options, "json"))
        return print_json(json);
    const char *verdict = json_string_value(json_object_get(json, "verdict"));
    if (verdict)
        buf_printf(&out, "%c%s.\n\n", toupper((unsigned char)verdict[0]), verdict + 1);
    const char *by = tasks_text_of(json, "by");
    buf_printf(&out, "%9s  %s", by, "runs    seconds      least       most   speed-up efficiency  task\n");
    json_array_foreach(json_object_get(json, "tasks"), i, each)
    {
        buf_printf(&out, "%9.0f  %4.0f", tasks_number_of(each, by), tasks_number_of(each, "runs"));
        put_figure(&out, "%11.3f", tasks_number_of(each, "seconds"));
        put_figure(&out, "%11.3f", tasks_number_of(each, "least_seconds"));
        put_figure(&out, "%11.3f", tasks_number_of(each, "most_seconds"));
        put_figure(&out, "%11.2f", tasks_number_of(each, "speedup"));
        put_figure(&out, "%11.2f", tasks_number_of(each, "efficiency"));
        buf_printf(&out, "  %s\n", tasks_text_of(each, "id"));
    }
    cli_print(out.data ? out.data : "", out.len);
    json_decref(json);
    return 0;
}

/* Becomes scry diff. */
static int compare(const struct task_store *store, const struct options *options, const char *const *ids)
{
    char a[PATH_MAX], b[PATH_MAX];
    struct err err;
    if (task_last_run(store, ids[0], a, &err) < 0 || task_last_run(store, ids[1], b, &err) < 0)
        return fail(&err);
    char scry[] = "scry", diff[] = "diff", json[] = "--json";
    char *argv[] = {scry, diff, a, b, options_on(options, "json") ? json : NULL, NULL};
    execv("/proc/self/exe", argv);
    log_error("cannot run scry diff: %s", strerror(errno));
    return EXIT_ERRORS;
}

/* ---- actions ---- */

typedef int each_fn(const struct task_store *store, const char *id, struct err *err);

static int remove_one(const struct task_store *store, const char *id, struct err *err)
{
    return task_remove(store, id, true, err);
}

/* Of a task of another machine, that it does not end just yet. */
static int cancel_one(const struct task_store *store, const char *id, struct err *err)
{
    struct task task;
    int code = task_cancel(store, id, err);
    if (code == 0 && task_load(store, id, &task, err) == 0) {
        const char *elsewhere = task_elsewhere(store, task.state);
        if (elsewhere && task_is_active(task.state))
            log_warning(
                "task %s is %s on %s: it ends when its runner there sees it; scry task ls there starts that again, "
                "if it was killed; if there is no %s any more, cancel it again",
                id, task_state_name(task.state), elsewhere, elsewhere);
        task_done(&task);
    }
    return code;
}

static const struct action {
    const char *name;
    size_t least, most;
    each_fn *each; /* for those that do the same to each task */
    bool wakes;
} actions[] = {
    {"ls", 0, 0, NULL, false},
    {"show", 1, 1, NULL, false},
    {"cancel", 1, SIZE_MAX, cancel_one, true},
    {"rerun", 1, SIZE_MAX, task_rerun, true},
    {"rm", 1, SIZE_MAX, remove_one, false},
    {"compare", 2, 2, NULL, false},
    {"scaling", 1, SIZE_MAX, NULL, false},
};

static int do_action(const struct action *action, const struct task_store *store, const struct options *options,
                     char (*ids)[TASK_ID_SIZE], size_t count)
{
    struct err err = {0};
    int status = 0;
    const char **list_of = calloc(count + 1, sizeof *list_of);
    for (size_t i = 0; i < count && list_of; i++)
        list_of[i] = ids[i];
    if (!list_of)
        return EXIT_ERRORS;
    if (action->each)
        for (size_t i = 0; i < count; i++)
            status = action->each(store, ids[i], &err) < 0 ? fail(&err) : status;
    else if (strcmp(action->name, "ls") == 0)
        status = list(store, options);
    else if (strcmp(action->name, "show") == 0)
        status = show(store, options, ids[0]);
    else if (strcmp(action->name, "compare") == 0)
        status = compare(store, options, list_of);
    else
        status = scaling(store, options, list_of, count);
    if (action->wakes && task_runner_wake(store, &err) < 0)
        status = fail(&err);
    free(list_of);
    return status;
}

int cmd_task(const struct options *options)
{
    struct task_store store;
    struct err err = {0};
    const struct action *action = NULL;
    size_t count = options->word_count - 1;
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (strcmp(actions[i].name, options->words[0]) == 0)
            action = &actions[i];
    if (!action)
        return cli_usage_error(options, "no action '%s': ls, show, cancel, rerun, rm, compare or scaling",
                               options->words[0]);
    if (count < action->least || count > action->most)
        return cli_usage_error(options, action->least ? "%s: name %s" : "%s: no more words", action->name,
                               action->least == 2  ? "two tasks"
                               : action->most == 1 ? "one task"
                                                   : "tasks");
    if (task_store_open(&store, &err) < 0)
        return fail(&err);
    task_runner_look(&store);
    char(*ids)[TASK_ID_SIZE] = calloc(count + 1, sizeof *ids);
    int status = 0;
    for (size_t i = 0; i < count && ids; i++)
        if (task_find(&store, options->words[i + 1], ids[i], &err) < 0)
            status = fail(&err);
    if (status == 0 && ids)
        status = do_action(action, &store, options, ids, count);
    free(ids);
    return status;
}
