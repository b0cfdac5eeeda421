/* SPDX-License-Identifier: Apache-2.0 */
#include "task/answer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "jobdir/record/info.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "task/spec.h"
#include "task/estimate.h"

/* ---- schemas ---- */

#define SECONDS(name, about_) \
    { \
        name, FIELD_NUMBER, .flags = FIELD_OR_NULL, .about = about_ \
    }
#define STATES "draft|queued|building|running|gathering|done|failed|cancelled"

static const struct field error_fields[] = {
    {"kind", FIELD_TEXT, .about = "start, build, run, gather; time, memory, space: a limit, or there was no more"},
    {"text", FIELD_TEXT},
    {0}};

static const struct field head_fields[] = {
    {"id", FIELD_TEXT},
    {"name", FIELD_TEXT},
    {"program", FIELD_TEXT},
    {"processes", FIELD_COUNT},
    {"series", FIELD_TEXT, .flags = FIELD_OR_NULL, .about = "of tasks over numbers of processes"},
    {"state", FIELD_CHOICE, .choices = STATES},
    {"waits_for", FIELD_TEXT, .flags = FIELD_OR_NULL,
     .about = "while a batch system has it in its queue: the reason that it gives (Slurm); null: not known"},
    {"error", FIELD_OBJECT, .flags = FIELD_OR_NULL, .of = error_fields},
    {"host", FIELD_TEXT, .flags = FIELD_OR_NULL, .about = "the machine that queued it: its runner there executes it"},
    {"created_seconds", FIELD_NUMBER, .about = "since 1970, as all times here"},
    SECONDS("queued_seconds", NULL),
    SECONDS("began_seconds", NULL),
    SECONDS("ended_seconds", NULL),
    {"runs_done", FIELD_COUNT, .about = "runs that ended"},
    {"runs_wanted", FIELD_COUNT},
    {"progress", FIELD_NUMBER, .flags = FIELD_OR_NULL,
     .about =
         "of the phase that it is in, 0 to 1: of a run as its job says it, of what is gathered by its bytes, else by "
         "how long earlier ones took; null: not known, or it takes longer than these"},
    SECONDS("left_seconds", "estimated, of this phase; null: not known, or it takes longer than was expected"),
    {"space_bytes", FIELD_COUNT, .flags = FIELD_OR_NULL,
     .about = "of the disk, with all runs, when it ended; null: not known, or very many files"},
    {0}};

static const struct field name_fields[] = {{"", FIELD_TEXT}, {0}};

static const struct field left_fields[] = {
    {"processes", FIELD_COUNT},
    {"names", FIELD_LIST, .of = name_fields, .about = "of their programs, some of them"},
    {0}};

static const struct field phase_fields[] = {{"phase", FIELD_CHOICE, .choices = "build|run|gather"},
                                            {"run", FIELD_COUNT},
                                            SECONDS("began_seconds", NULL),
                                            SECONDS("ended_seconds", NULL),
                                            {"progress", FIELD_NUMBER, .flags = FIELD_OR_NULL},
                                            SECONDS("left_seconds", "estimated, while it lasts"),
                                            {"left_behind", FIELD_OBJECT, .flags = FIELD_OR_NULL, .of = left_fields,
                                             .about = "what went on when its command had ended, and was ended then"},
                                            {0}};

static const struct field run_fields[] = {
    {"run", FIELD_COUNT},
    {"state", FIELD_CHOICE, .choices = "running|done|failed|cancelled"},
    {"job", FIELD_TEXT, .flags = FIELD_OR_NULL, .about = "its id; null: it has not begun"},
    {"directory", FIELD_TEXT},
    SECONDS("began_seconds", NULL),
    SECONDS("ended_seconds", NULL),
    SECONDS("seconds", "from the start of the command to its end"),
    {"exit_code", FIELD_INTEGER, .flags = FIELD_OR_NULL},
    {"signal", FIELD_INTEGER, .flags = FIELD_OR_NULL},
    {"ranks", FIELD_COUNT, .flags = FIELD_OR_NULL,
     .about = "of MPI, as its programs say it; null, as the next three: no rank has told, or it goes on"},
    {"ranks_counted", FIELD_COUNT, .flags = FIELD_OR_NULL, .about = "of these, with statistics of MPI"},
    {"ranks_traced", FIELD_COUNT, .flags = FIELD_OR_NULL, .about = "with a trace; null: none was to have one"},
    {"untraced_processes", FIELD_COUNT, .flags = FIELD_OR_NULL,
     .about = "of any kind, that began without their traces: the monitor did not answer in time, or could not (notes "
              "late, refused)"},
    {0}};

