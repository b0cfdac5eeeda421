/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "cli/common/cli.h"
#include "cli/common/table.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "task/answer.h"
#include "task/spec.h"
#include "task/store.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

/* What is said of a task in a line, from the JSON that task/answer.h has for it. */

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

/* "running on n2, 42 %, 12 s left, waiting for: ...: why it failed" */
static void tasks_put_state(struct buf *out, const struct task_store *store, const json_t *task)
{
    const char *why = member_text(json_object_get(task, "error"), "text"), *elsewhere = task_elsewhere(store, task);
    const char *waits = member_text(task, "waits_for");
    buf_puts(out, member_text(task, "state"));
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
    text_show_brief(out, why);
}

/* scry task: what became of tasks, and what is to be done with them. */

enum { LISTED = 20 };

static int task_fail(const struct err *err)
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
    text_show(&name, member_text(task, "name"));
    buf_puts(&row->cells[COLUMN_TASK], member_text(task, "id"));
    text_cut(&row->cells[COLUMN_NAME], name.data ? name.data : "", table->width < 100 ? 12 : 24);
    buf_printf(&row->cells[COLUMN_PROCESSES], "%.0f", tasks_number_of(task, "processes"));
    buf_printf(&row->cells[COLUMN_RUNS], "%.0f/%.0f", tasks_number_of(task, "runs_done"),
               tasks_number_of(task, "runs_wanted"));
    if (bytes >= 0)
        text_size(&row->cells[COLUMN_SPACE], (uint64_t)bytes);
    tasks_put_state(&row->cells[COLUMN_STATE], store, task);
}

static int tasks_list(const struct task_store *store, const struct options *options)
{
    struct err err;
    size_t i;
    json_t *json = task_answer_list(store, options_on(options, "all") ? 0 : LISTED, &err), *task;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    if (!json)
        return task_fail(&err);
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
    buf_printf(out, "  %-7s %3.0f  ", member_text(phase, "phase"), tasks_number_of(phase, "run"));
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
    buf_printf(out, "  %3.0f  %-9s ", tasks_number_of(run, "run"), member_text(run, "state"));
    if (seconds >= 0)
        text_seconds(out, seconds);
    if (seconds >= 0)
        buf_printf(out, ", exit status %lld", (long long)json_integer_value(json_object_get(run, "exit_code")));
    buf_printf(out, "  %s\n", member_text(run, "job"));
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
               member_text(run, "job"), id, let_go > 0 ? ", best when the machine is less busy" : "");
}

