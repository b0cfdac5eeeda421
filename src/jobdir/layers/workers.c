/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/layers/workers.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "jobdir/layers/culprit.h"
#include "jobdir/layers/starter.h"
#include "jobdir/text/text.h"

enum { SHOWN = 3, TEXT_COLUMNS = 160, LOGS_MOST = 16 };
static const double SOON_SECONDS = 30; /* it takes some of them until it is known that a program stands still */

/* By a signal that is not what a parent ends its workers with, or with a status. */
static bool is_lost(const struct job_process *process)
{
    if (!culprit_has_failed(process))
        return false;
    int signo = WIFSIGNALED(process->status) ? WTERMSIG(process->status) : 0;
    return signo != SIGTERM && signo != SIGINT && signo != SIGHUP;
}

/* It executes the same, as after fork, and is no shell, whose subshells fail for a purpose. */
static bool is_worker(const struct job_process *process, const struct job_process *parent)
{
    return parent->pid == process->ppid && parent->start <= process->start &&
           strcmp(parent->name, process->name) == 0 && !starter_is_shell(parent->name, parent->argv) &&
           starter_of(parent->name) == STARTER_NONE;
}

static const struct job_process *parent_of(const struct job_model *model, const struct job_process *process,
                                           double seconds, bool lives)
{
    const struct job_process *parent;
    HASH_FIND(hh, model->alive, &process->ppid, sizeof process->ppid, parent);
    if (parent && is_worker(process, parent))
        return parent;
    for (size_t i = model->ended_count; i-- > 0 && !lives && model->ended[i].end >= seconds;)
        if (is_worker(process, &model->ended[i]))
            return &model->ended[i];
    return NULL;
}

static void put_end(struct buf *out, const struct job_process *process)
{
    char room[32];
    buf_printf(out, "pid %d, ", process->pid);
    if (WIFSIGNALED(process->status))
        buf_puts(out, text_signal(WTERMSIG(process->status), room, sizeof room));
    else
        buf_printf(out, "exit status %d", WEXITSTATUS(process->status));
    buf_printf(out, " at %.1f s", process->end);
}

bool workers_put_lost(struct buf *out, const struct job_model *model, double seconds, bool lives)
{
    const struct job_process *parent = NULL, *lost[SHOWN];
    size_t count = 0;
    for (size_t i = model->ended_count; i-- > 0;) {
        const struct job_process *process = &model->ended[i];
        if (process->end > seconds || !is_lost(process) ||
            (parent ? !is_worker(process, parent) : !(parent = parent_of(model, process, seconds, lives))))
            continue;
        if (count < SHOWN)
            lost[count] = process;
        count++;
    }
    if (!count)
        return false;
    text_show(out, parent->name);
    buf_printf(out, " (pid %d) %s lost ", parent->pid, lives ? "has" : "had");
    if (count == 1)
        buf_puts(out, "a worker: ");
    else
        buf_printf(out, "%zu workers: ", count);
    for (size_t i = count < SHOWN ? count : SHOWN; i-- > 0;) {
        put_end(out, lost[i]);
        buf_puts(out, !i ? "" : i == 1 && count <= SHOWN ? ", and " : ", ");
    }
    if (count > SHOWN)
        buf_printf(out, ", and %zu before", count - SHOWN);
    return true;
}

static const char *text_member(const json_t *record, const char *name)
{
    const char *text = json_string_value(json_object_get(record, name));
    return text ? text : "";
}

bool workers_put_exception(struct buf *out, const struct job_model *model, double seconds)
{
    const json_t *logs = model->layers.logs.records;
    size_t count = json_array_size(logs);
    const json_t *last = count ? json_array_get(logs, count - 1) : NULL;
    double at = json_number_value(json_object_get(last, "t"));
    const char *text = text_member(last, "text"), *place = "";
    if (strcmp(text_member(last, "pattern"), "exception") != 0 || strcmp(text_member(last, "level"), "error") != 0 ||
        !*text || (seconds >= 0 && (at > seconds || at < seconds - SOON_SECONDS)))
        return false;
    for (size_t i = count; i-- > 0 && count - i <= LOGS_MOST && !*place;) {
        const json_t *same = json_array_get(logs, i);
        place = strcmp(text_member(same, "text"), text) == 0 ? text_member(same, "place")
                                                             : ""; /* others of them said it, too */
    }
    buf_append(out, text, text_fit(text, strcspn(text, "\n"), TEXT_COLUMNS));
    if (*place)
        buf_printf(out, ", at %s", text_base(place));
    return true;
}