json_t *task_list_schema(void)
{
    static const struct field whole[] = {{"tasks", FIELD_LIST, .of = head_fields, .about = "newest first"}, {0}};
    return fields_schema(whole);
}

json_t *task_schema(void)
{
    static const struct field whole[] = {
        {"", FIELD_PART, .of = head_fields},
        {"phases", FIELD_LIST, .of = phase_fields},
        {"runs", FIELD_LIST, .of = run_fields},
        {"command", FIELD_TEXT, .about = "for a shell: makes the same task, without its series"},
        {"task", FIELD_OBJECT, .about = "task.json: what was asked for"},
        {0}};
    return fields_schema(whole);
}

json_t *task_scaling_schema(void)
{
    static const struct field task[] = {
        {"id", FIELD_TEXT},
        {"name", FIELD_TEXT},
        {"processes", FIELD_COUNT},
        {"threads", FIELD_COUNT, .flags = FIELD_OR_NULL,
         .about = "of each process, by OMP_NUM_THREADS of its environment; null: that has no number"},
        {"runs", FIELD_COUNT, .about = "that ended well"},
        {"seconds", FIELD_NUMBER, .flags = FIELD_OR_NULL, .about = "the median of these; null: there is none"},
        {"least_seconds", FIELD_NUMBER, .flags = FIELD_OR_NULL, .about = "of the quickest of these"},
        {"most_seconds", FIELD_NUMBER, .flags = FIELD_OR_NULL, .about = "of the slowest"},
        {"speedup", FIELD_NUMBER, .flags = FIELD_OR_NULL, .about = "against the first with seconds"},
        {"efficiency", FIELD_NUMBER, .flags = FIELD_OR_NULL, .about = "speed-up for each process, or thread, more"},
        {"mpi_share", FIELD_NUMBER, .flags = FIELD_OR_NULL,
         .about = "of the ranks' time, in MPI, the mean of these runs; null, as the next: not known"},
        {"uneven_share", FIELD_NUMBER, .flags = FIELD_OR_NULL,
         .about = "of their time, what the ranks have less to compute than the one that computes longest"},
        {"node_shared", FIELD_BOOL,
         .about = "in one of these runs others had the node's processors (note processors_taken)"},
        {"processors", FIELD_COUNT, .flags = FIELD_OR_NULL,
         .about = "of the node that all of its processes were on; null: not known, or it had others"},
        {"error", FIELD_OBJECT, .flags = FIELD_OR_NULL, .of = error_fields, .about = "why it failed; null: it did not"},
        {0}};
    static const struct field whole[] = {
        {"verdict", FIELD_TEXT, .flags = FIELD_OR_NULL,
         .about = "which tasks failed, and why the first did; which had more processes than processors, and are not "
                  "compared; whether the runs are too short, the node was shared, or two of one number differ much: "
                  "then no more; how far it scales, and "
                  "what keeps it from more, as far as MPI was measured; null: one number of processes alone, and none "
                  "failed"},
        {"by", FIELD_CHOICE, .choices = "processes|threads",
         .about = "what they are compared by: threads where all have as many processes, and other numbers of threads"},
        {"tasks", FIELD_LIST, .of = task, .about = "by their numbers of these"},
        {0}};
    return fields_schema(whole);
}

/* ---- figures ---- */

static json_t *seconds_json(const json_t *object, const char *member)
{
    const json_t *value = json_object_get(object, member);
    return json_is_integer(value) ? json_real((double)json_integer_value(value) / NS_PER_SECOND) : json_null();
}

static bool ended_well(const json_t *run)
{
    const char *state = json_string_value(json_object_get(run, "state"));
    return state && strcmp(state, "done") == 0;
}

/* ---- answers ---- */

static json_t *number_or_null(double value)
{
    return value >= 0 && isfinite(value) ? json_real(value) : json_null();
}

static json_t *member_or_null(const json_t *object, const char *member)
{
    json_t *value = json_object_get(object, member);
    return value ? json_incref(value) : json_null();
}