static int task_show(const struct task_store *store, const struct options *options, const char *id)
{
    struct err err;
    size_t i;
    json_t *json = task_answer_one(store, id, &err), *each;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    if (!json)
        return task_fail(&err);
    if (options_on(options, "json"))
        return print_json(json);
    buf_printf(&out, "task %s  ", id);
    text_show(&out, member_text(json, "name"));
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

static int tasks_scaling(const struct task_store *store, const struct options *options, const char *const *ids,
                         size_t count)
{
    struct err err;
    size_t i;
    json_t *json = task_answer_scaling(store, ids, count, &err), *each;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    if (!json)
        return task_fail(&err);
    if (options_on(options, "json"))
        return print_json(json);
    const char *verdict = json_string_value(json_object_get(json, "verdict"));
    if (verdict)
        buf_printf(&out, "%c%s.\n\n", toupper((unsigned char)verdict[0]), verdict + 1);
    const char *by = member_text(json, "by");
    buf_printf(&out, "%9s  %s", by, "runs    seconds      least       most   speed-up efficiency  task\n");
    json_array_foreach(json_object_get(json, "tasks"), i, each)
    {
        buf_printf(&out, "%9.0f  %4.0f", tasks_number_of(each, by), tasks_number_of(each, "runs"));
        put_figure(&out, "%11.3f", tasks_number_of(each, "seconds"));
        put_figure(&out, "%11.3f", tasks_number_of(each, "least_seconds"));
        put_figure(&out, "%11.3f", tasks_number_of(each, "most_seconds"));
        put_figure(&out, "%11.2f", tasks_number_of(each, "speedup"));
        put_figure(&out, "%11.2f", tasks_number_of(each, "efficiency"));
        buf_printf(&out, "  %s\n", member_text(each, "id"));
    }
    cli_print(out.data ? out.data : "", out.len);
    json_decref(json);
    return 0;
}

/* Becomes scry diff. */
static int tasks_compare(const struct task_store *store, const struct options *options, const char *const *ids)
{
    char a[PATH_MAX], b[PATH_MAX];
    struct err err;
    if (task_last_run(store, ids[0], a, &err) < 0 || task_last_run(store, ids[1], b, &err) < 0)
        return task_fail(&err);
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
            status = action->each(store, ids[i], &err) < 0 ? task_fail(&err) : status;
    else if (strcmp(action->name, "ls") == 0)
        status = tasks_list(store, options);
    else if (strcmp(action->name, "show") == 0)
        status = task_show(store, options, ids[0]);
    else if (strcmp(action->name, "compare") == 0)
        status = tasks_compare(store, options, list_of);
    else
        status = tasks_scaling(store, options, list_of, count);
    if (action->wakes && task_runner_wake(store, &err) < 0)
        status = task_fail(&err);
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
        return task_fail(&err);
    task_runner_look(&store);
    char(*ids)[TASK_ID_SIZE] = calloc(count + 1, sizeof *ids);
    int status = 0;
    for (size_t i = 0; i < count && ids; i++)
        if (task_find(&store, options->words[i + 1], ids[i], &err) < 0)
            status = task_fail(&err);
    if (status == 0 && ids)
        status = do_action(action, &store, options, ids, count);
    free(ids);
    return status;
}

/* scry submit: makes a task, or a series of them, queues it, and sees to it that a runner runs. */

extern char **environ;

/* Where a program is found, and what it does, depends on these: a task has them from whoever submits it. Others are left
 * here: nobody wants his secrets in a file. A name that ends with _ stands for all that begin so. */
static const char *const handed_on[] = {
    "PATH",          "LD_LIBRARY_PATH",
    "PYTHONPATH",    "VIRTUAL_ENV",
    "CONDA_PREFIX",  "OMP_",
    "GOMP_",         "KMP_",
    "MKL_",          "OPENBLAS_",
    "OMPI_MCA_",     "OMPI_ALLOW_",
    "PMIX_MCA_",     "MPICH_",
    "HYDRA_",        "I_MPI_",
    "FI_",           "UCX_",
    "CUDA_",         "SLURM_CONF",
    "LOADEDMODULES", "MODULEPATH",
    "MALLOC_",       "GCONV_PATH",
};

/* What the job's own scry puts there is not for another one. */
static const char *const left_here[] = {"HYDRA_LAUNCHER_EXEC", "OMPI_MCA_plm_rsh_agent", "OMPI_MCA_orte_",
                                        "PMIX_MCA_mca_"};

static bool begins_with_one(const char *entry, const char *const *names, size_t count)
{
    size_t own = strcspn(entry, "=");
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(names[i]);
        if (names[i][len - 1] == '_' ? strncmp(entry, names[i], len) == 0
                                     : own == len && strncmp(entry, names[i], len) == 0)
            return true;
    }
    return false;
}

/* What is no UTF-8 is no JSON: then there is no list, so no task without a part of what it was to have. */
static json_t *list_add(json_t *list, json_t *text_take)
{
    if (json_array_append_new(list, text_take) == 0)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *environment_json(const struct options *options)
{
    json_t *json = json_object();
    const char *given;
    char name[256];
    size_t next = 0;
    const char *by = options_text(options, "by");
    bool none = options_on(options, "env-only") || (by && strcmp(by, "ssh") == 0); /* it has paths of its own */
    for (char **entry = environ; *entry && !none; entry++) {
        size_t len = strcspn(*entry, "=");
        if (len >= sizeof name || !(*entry)[len] ||
            !begins_with_one(*entry, handed_on, sizeof handed_on / sizeof *handed_on) ||
            begins_with_one(*entry, left_here, sizeof left_here / sizeof *left_here))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)len, *entry);
        json_object_set_new(json, name, json_string(*entry + len + 1)); /* what is no UTF-8 is left out */
    }
    while ((given = options_next(options, "env", &next))) {
        size_t len = strcspn(given, "=");
        snprintf(name, sizeof name, "%.*s", (int)len, given);
        const char *value = given[len] ? given + len + 1 : getenv(name);
        if (value && json_object_set_new(json, name, json_string(value)) < 0) {
            json_decref(json);
            return NULL;
        }
    }
    return json;
}

