/* SPDX-License-Identifier: Apache-2.0 */
#include "task/estimate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "jobdir/record/info.h"
#include "task/answer.h"
#include "task/spec.h"

static bool member_is(const json_t *object, const char *member, const char *value)
{
    const char *text = json_string_value(json_object_get(object, member));
    return text && strcmp(text, value) == 0;
}

static double seconds_of(const json_t *object, const char *member)
{
    return (double)json_integer_value(json_object_get(object, member)) / NS_PER_SECOND;
}

json_t *task_phase(const json_t *state)
{
    const json_t *phases = json_object_get(state, "phases");
    size_t count = json_array_size(phases);
    json_t *last = count ? json_array_get(phases, count - 1) : NULL;
    return last && json_is_null(json_object_get(last, "ended_ns")) ? last : NULL;
}

/* ---- what is expected ---- */

static int by_value(const void *a, const void *b)
{
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

struct task_took task_took(const json_t *runs)
{
    enum { LAST = 1000 };
    double values[LAST];
    size_t count = 0, i;
    json_t *run;
    json_array_foreach(runs, i, run) if (member_is(run, "state", "done") && count < LAST) values[count++] =
        json_number_value(json_object_get(run, "seconds"));
    qsort(values, count, sizeof *values, by_value);
    if (!count)
        return (struct task_took){-1, -1, -1, 0};
    double median = count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
    return (struct task_took){median, values[0], values[count - 1], count};
}

static const struct expectation {
    const char *phase, *same[9]; /* members that tasks have alike for which it takes as long */
} expectations[] = {
    {"build", {"build", "files", "directory", "environment"}},
    {"run", {"program", "arguments", "directory", "files", "processes", "launch", "environment", "collect"}},
};
enum { EXPECTATIONS = sizeof expectations / sizeof *expectations };

static bool is_alike(const struct expectation *of, const struct task *one, const struct task *other)
{
    for (const char *const *member = of->same; *member; member++)
        if (!json_equal(task_member(one->spec, *member), task_member(other->spec, *member)))
            return false;
    return true;
}

/* What it does not know yet, it takes over from the other one. */
static void take_over(json_t *expected, const struct task *task, const struct task *other)
{
    const json_t *its = json_object_get(other->state, "expected");
    for (const struct expectation *of = expectations; of < expectations + EXPECTATIONS; of++) {
        json_t *seconds = json_object_get(its, of->phase);
        if (seconds && !json_object_get(expected, of->phase) && is_alike(of, task, other))
            json_object_set(expected, of->phase, seconds);
    }
}

json_t *task_expect(const struct task_store *store, const char *id)
{
    enum { LOOKED_AT = 100 };
    struct task task, other;
    char **ids = NULL;
    size_t count = 0;
    json_t *expected = json_object();
    if (task_load(store, id, &task, NULL) == 0 && task_list(store, &ids, &count, NULL) == 0) {
        take_over(expected, &task, &task); /* it may have run before */
        for (size_t i = count, looked = 0;
             i-- > 0 && looked++ < LOOKED_AT && json_object_size(expected) < EXPECTATIONS;) {
            if (task_load(store, ids[i], &other, NULL) == 0)
                take_over(expected, &task, &other);
            task_done(&other);
        }
        jobdir_list_free(ids, count);
    }
    task_done(&task);
    return expected;
}

/* How long a phase lasts: by when its process began, if that is of this machine, for the time of day may be set. */
static double phase_seconds(const struct task *task, const json_t *phase)
{
    const json_t *runs = json_object_get(task->state, "runs"), *process = json_object_get(task->state, "step");
    if (member_is(phase, "phase", "run"))
        process = json_array_get(runs, json_array_size(runs) - 1);
    json_int_t ticks = json_integer_value(json_object_get(process, "ticks"));
    double seconds = (double)clock_wall_ns() / NS_PER_SECOND - seconds_of(phase, "began_ns");
    char boot[64];
    job_boot_id(boot, sizeof boot);
    if (ticks && *boot && member_is(process, "boot", boot))
        seconds = (double)clock_ns(CLOCK_BOOTTIME) / NS_PER_SECOND - (double)ticks / (double)sysconf(_SC_CLK_TCK);
    return seconds > 0 ? seconds : 0;
}

void task_note_took(struct task *task)
{
    const json_t *phase = task_phase(task->state), *runs = json_object_get(task->state, "runs");
    json_t *expected = json_object_get(task->state, "expected");
    double seconds = task_took(runs).median;
    if (!expected)
        json_object_set_new(task->state, "expected", expected = json_object());
    if (seconds > 0)
        json_object_set_new(expected, "run", json_real(seconds));
    seconds = phase_seconds(task, phase);
    /* what is built once more has less to do, and says nothing of the first time */
    if (member_is(phase, "phase", "build") && !json_array_size(runs) && seconds > 0)
        json_object_set_new(expected, "build", json_real(seconds));
}

/* ---- what is known of a phase ---- */

/* What the job itself said last of how far it is, from the end of its records: 0 to 1, or -1. */
static double share_of_job(const char *dir)
{
    enum { TAIL = 128 << 10 };
    char path[PATH_MAX + 32];
    double share = -1;
    snprintf(path, sizeof path, "%s/spool/records.jsonl", dir);
    _cleanup_(fclosep) FILE *file = file_open_plain(path);
    _cleanup_(freep) char *line = NULL;
    size_t size = 0;
    if (!file)
        return -1;
    if (fseek(file, -TAIL, SEEK_END) < 0)
        rewind(file);
    while (getline(&line, &size, file) > 0) {
        json_t *record = strstr(line, "\"progress\"") ? json_loads(line, 0, NULL) : NULL;
        double total = json_number_value(json_object_get(record, "total"));
        if (member_is(record, "type", "progress") && total > 0)
            share = json_number_value(json_object_get(record, "done")) / total;
        json_decref(record);
    }
    return share > 1 ? 1 : share < 0 ? -1 : share;
}

/* How long a run lasts. -1: a batch system has not begun it, or nobody here knows. */
static double run_seconds(const struct task *task, const json_t *phase, const char *dir)
{
    struct job_info info = {0};
    bool began = job_info_read(dir, &info, NULL) == 0 && info.started_ns;
    double seconds = began ? job_age_seconds(dir, &info, 0) : -1;
    job_info_done(&info);
    if (!began && strcmp(task_text(task->spec, "launch.by"), "slurm") != 0)
        seconds = phase_seconds(task, phase);
    return seconds;
}

/* The last line that dd wrote of what it has passed on. The end of the file is enough, but for the number that it begins with. */
static bool read_bytes(FILE *file, double *ret_bytes, double *ret_seconds)
{
    enum { TAIL = 1000 };
    static const char copied[] = " copied, ";
    char tail[TAIL + 1] = "", *last = NULL;
    if (fseek(file, -TAIL, SEEK_END) < 0)
        fseek(file, TASK_BYTES_DIGITS, SEEK_SET);
    tail[fread(tail, 1, TAIL, file)] = 0;
    for (char *at = tail; (at = strstr(at, copied)); at++)
        last = at;
    if (!last)
        return false;
    *ret_seconds = strtod(last + strlen(copied), NULL);
    while (last > tail && !strchr("\r\n", last[-1]))
        last--;
    *ret_bytes = strtod(last, NULL);
    return true;
}

/* Before the first bytes have come, it may be that the run there is still waited for. */
static void estimate_gather(const struct task *task, uint64_t run, double *ret_share, double *ret_left)
{
    char path[PATH_MAX + 64], digits[TASK_BYTES_DIGITS + 1] = "";
    struct stat st;
    double bytes = 0, seconds = 0;
    snprintf(path, sizeof path, "%s/" TASK_BYTES_FILE, task->dir, (unsigned long long)run);
    _cleanup_(fclosep) FILE *file = file_open_plain(path);
    if (!file || fstat(fileno(file), &st) < 0 || fread(digits, 1, TASK_BYTES_DIGITS, file) < TASK_BYTES_DIGITS)
        return;
    /* who is there writes them: if they are no digits, they are no number either */
    double total = digits[strspn(digits, "0123456789")] ? 0 : strtod(digits, NULL),
           now = (double)clock_wall_ns() / NS_PER_SECOND;
    if (total <= 0)
        return;
    if (read_bytes(file, &bytes, &seconds)) { /* dd is silent while nothing comes */
        double silent = now - (double)st.st_mtim.tv_sec - (double)st.st_mtim.tv_nsec / NS_PER_SECOND;
        seconds += silent > 0 ? silent : 0;
    }
    bytes = bytes < total ? bytes : total;
    *ret_share = bytes / total;
    if (bytes > 0 && seconds > 0)
        *ret_left = (total - bytes) / bytes * seconds;
}

void task_estimate(const struct task *task, const json_t *phase, double *ret_share, double *ret_left)
{
    char dir[PATH_MAX];
    uint64_t run = (uint64_t)json_integer_value(json_object_get(phase, "run"));
    const char *name = json_string_value(json_object_get(phase, "phase"));
    *ret_share = *ret_left = -1;
    if (!name || strcmp(name, "gather") == 0) {
        if (name)
            estimate_gather(task, run, ret_share, ret_left);
        return;
    }
    double spent;
    if (strcmp(name, "run") == 0) {
        task_run_dir(task, run, dir);
        spent = run_seconds(task, phase, dir);
        *ret_share = spent >= 0 ? share_of_job(dir) : -1;
    } else {
        spent = phase_seconds(task, phase);
    }
    double whole = *ret_share > 0 ? spent / *ret_share
                                  : json_number_value(json_object_get(json_object_get(task->state, "expected"), name));
    if (spent < 0 || whole <= 0)
        return;
    if (spent >= whole) /* what takes longer than the earlier one did may take ten times as long */
        return;
    *ret_left = whole - spent;
    if (*ret_share < 0)
        *ret_share = spent / whole;
}