static json_t *waits_json(const json_t *runs)
{
    size_t count = json_array_size(runs);
    return count ? member_or_null(json_array_get(runs, count - 1), "waits_for") : json_null();
}

static json_t *head_json(const struct task *task)
{
    double share = -1, left = -1;
    const json_t *phase = task_phase(task->state), *runs = json_object_get(task->state, "runs");
    size_t done = 0, i;
    json_t *run, *error = json_object_get(task->state, "error");
    json_array_foreach(runs, i, run) done += !json_is_null(json_object_get(run, "ended_ns"));
    if (phase)
        task_estimate(task, phase, &share, &left);
    uint64_t wanted = (uint64_t)json_integer_value(json_object_get(task->state, "target"));
    if (!wanted)
        wanted = task_number(task->spec, "repeat");
    return json_pack("{s:s, s:O, s:O, s:O, s:O, s:s, s:o, s:O?, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o}",
                     "id", task->id, "name", task_member(task->spec, "name"), "program",
                     task_member(task->spec, "program"), "processes", task_member(task->spec, "processes"), "series",
                     task_member(task->spec, "series"), "state", task_state_name(task->state), "waits_for",
                     waits_json(runs), "error", error, "host", member_or_null(task->state, "host"), "created_seconds",
                     seconds_json(task->state, "created_ns"), "queued_seconds", seconds_json(task->state, "queued_ns"),
                     "began_seconds", seconds_json(task->state, "began_ns"), "ended_seconds",
                     seconds_json(task->state, "ended_ns"), "runs_done", (json_int_t)done, "runs_wanted",
                     (json_int_t)wanted, "progress", number_or_null(share), "left_seconds", number_or_null(left),
                     "space_bytes", member_or_null(task->state, "space_bytes"));
}

static json_t *phases_json(const struct task *task)
{
    json_t *list = json_array(), *phase;
    size_t i;
    json_array_foreach(json_object_get(task->state, "phases"), i, phase)
    {
        double share = 1, left = -1;
        if (phase == task_phase(task->state))
            task_estimate(task, phase, &share, &left);
        json_array_append_new(
            list, json_pack("{s:O, s:O, s:o, s:o, s:o, s:o, s:o}", "phase", json_object_get(phase, "phase"), "run",
                            json_object_get(phase, "run"), "began_seconds", seconds_json(phase, "began_ns"),
                            "ended_seconds", seconds_json(phase, "ended_ns"), "progress", number_or_null(share),
                            "left_seconds", number_or_null(left), "left_behind", member_or_null(phase, "left_behind")));
    }
    return list;
}

/* While it runs, the job's id is only in its directory. */
static json_t *job_json(const json_t *run, const char *dir)
{
    struct job_info info = {0};
    json_t *id = member_or_null(run, "job");
    if (json_is_null(id) && job_info_read(dir, &info, NULL) == 0) {
        json_decref(id);
        id = json_string(info.id);
    }
    job_info_done(&info);
    return id;
}

static json_t *runs_json(const struct task *task)
{
    char dir[PATH_MAX];
    json_t *list = json_array(), *run;
    size_t i;
    json_array_foreach(json_object_get(task->state, "runs"), i, run)
    {
        task_run_dir(task, i + 1, dir);
        json_array_append_new(
            list,
            json_pack("{s:I, s:O, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "run", (json_int_t)i + 1,
                      "state", json_object_get(run, "state"), "job", job_json(run, dir), "directory", dir,
                      "began_seconds", seconds_json(run, "began_ns"), "ended_seconds", seconds_json(run, "ended_ns"),
                      "seconds", member_or_null(run, "seconds"), "exit_code", member_or_null(run, "exit_code"),
                      "signal", member_or_null(run, "signal"), "ranks", member_or_null(run, "ranks"), "ranks_counted",
                      member_or_null(run, "ranks_counted"), "ranks_traced", member_or_null(run, "ranks_traced"),
                      "untraced_processes", member_or_null(run, "untraced_processes")));
    }
    return list;
}

static json_t *command_json(const struct task *task)
{
    char files[PATH_MAX];
    _cleanup_(buf_done) struct buf command = BUF_INIT;
    snprintf(files, sizeof files, "%.*s/files", PATH_MAX - 8, task->dir);
    task_command(&command, task->spec, files);
    return text_json(command.data);
}

