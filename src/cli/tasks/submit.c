/* SPDX-License-Identifier: Apache-2.0 */
/* scry submit: makes a task, or a series of them, queues it, and sees to it that a runner runs. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <jansson.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "cli/common/cli.h"
#include "cli/tasks/task.h"
#include "jobdir/text/text.h"
#include "task/answer.h"
#include "task/spec.h"
#include "task/start.h"
#include "task/store.h"

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

static json_t *split(const char *text)
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
        "hosts", split(options_text(options, "hosts")), "partition", options_text(options, "partition"), "options",
        all_of(options, "launcher", false), "collect", "functions", all_of(options, "trace", false), "arguments",
        options_on(options, "args"), "logs", all_of(options, "log", false), "mpi", options_text(options, "mpi"),
        "repeat", (json_int_t)options_number(options, "repeat"), "series", *series ? series : absent, "limits",
        "seconds", (json_int_t)seconds, "memory_bytes", (json_int_t)options_number(options, "limit-memory"),
        "disk_bytes", (json_int_t)options_number(options, "limit-space"));
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
static void tell(const struct task_store *store, const json_t *task, struct progress *progress, struct buf *reason)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT, shown = BUF_INIT, waits = BUF_INIT;
    text_show(&waits, tasks_text_of(task, "waits_for"));
    if (waits.data && strcmp(waits.data, reason->data ? reason->data : "") != 0) {
        progress_end(progress);
        progress_begin(progress, "");
        fprintf(stderr, "scry: task %s waits for: %s\n", tasks_text_of(task, "id"), waits.data);
        buf_clear(reason);
        buf_puts(reason, waits.data);
    }
    buf_printf(&line, "task %s is ", tasks_text_of(task, "id"));
    tasks_put_state(&line, store, task);
    text_cut(&shown, line.data ? line.data : "", text_columns(STDERR_FILENO) - 1);
    progress_say(progress, shown.data ? shown.data : "");
}

static bool tell_end(const char *id, const json_t *task)
{
    const char *why = tasks_text_of(json_object_get(task, "error"), "text");
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    text_show(&shown, why);
    fprintf(stderr, "scry: task %s is %s%s%s\n", id, task ? tasks_text_of(task, "state") : "gone", *why ? ": " : "",
            shown.data ? shown.data : "");
    return strcmp(tasks_text_of(task, "state"), "done") == 0;
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
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        struct err err;
        json_t *task = task_answer_head(store, id, &err);
        over = !task || task_is_over(task);
        if (over) {
            progress_end(&progress);
            well = tell_end(id, task);
        } else {
            tell(store, task, &progress, &reason);
            poll(&wait, 1, 1000);
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
    json_t *counts = split(options_text(options, "processes")), *each;
    size_t i;
    int code = task_store_open(&store, &err);
    if (code == 0 && (json_array_size(counts) < 1 || json_array_size(counts) > 64))
        code = err_set(&err, -EINVAL, "-n: expected 1 to 64 numbers with commas, not '%s'",
                       options_text(options, "processes"));
    if (json_array_size(counts) > 1)
        jobdir_new_id(series);
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