static json_t *words_split(const char *text)
{
    json_t *list = json_array();
    for (; text && *text;) {
        size_t len = strcspn(text, ",");
        if (len)
            list = list_add(list, json_stringn(text, len));
        text += len + (text[len] == ',');
    }
    return list;
}

static json_t *all_of(const struct options *options, const char *name, bool base)
{
    json_t *list = json_array();
    const char *each;
    size_t next = 0;
    while ((each = options_next(options, name, &next)))
        list = list_add(list, json_string(base ? text_base(each) : each));
    return list;
}

static json_t *words_json(char **words)
{
    json_t *list = json_array();
    for (; *words; words++)
        list = list_add(list, json_string(*words));
    return list;
}

/* Whoever copies files into the task wants them where it runs; elsewhere, this directory may not be there. */
static json_t *directory_json(const struct options *options)
{
    char cwd[PATH_MAX];
    const char *by = options_text(options, "by"), *given = options_text(options, "directory");
    if (given)
        return *given ? json_string(given) : json_null();
    if (options_given(options, "file") || (by && strcmp(by, "ssh") == 0) || !getcwd(cwd, sizeof cwd))
        return json_null();
    return json_string(cwd);
}

static json_t *task_json(const struct options *options, const char *processes, const char *series)
{
    static const char *const absent = NULL;
    char *end;
    long count = strtol(processes, &end, 10);
    const char *program = options->words[0], *name = options_text(options, "name");
    uint64_t seconds = (options_number(options, "limit-time") + NS_PER_SECOND - 1) / NS_PER_SECOND;
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:o, s:s?, s:o, s:{s:s, s:o, s:s?, s:o}, s:{s:o, s:b, s:o, s:s*}, s:I, s:s?, "
        "s:{s:I, "
        "s:I, "
        "s:I}}",
        "name", name ? name : text_base(program), "program", program, "arguments", words_json(options->words + 1),
        "directory", directory_json(options), "environment", environment_json(options), "files",
        all_of(options, "file", true), "build", options_text(options, "build"), "processes",
        *processes && !*end ? json_integer(count) : json_string(processes), "launch", "by", options_text(options, "by"),
        "hosts", words_split(options_text(options, "hosts")), "partition", options_text(options, "partition"),
        "options", all_of(options, "launcher", false), "collect", "functions", all_of(options, "trace", false),
        "arguments", options_on(options, "args"), "logs", all_of(options, "log", false), "mpi",
        options_text(options, "mpi"), "repeat", (json_int_t)options_number(options, "repeat"), "series",
        *series ? series : absent, "limits", "seconds", (json_int_t)seconds, "memory_bytes",
        (json_int_t)options_number(options, "limit-memory"), "disk_bytes",
        (json_int_t)options_number(options, "limit-space"));
}

/* With its files; it is not queued yet. */
static int make_one(const struct task_store *store, const struct options *options, const char *processes,
                    const char *series, char ret_id[TASK_ID_SIZE], struct err *err)
{
    const char *file;
    size_t next = 0;
    json_t *json = task_json(options, processes, series);
    if (!json)
        return err_set(err, -EINVAL, "a name, an argument or a path is no UTF-8: a task is kept as JSON");
    int code = task_create(store, json, ret_id, err);
    json_decref(json);
    if (code < 0)
        return code;
    while (code == 0 && (file = options_next(options, "file", &next)))
        code = task_upload_copy(store, ret_id, file, err);
    if (code < 0)
        task_remove(store, ret_id, true, NULL);
    return code;
}