json_t *task_answer_one(const struct task_store *store, const char *id, struct err *err)
{
    struct task task;
    json_t *json = NULL;
    if (task_load(store, id, &task, err) == 0) {
        json = head_json(&task);
        json_object_set_new(json, "phases", phases_json(&task));
        json_object_set_new(json, "runs", runs_json(&task));
        json_object_set_new(json, "command", command_json(&task));
        json_object_set(json, "task", task.spec);
        if (!json)
            err_set(err, -ENOMEM, "out of memory");
    }
    task_done(&task);
    return json;
}

json_t *task_answer_head(const struct task_store *store, const char *id, struct err *err)
{
    struct task task;
    json_t *json = task_load(store, id, &task, err) == 0 ? head_json(&task) : NULL;
    task_done(&task);
    return json;
}

json_t *task_answer_list(const struct task_store *store, size_t limit, struct err *err)
{
    char **ids;
    size_t count, listed = 0;
    if (task_list(store, &ids, &count, err) < 0)
        return NULL;
    json_t *list = json_array();
    struct err unread = {0}, why;
    for (size_t i = count; i-- > 0 && (!limit || listed < limit);) {
        struct task task;
        int code = task_load(store, ids[i], &task, &why);
        if (code == 0) {
            json_array_append_new(list, head_json(&task));
            listed++;
        } else if (code != -ENOENT && unread.code == 0) {
            unread = why;
        }
        task_done(&task);
    }
    jobdir_list_free(ids, count);
    if (err)
        *err = unread;
    return json_pack("{s:o}", "tasks", list);
}

/* ---- scaling ---- */

static int by_width(const void *a, const void *b, void *by)
{
    json_int_t one = json_integer_value(json_object_get(*(json_t *const *)a, by));
    json_int_t other = json_integer_value(json_object_get(*(json_t *const *)b, by));
    return (one > other) - (one < other);
}

/* What the tasks are compared by: processes, or, where only these differ, threads. */
static const char *scaling_by(const json_t *tasks)
{
    const json_t *first = json_array_get(tasks, 0), *task;
    bool threads = false;
    size_t i;
    json_array_foreach(tasks, i, task)
    {
        if (!json_equal(json_object_get(task, "processes"), json_object_get(first, "processes")) ||
            !json_is_integer(json_object_get(task, "threads")))
            return "processes";
        threads |= !json_equal(json_object_get(task, "threads"), json_object_get(first, "threads"));
    }
    return threads ? "threads" : "processes";
}

/* Of OpenMP, as its environment has it; "4,2" is for teams within teams. */
static json_t *threads_json(const struct task *task)
{
    const char *text =
        json_string_value(json_object_get(json_object_get(task->spec, "environment"), "OMP_NUM_THREADS"));
    char *end;
    long threads = text ? strtol(text, &end, 10) : 0;
    return threads > 0 && (!*end || *end == ',') ? json_integer(threads) : json_null();
}

/* The mean of the runs that ended well, where all of them have it; < 0: they have not. */
static double mean_of_runs(const json_t *runs, const char *member)
{
    double sum = 0;
    size_t count = 0, i;
    json_t *run;
    json_array_foreach(runs, i, run)
    {
        const json_t *value = json_object_get(run, member);
        if (!ended_well(run))
            continue;
        if (!json_is_number(value))
            return -1;
        sum += json_number_value(value);
        count++;
    }
    return count ? sum / (double)count : -1;
}

static bool was_shared(const json_t *runs)
{
    size_t i;
    json_t *run;
    json_array_foreach(runs, i, run)
    {
        if (ended_well(run) && json_is_true(json_object_get(run, "node_shared")))
            return true;
    }
    return false;
}

/* Where all of its processes were on one node: what that has. */
static json_t *processors_json(const struct task *task, const json_t *runs)
{
    bool one = strcmp(task_text(task->spec, "launch.by"), "slurm") != 0 &&
               json_array_size(task_member(task->spec, "launch.hosts")) <= 1;
    double processors = one ? mean_of_runs(runs, "processors") : -1;
    return processors >= 1 ? json_integer((json_int_t)processors) : json_null();
}

static void add_scaling(json_t *list, const struct task *task)
{
    const json_t *runs = json_object_get(task->state, "runs");
    struct task_took took = task_took(runs);
    json_array_append_new(
        list,
        json_pack("{s:s, s:O, s:O, s:o, s:I, s:o, s:o, s:o, s:n, s:n, s:o, s:o, s:b, s:o, s:O?}", "id", task->id,
                  "name", task_member(task->spec, "name"), "processes", task_member(task->spec, "processes"), "threads",
                  threads_json(task), "runs", (json_int_t)took.runs, "seconds", number_or_null(took.median),
                  "least_seconds", number_or_null(took.least), "most_seconds", number_or_null(took.most), "speedup",
                  "efficiency", "mpi_share", number_or_null(mean_of_runs(runs, "mpi_share")), "uneven_share",
                  number_or_null(mean_of_runs(runs, "uneven_share")), "node_shared", was_shared(runs), "processors",
                  processors_json(task, runs), "error", json_object_get(task->state, "error")));
}

static int add_series(const struct task_store *store, json_t *list, const char *series, struct err *err)
{
    char **ids;
    size_t count;
    int code = task_list(store, &ids, &count, err);
    for (size_t i = 0; code == 0 && i < count; i++) {
        struct task task;
        const char *its = task_load(store, ids[i], &task, NULL) == 0 ? task_text(task.spec, "series") : NULL;
        if (its && strcmp(its, series) == 0)
            add_scaling(list, &task);
        task_done(&task);
    }
    if (code == 0)
        jobdir_list_free(ids, count);
    return code;
}

/* Sorted, with speed-up and efficiency. -EINVAL: there is nothing to compare. */
static int scaling_compare(json_t **list)
{
    size_t count = json_array_size(*list), i;
    json_t *sorted = json_array(), *task, *base = NULL, **all = calloc(count + 1, sizeof *all);
    json_array_foreach(*list, i, task) if (all) all[i] = task;
    const char *by = scaling_by(*list);
    if (all)
        qsort_r(all, count, sizeof *all, by_width, (void *)by);
    for (i = 0; all && i < count; i++) {
        json_t *seconds = json_object_get(all[i], "seconds");
        json_array_append(sorted, all[i]);
        if (!json_is_number(seconds) || json_number_value(seconds) <= 0)
            continue;
        base = base ? base : all[i];
        double speedup = json_number_value(json_object_get(base, "seconds")) / json_number_value(seconds);
        double more = json_number_value(json_object_get(all[i], by)) / json_number_value(json_object_get(base, by));
        json_object_set_new(all[i], "speedup", json_real(speedup));
        json_object_set_new(all[i], "efficiency", json_real(speedup / more));
    }
    free(all);
    json_decref(*list);
    *list = sorted;
    return base ? 0 : -EINVAL;
}

static double number_of(const json_t *task, const char *member)
{
    return json_number_value(json_object_get(task, member));
}

/* Up to which number of processes each of them does at least SCALES_LEAST of what one did at first, and what more of them bring. */
static void put_scales(struct buf *out, const char *by, const json_t *base, const json_t *good, const json_t *most)
{
    static const double ALIKE = 1.05; /* closer than runs of one program are to each other */
    double first = number_of(base, by), last = number_of(most, by), speedup = number_of(most, "speedup"),
           efficiency = 100 * number_of(most, "efficiency");
    if (good == most)
        buf_printf(out, "it scales to %.0f %s: %.1f times as fast as with %.0f, efficiency %.0f %%", last, by, speedup,
                   first, efficiency);
    else if (good != base && speedup < number_of(good, "speedup"))
        buf_printf(out, "it scales to %.0f %s, efficiency %.0f %%; with %.0f it is slower than with these",
                   number_of(good, by), by, 100 * number_of(good, "efficiency"), last);
    else if (good != base)
        buf_printf(out,
                   "it scales to %.0f %s, efficiency %.0f %%; with %.0f it is %.1f times as fast as with %.0f, "
                   "efficiency %.0f %%",
                   number_of(good, by), by, 100 * number_of(good, "efficiency"), last, speedup, first, efficiency);
    else if (speedup > 1 / ALIKE && speedup < ALIKE)
        buf_printf(out, "more %s change nothing: with %.0f it takes as long as with %.0f", by, last, first);
    else if (speedup < 1)
        buf_printf(out, "more %s make it slower: with %.0f it takes %.1f times as long as with %.0f", by, last,
                   1 / speedup, first);
    else
        buf_printf(out, "more %s help little: with %.0f it is %.1f times as fast as with %.0f, efficiency %.0f %%", by,
                   last, speedup, first, efficiency);
}