/* While a task lasts: in a terminal its state; and why a batch system has it wait, once when that is another reason. */
static void task_tell(const struct task_store *store, const json_t *task, struct progress *progress, struct buf *reason)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT, shown = BUF_INIT, waits = BUF_INIT;
    text_show(&waits, member_text(task, "waits_for"));
    if (waits.data && strcmp(waits.data, reason->data ? reason->data : "") != 0) {
        progress_end(progress);
        progress_begin(progress, "");
        fprintf(stderr, "scry: task %s waits for: %s\n", member_text(task, "id"), waits.data);
        buf_clear(reason);
        buf_puts(reason, waits.data);
    }
    buf_printf(&line, "task %s is ", member_text(task, "id"));
    tasks_put_state(&line, store, task);
    text_cut(&shown, line.data ? line.data : "", text_columns(STDERR_FILENO) - 1);
    progress_say(progress, shown.data ? shown.data : "");
}

static bool tell_end(const char *id, const json_t *task)
{
    const char *why = member_text(json_object_get(task, "error"), "text");
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    text_show(&shown, why);
    const char *state = task ? member_text(task, "state") : "gone";
    fprintf(stderr, "scry: task %s %s %s%s%s\n", id,
            strcmp(state, "failed") == 0      ? "has"
            : strcmp(state, "cancelled") == 0 ? "was"
                                              : "is",
            state, *why ? ": " : "", shown.data ? shown.data : "");
    return strcmp(state, "done") == 0;
}

/* Waits for the end of a task; a change wakes it up, and so does a second, for what no inotify tells. */
static bool wait_for(const struct task_store *store, const char *id)
{
    char changed[PATH_MAX + 16], events[4096];
    bool well = false;
    struct progress progress;
    _cleanup_(buf_done) struct buf reason = BUF_INIT;
    _cleanup_(closep) int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    snprintf(changed, sizeof changed, "%s/.changed", store->dir);
    if (fd >= 0)
        inotify_add_watch(fd, changed, IN_CLOSE_WRITE);
    progress_begin(&progress, "");
    for (bool over = false; !over;) {
        struct err err;
        json_t *task = task_answer_head(store, id, &err);
        over = !task || task_is_over(task);
        if (over) {
            progress_end(&progress);
            well = tell_end(id, task);
        } else {
            task_tell(store, task, &progress, &reason);
            wait_fd(fd, POLLIN, 1000);
            while (fd >= 0 && read(fd, events, sizeof events) > 0)
                continue;
            task_runner_wake(store, NULL); /* if it was killed */
        }
        json_decref(task);
    }
    return well;
}

int cmd_submit(const struct options *options)
{
    struct task_store store;
    struct err err = {0};
    char series[TASK_ID_SIZE] = "", ids[64][TASK_ID_SIZE];
    size_t made = 0;
    json_t *counts = words_split(options_text(options, "processes")), *each;
    size_t i;
    int code = task_store_open(&store, &err);
    if (code == 0 && (json_array_size(counts) < 1 || json_array_size(counts) > 64))
        code = err_set(&err, -EINVAL, "-n: expected 1 to 64 numbers with commas, not '%s'",
                       options_text(options, "processes"));
    if (json_array_size(counts) > 1)
        jobdir_new_id(series, NULL);
    json_array_foreach(counts, i, each)
    {
        code = code < 0 ? code : make_one(&store, options, json_string_value(each), series, ids[made], &err);
        made += code == 0;
    }
    for (i = 0; i < made && code == 0; i++)
        code = task_queue(&store, ids[i], &err);
    for (i = 0; i < made; i++)
        if (code < 0) /* all of them or none */
            task_remove(&store, ids[i], true, NULL);
        else
            puts(ids[i]);
    made = code < 0 ? 0 : made;
    json_decref(counts);
    fflush(stdout);
    struct err why = {0};
    if (made && task_runner_wake(&store, &why) < 0)
        cli_log_error(&why);
    if (code < 0) {
        cli_log_error(&err);
        return EXIT_USAGE;
    }
    bool well = true;
    if (made && options_on(options, "wait") && isatty(STDERR_FILENO))
        fputs("scry: Ctrl-C ends the waiting; the task goes on until it is over, or 'scry task cancel' ends it\n",
              stderr);
    for (i = 0; i < made && options_on(options, "wait"); i++)
        well = wait_for(&store, ids[i]) && well;
    return well ? 0 : EXIT_ERRORS;
}