/* What keeps the most processes from doing more, where their runs say it: MPI, where that takes a larger share of their time than of the
 * fewest's. */
static void put_limit(struct buf *out, const char *by, const json_t *base, const json_t *most)
{
    static const double MUCH = 0.1;
    double in_mpi = number_of(most, "mpi_share"), uneven = number_of(most, "uneven_share"), last = number_of(most, by),
           more = in_mpi - number_of(base, "mpi_share");
    if (more >= MUCH && uneven - number_of(base, "uneven_share") >= more / 2)
        buf_printf(out, "; with %.0f the ranks wait %.0f %% of their time for the one that computes longest", last,
                   100 * uneven);
    else if (more >= MUCH)
        buf_printf(out, "; with %.0f the ranks are in MPI for %.0f %% of their time", last, 100 * in_mpi);
}

static bool has_failed(const json_t *task)
{
    return json_is_object(json_object_get(task, "error"));
}

static double processors_needed(const json_t *task)
{
    double threads = number_of(task, "threads");
    return number_of(task, "processes") * (threads > 1 ? threads : 1);
}

/* It took longer because more of it ran than the node has processors, however well it scales. */
static bool is_crowded(const json_t *task)
{
    double processors = number_of(task, "processors");
    return json_is_number(json_object_get(task, "speedup")) && processors > 0 && processors_needed(task) > processors;
}

static bool is_shared(const json_t *task)
{
    return json_is_number(json_object_get(task, "speedup")) && json_is_true(json_object_get(task, "node_shared")) &&
           !is_crowded(task);
}

/* "1, 2 and 4 processes", of those of which it holds. Returns the first of them; NULL, and appends nothing: there is none. */
static const json_t *put_widths(struct buf *out, const json_t *tasks, const char *by, bool (*holds)(const json_t *))
{
    const json_t *first = NULL, *task;
    size_t left = 0, i;
    json_array_foreach(tasks, i, task) left += holds(task);
    json_array_foreach(tasks, i, task)
    {
        if (!holds(task))
            continue;
        left--;
        buf_printf(out, "%s%.0f", !first ? "" : left ? ", " : " and ", number_of(task, by));
        if (!left)
            buf_printf(out, " %s",
                       first || number_of(task, by) != 1 ? by
                       : strcmp(by, "processes") == 0    ? "process"
                                                         : "thread");
        first = first ? first : task;
    }
    return first;
}

/* Those that failed, and why the first of them did. */
static void put_failed(struct buf *out, const char *by, const json_t *tasks)
{
    _cleanup_(buf_done) struct buf widths = BUF_INIT;
    const json_t *first = put_widths(&widths, tasks, by, has_failed);
    const char *why = json_string_value(json_object_get(json_object_get(first, "error"), "text"));
    if (first)
        buf_printf(out, "with %s it failed: %s", widths.data ? widths.data : "?", why ? why : "nobody knows why");
}

/* Others had processors of the node: these figures are of both. */
static bool put_shared(struct buf *out, const char *by, const json_t *tasks)
{
    _cleanup_(buf_done) struct buf widths = BUF_INIT;
    bool any = put_widths(&widths, tasks, by, is_shared) != NULL;
    if (any)
        buf_printf(out, "%sthe node was shared, so the figures say little: others had processors of it in runs with %s",
                   out->len ? "; " : "", widths.data ? widths.data : "?");
    return any;
}

/* Its runs took such different times that something slowed some of them. */
static bool differs(const json_t *task)
{
    static const double MUCH = 1.5;
    return json_is_number(json_object_get(task, "speedup")) && !is_crowded(task) &&
           number_of(task, "most_seconds") > MUCH * number_of(task, "least_seconds");
}

/* Of three and more the median holds all the same. Returns whether there are fewer of one that differ. */
static bool put_differing(struct buf *out, const char *by, const json_t *tasks)
{
    enum { ENOUGH = 3 };
    _cleanup_(buf_done) struct buf widths = BUF_INIT;
    const json_t *first = put_widths(&widths, tasks, by, differs), *task;
    bool few = false;
    size_t i;
    if (!first)
        return false;
    json_array_foreach(tasks, i, task) few |= differs(task) && number_of(task, "runs") < ENOUGH;
    buf_printf(out, "%sruns with %s differ much, with %.0f from %.1f to %.1f s%s", out->len ? "; " : "",
               widths.data ? widths.data : "?", number_of(first, by), number_of(first, "least_seconds"),
               number_of(first, "most_seconds"),
               few ? ", so the figures say little: run each three times or more, on a node of its own"
                   : ", of which the median is compared");
    return few;
}

static void put_crowded(struct buf *out, const char *by, const json_t *tasks)
{
    _cleanup_(buf_done) struct buf widths = BUF_INIT;
    const json_t *first = put_widths(&widths, tasks, by, is_crowded);
    if (first)
        buf_printf(out, "%s%s%s are more than the node's %.0f processor%s, which they share", out->len ? "; " : "",
                   widths.data ? widths.data : "?",
                   processors_needed(first) > number_of(first, by) ? ", with their threads," : "",
                   number_of(first, "processors"), number_of(first, "processors") == 1 ? "" : "s");
}

/* Of short runs the start is most. */
static bool put_short(struct buf *out, const char *by, const json_t *base)
{
    static const double LEAST = 3; /* seconds */
    const json_t *seconds = json_object_get(base, "seconds");
    bool is_short = json_is_number(seconds) && json_number_value(seconds) < LEAST;
    if (is_short)
        buf_printf(out, "%sthe runs are too short to judge by: %.1f s with the fewest %s, and %.0f s are the least",
                   out->len ? "; " : "", json_number_value(seconds), by, LEAST);
    return is_short;
}

json_t *task_scaling_verdict(const json_t *tasks)
{
    static const double SCALES_LEAST = 0.7, ENOUGH = 0.9;
    const char *by = scaling_by(tasks);
    const json_t *base = NULL, *good = NULL, *most = NULL, *task;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    bool falls = false;
    size_t i;
    json_array_foreach(tasks, i, task)
    {
        if (!json_is_number(json_object_get(task, "speedup")) || is_crowded(task))
            continue;
        base = base ? base : task;
        most = task;
        falls |= number_of(task, "efficiency") < SCALES_LEAST;
        good = falls ? good : task;
    }
    put_failed(&text, by, tasks);
    put_crowded(&text, by, tasks);
    if (base && number_of(most, by) > number_of(base, by)) {
        /* else each does about as much as one did, if that was alone */
        bool less = number_of(most, "efficiency") < ENOUGH;
        bool is_short = put_short(&text, by, base);
        bool shared = (less || is_shared(base)) && put_shared(&text, by, tasks);
        if (!is_short && !shared && !put_differing(&text, by, tasks)) {
            buf_puts(&text, text.len ? "; " : "");
            put_scales(&text, by, base, good, most);
            if (less)
                put_limit(&text, by, base, most);
        }
    }
    return text.len ? text_json(text.data) : json_null();
}

json_t *task_answer_scaling(const struct task_store *store, const char *const *ids, size_t count, struct err *err)
{
    json_t *list = json_array();
    int code = 0;
    for (size_t i = 0; code == 0 && i < count; i++) {
        struct task task;
        code = task_load(store, ids[i], &task, err);
        const char *series = code == 0 && count == 1 ? task_text(task.spec, "series") : NULL;
        if (series)
            code = add_series(store, list, series, err);
        else if (code == 0)
            add_scaling(list, &task);
        task_done(&task);
    }
    if (code == 0 && scaling_compare(&list) < 0)
        code = err_set(err, -EINVAL,
                       "none of these tasks has a run that ended well: wait for them, or see scry task show");
    if (code == 0)
        return json_pack("{s:o, s:s, s:o}", "verdict", task_scaling_verdict(list), "by", scaling_by(list), "tasks",
                         list);
    json_decref(list);
    return NULL;
}

int task_last_run(const struct task_store *store, const char *id, char ret_path[PATH_MAX], struct err *err)
{
    struct task task;
    int code = task_load(store, id, &task, err);
    json_t *runs = json_object_get(task.state, "runs");
    size_t count = json_array_size(runs), found = count;
    for (size_t i = count; i-- > 0 && found == count;)
        if (ended_well(json_array_get(runs, i)))
            found = i;
    if (code == 0 && !count)
        code = err_set(err, -ENOENT, "task %s has not run yet", id);
    if (code == 0)
        task_run_dir(&task, found < count ? found + 1 : count, ret_path);
    task_done(&task);
    return code;
}
