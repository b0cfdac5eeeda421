/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/layers/culprit.h"

#include <ctype.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/data/number.h"
#include "jobdir/layers/starter.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"

static const double CLEANUP_SECONDS =
    30; /* within that a script begins to clean up what failed with the status of many things */

bool culprit_has_failed(const struct job_process *process)
{
    return process->status != JOB_STATUS_UNKNOWN && process->status != 0;
}

int culprit_status(const struct job_process *process)
{
    return starter_shell_status(process->status);
}

/* Numbers may be given again. */
static bool is_child(const struct job_process *process, const struct job_process *parent)
{
    return process != parent && process->ppid == parent->pid && process->start >= parent->start - SEEN_SECONDS &&
           process->start <= parent->end + SEEN_SECONDS;
}

/* Of the children that began before `before`. */
static double last_start(const struct job_model *model, const struct job_process *parent, double before)
{
    double last = -1;
    for (size_t i = 0; i < model->ended_count; i++)
        if (is_child(&model->ended[i], parent) && model->ended[i].start > last && model->ended[i].start < before)
            last = model->ended[i].start;
    for (const struct job_process *process = model->alive; process; process = process->hh.next)
        if (is_child(process, parent) && process->start > last && process->start < before)
            last = process->start;
    return last;
}

/* What others are ended by because somebody wants them to end, or does not read on. */
static bool is_effect(const struct job_process *process)
{
    int signo = job_status_signal(process->status);
    return signo == SIGTERM || signo == SIGHUP || signo == SIGINT || signo == SIGPIPE;
}

/* It ended what it had started, as that took too long: nothing below it failed by itself. */
static bool has_timed_out(const struct job_process *process)
{
    struct starter_timeout timeout;
    return starter_timed_out(process->name, process->argv, process->end - process->start, process->status, &timeout);
}

/* The kernel has ended something for lack of memory, of the job or of others on its node. */
static bool was_short_of_memory(const struct job_model *model)
{
    size_t index;
    json_t *warning;
    json_array_foreach(model->warnings.records, index, warning)
    {
        if (note_json_kind(warning) == NOTE_out_of_memory)
            return true;
    }
    return model->layers.oom_kills > 0;
}

/* "SIGKILL", "signal 9" or "-9", as exit statuses are in Python; or that it is gone at all. */
bool culprit_mentions_end(const char *text, int signo)
{
    static const char *const gone[] = {"BrokenProcessPool", "terminated abruptly", "TerminatedWorkerError",
                                       "WorkerLostError"};
    static const char *const numbers[] = {"signal ", "-"};
    const char *name = sigabbrev_np(signo);
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        if (strstr(text, gone[i]))
            return true;
    for (const char *at = text; name && (at = strstr(at, "SIG")) != NULL; at += strlen("SIG"))
        if (strncmp(at + strlen("SIG"), name, strlen(name)) == 0)
            return true;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (const char *at = text; (at = strstr(at, numbers[i])) != NULL;) {
            char *end;
            bool begins = at == text || !isalnum((unsigned char)at[-1]);
            at += strlen(numbers[i]);
            if (begins && isdigit((unsigned char)*at) && strtol(at, &end, 10) == signo && *end != '.')
                return true;
        }
    return false;
}

/* Whether the parent of a process that a signal has ended, which lived on, says itself that this is why it failed, as with an exception
 * of a pool whose worker is gone: then it has not sent it. */
static bool culprit_was_told(const struct job_model *model, const struct job_process *process,
                             const struct job_process *parent)
{
    static const double LATE = 1; /* a line is read so long after it was written, at most */
    const struct layer_list *lists[] = {&model->layers.errors, &model->layers.uncaught};
    size_t index;
    json_t *record;
    for (size_t i = 0; i < 2 && WIFSIGNALED(process->status); i++)
        json_array_foreach(lists[i]->records, index, record)
        {
            const char *text = member_string(record, i ? "message" : "text");
            const char *name = i ? member_string(record, "name") : NULL;
            double seconds = record_seconds(record);
            if (seconds >= process->end - SEEN_SECONDS && seconds <= parent->end + LATE &&
                ((text && culprit_mentions_end(text, WTERMSIG(process->status))) ||
                 (name && culprit_mentions_end(name, WTERMSIG(process->status)))))
                return true;
        }
    return false;
}

/* Ended by its parent, as far as is known: that had an end of its own. */
static bool is_of_parent(const struct job_process *process, const struct job_process *parent)
{
    int signo = job_status_signal(process->status);
    return (signo == SIGTERM || signo == SIGINT || signo == SIGHUP || signo == SIGKILL) &&
           starter_lived_on(parent->name, parent->argv, parent->status, signo);
}

/* Ended by what is no failure of its parent's: others do not read on, which a shell minds with pipefail only, and then has that status;
 * or the parent was killed itself, by another signal. */
static bool is_harmless(const struct job_process *process, const struct job_process *parent)
{
    if (!is_effect(process))
        return false;
    int signo = WTERMSIG(process->status);
    return WIFSIGNALED(parent->status) ? WTERMSIG(parent->status) != signo
                                       : signo == SIGPIPE && starter_is_shell(parent->name, parent->argv) &&
                                             culprit_status(parent) != culprit_status(process);
}

bool culprit_is_lookup(const char *name)
{
    static const char *const names[] = {"readlink", "which", "pidof", "pgrep", "getent", "pkg-config", NULL};
    return text_is_one(name, names);
}

bool culprit_is_answer(const struct job_process *process)
{
    static const char *const names[] = {"grep", "egrep", "fgrep", "zgrep", "test", "[", "diff", "cmp", "expr", NULL};
    return (culprit_is_lookup(process->name) || text_is_one(process->name, names)) && culprit_status(process) == 1;
}

/* A shell that has recorded all of its commands that failed, and none that ended it. */
static bool left_by_itself(const struct job_model *model, const struct job_process *shell)
{
    const struct layer_place *place = layers_place(&model->layers, shell->pid);
    const char *how = member_string(place ? place->line : NULL, "how");
    size_t index;
    json_t *record;
    if (!how || strcmp(how, "inside") != 0)
        return false;
    json_array_foreach(model->layers.failures.records, index, record)
    {
        if (json_integer_value(json_object_get(record, "pid")) == shell->pid &&
            json_integer_value(json_object_get(record, "status")) == culprit_status(shell))
            return false;
    }
    return true;
}

/* A shell that has asked, and went on to an end of its own: it has another status, is known to have failed at no command, or has said
 * something since. */
static bool was_answered(const struct job_model *model, const struct job_process *process,
                         const struct job_process *shell)
{
    const json_t *said = model->layers.last_lines;
    const char *file = member_string(said, "file");
    double quiet = json_number_value(json_object_get(said, "quiet_seconds")), at = record_seconds(said) - quiet;
    if (!culprit_is_answer(process) || !starter_is_shell(shell->name, shell->argv))
        return false;
    bool spoke = said && quiet >= 0 && file && strcmp(file, "stderr") == 0 && at > process->end + SEEN_SECONDS &&
                 at <= shell->end + SEEN_SECONDS;
    return culprit_status(shell) != culprit_status(process) || spoke || left_by_itself(model, shell);
}

/* A launcher's daemon on this node that ended well although what it had started failed, of several that of the first which did;
 * NULL: there is none. */
static const struct job_process *silent_daemon(const struct job_model *model, const struct job_process *launcher)
{
    const struct job_process *found = NULL, *first = NULL;
    for (size_t i = 0; starter_of(launcher->name) == STARTER_LAUNCHER && i < model->ended_count; i++) {
        const struct job_process *process = &model->ended[i];
        if (process->status || starter_of(process->name) != STARTER_DAEMON || !is_child(process, launcher))
            continue;
        const struct job_process *failed = culprit_of(model, process);
        if (failed && (!first || failed->end < first->end)) {
            first = failed;
            found = process;
        }
    }
    return found;
}

bool culprit_is_utility(const char *name)
{
    static const char *const names[] = {"rm",    "rmdir",  "mv",     "cp",    "ln",         "ls",    "mkdir",
                                        "touch", "chmod",  "chown",  "find",  "tar",        "zip",   "gzip",
                                        "xz",    "bzip2",  "zstd",   "pigz",  "scp",        "rsync", "kill",
                                        "ps",    "unlink", "umount", "pkill", "fusermount", NULL};
    return text_is_one(name, names);
}

/* Whether a shell failed because of `same`, which has its status, rather than of `first`, which came later and has not: what a trap
 * of its exit starts does not change its status. 1 and 2 are what many things have, and `program || exit 1` has them, too. */
static bool is_before_cleanup(const struct job_process *shell, const struct job_process *same,
                              const struct job_process *first)
{
    enum { STATUS_OF_MANY = 2 };
    if (!starter_is_shell(shell->name, shell->argv) || culprit_status(first) == culprit_status(shell) ||
        culprit_is_answer(same) ||
        (first->start < same->end && first->end < same->end)) /* beside it, as in a pipeline */
        return false;
    return culprit_status(shell) > STATUS_OF_MANY ||
           (WIFEXITED(first->status) && culprit_is_utility(first->name) && first->start <= same->end + CLEANUP_SECONDS);
}

/* ---- what a shell starts in the traps of its exit and of its errors ---- */

static bool is_named(const json_t *names, const struct job_process *process)
{
    size_t index;
    const json_t *each;
    const char *program = json_string_value(json_array_get(process->argv, 0));
    json_array_foreach(names, index, each)
    {
        const char *name = json_string_value(each);
        if (name && (strcmp(name, process->name) == 0 || (program && strcmp(name, text_base(program)) == 0)))
            return true;
    }
    return false;
}

/* Any of the names; `missing`: whether one is a child's of none. */
static bool is_of_trap(const json_t *commands, const struct job_process *process, const struct job_process *shell,
                       bool missing)
{
    int status = process->status != JOB_STATUS_UNKNOWN ? culprit_status(process) : 0;
    return is_named(commands, process) || (missing && (status == SHELL_NOT_FOUND || status == SHELL_NOT_EXECUTABLE) &&
                                           strcmp(process->name, shell->name) == 0 &&
                                           json_equal(process->argv, shell->argv)); /* a fork that executed nothing */
}

/* A program in the traps that nothing of that name was started for: perhaps it was not found. */
static bool has_missing(const struct job_model *model, const struct job_process *shell, const json_t *commands)
{
    size_t index;
    json_t *command;
    json_array_foreach(commands, index, command)
    {
        bool started = false;
        for (size_t i = 0; i < model->ended_count && !started; i++)
            started = is_child(&model->ended[i], shell) &&
                      strcmp(model->ended[i].name, json_string_value(command) ? json_string_value(command) : "") == 0;
        if (!started)
            return true;
    }
    return false;
}

double culprit_trap_start(const struct job_model *model, const struct job_process *shell)
{
    const struct layer_place *place = layers_place(&model->layers, shell->pid);
    const json_t *commands = place ? place->trap : NULL;
    double other = -1, first = INFINITY;
    if (!commands)
        return INFINITY;
    bool missing = has_missing(model, shell, commands);
    for (size_t i = 0; i < model->ended_count; i++)
        if (is_child(&model->ended[i], shell) && !is_of_trap(commands, &model->ended[i], shell, missing))
            other = number_max(other, model->ended[i].start);
    for (size_t i = 0; i < model->ended_count; i++)
        if (is_child(&model->ended[i], shell) && model->ended[i].start > other)
            first = number_min(first, model->ended[i].start);
    return first;
}

/* xargs(1) starts others after one has failed, and says in the end that one had. */
static bool has_gone_on(const struct job_process *parent)
{
    enum { SOME_FAILED = 123, ONE_KILLED = 125 };
    int status = culprit_status(parent);
    return strcmp(parent->name, "xargs") == 0 && status >= SOME_FAILED && status <= ONE_KILLED;
}

/* The child that made it fail of those that began before `before`, or NULL. */
static const struct job_process *culprit_before(const struct job_model *model, const struct job_process *parent,
                                                double before)
{
    const struct job_process *first = NULL, *same = NULL;
    double started = has_gone_on(parent) ? -1 : last_start(model, parent, before);
    bool by_kernel = was_short_of_memory(model);
    for (size_t i = 0; i < model->ended_count; i++) {
        const struct job_process *process = &model->ended[i];
        if (!culprit_has_failed(process) || !is_child(process, parent) || process->start >= before ||
            process->end > parent->end + SEEN_SECONDS ||
            (!by_kernel && is_of_parent(process, parent) && !culprit_was_told(model, process, parent)) ||
            is_harmless(process, parent) || was_answered(model, process, parent))
            continue;
        bool earlier =
            !first || (is_effect(process) == is_effect(first) ? process->end < first->end : is_effect(first));
        if (process->end >= started && earlier)
            first = process;
        if (culprit_status(process) == culprit_status(parent) && (!same || process->end > same->end))
            same = process;
    }
    if (first && same)
        return is_before_cleanup(parent, same, first) ? same : first;
    return first ? first : same ? same : silent_daemon(model, parent);
}

/* A trap began when what failed had ended; it fails the shell itself only with its own status. So does what began it: of a program that
 * only traps start it is sure where nothing else failed. */
const struct job_process *culprit_of(const struct job_model *model, const struct job_process *parent)
{
    if (has_timed_out(parent))
        return NULL;
    double trap = culprit_trap_start(model, parent);
    const struct job_process *found = culprit_before(model, parent, trap);
    if (found || isinf(trap))
        return found;
    found = culprit_before(model, parent, INFINITY);
    const struct layer_place *place = layers_place(&model->layers, parent->pid);
    bool only = found && is_named(place ? place->trap_only : NULL, found);
    return found && culprit_status(found) == culprit_status(parent) && (!only || left_by_itself(model, parent)) ? found
                                                                                                                : NULL;
}

/* ---- in a job that ended well ---- */

/* Whether its words begin with these, which may have blanks; the first may be a script's, which an interpreter executes. */
static bool has_words(const struct job_process *process, const char *words)
{
    enum { INTERPRETERS = 2 }; /* also its option, or env */
    size_t count = json_array_size(process->argv), len;
    for (size_t first = 0; first <= INTERPRETERS && first < count; first++) {
        const char *at = words;
        size_t i = first;
        for (; *at && i < count; i++, at += at[len] ? len + 1 : len) {
            const char *word = json_string_value(json_array_get(process->argv, i));
            len = strcspn(at, " ");
            const char *base = memrchr(at, '/', len);
            if (word && i > first && strlen(word) > len)
                len = strnlen(at, strlen(word));
            bool same = word && strlen(word) == len && strncmp(word, at, len) == 0 && (!at[len] || at[len] == ' ');
            base = base ? base + 1 : at;
            same |= word && i == first && strlen(text_base(word)) == (size_t)(at + len - base) &&
                    strncmp(text_base(word), base, (size_t)(at + len - base)) == 0;
            if (!same)
                break;
        }
        if (!*at && i > first)
            return true;
    }
    return false;
}

/* Whether its words begin with those of one of these commands. */
static bool is_command_of(const json_t *commands, const struct job_process *process)
{
    size_t index;
    json_t *command;
    json_array_foreach(commands, index, command)
    {
        const char *words = json_string_value(command);
        if (words && *words && has_words(process, words))
            return true;
    }
    return false;
}

/* A fork of its shell, as of "( a; b ) | c", that started something itself: of that the text says nothing. */
static bool is_subshell(const struct job_model *model, const struct job_process *process)
{
    bool fork = false, started = false;
    for (size_t i = 0; i < model->ended_count; i++) {
        const struct job_process *other = &model->ended[i];
        fork |= is_child(process, other) && json_equal(process->argv, other->argv);
        started |= is_child(other, process);
    }
    return fork && started && starter_is_shell(process->name, process->argv);
}

/* Where it ended before the others began, they ran beside each other, or the shell cannot have waited for it. */
bool culprit_is_stage(const struct job_model *model, const struct job_process *process)
{
    static const double NO_WAIT = 0.0003;
    const struct job_process *shell = NULL;
    bool beside = false;
    unsigned late = 0;
    double last_start = 0, first_end = INFINITY; /* of those that were late */
    const struct layer_place *place = layers_place(&model->layers, process->ppid);
    if (place && place->piped && !is_command_of(place->piped, process) && !is_subshell(model, process))
        return false; /* by the script's text: two that follow each other at once look like a pipeline */
    for (size_t i = 0; i < model->ended_count; i++) {
        const struct job_process *other = &model->ended[i];
        shell = other->pid == process->ppid ? other : shell;
        if (other == process || other->ppid != process->ppid || other->start < process->start ||
            other->start > process->start + SEEN_SECONDS)
            continue;
        if (other->start > process->end + NO_WAIT) {
            late++;
            last_start = number_max(last_start, other->start);
            first_end = number_min(first_end, other->end);
            continue;
        }
        if (other->end < process->end)
            return false;
        beside = true;
    }
    beside |= late > 1 && last_start < first_end;
    return beside && shell && !shell->status && starter_is_shell(shell->name, shell->argv);
}

bool culprit_is_unread(const struct job_model *model, const struct job_process *process)
{
    const struct job_process *shell = NULL;
    bool left = false;
    const struct layer_place *place = layers_place(&model->layers, process->ppid);
    if (place && place->piped && !is_command_of(place->piped, process))
        return false;
    for (size_t i = 0; i < model->ended_count; i++) {
        const struct job_process *other = &model->ended[i];
        shell = other->pid == process->ppid ? other : shell;
        bool beside = other != process && other->ppid == process->ppid && other->start >= process->start &&
                      other->start <= process->start + SEEN_SECONDS && other->start <= process->end;
        left |= beside && other->end <= process->end && !other->status;
    }
    return left && shell && starter_is_shell(shell->name, shell->argv);
}

bool culprit_has_tee(const struct job_model *model, pid_t pid)
{
    const struct job_process *process = job_model_ended(model, pid);
    for (size_t i = 0; process && i < model->ended_count; i++) {
        const struct job_process *other = &model->ended[i];
        if (other->ppid == process->ppid && strcmp(other->name, "tee") == 0 && other->start <= process->end &&
            other->start <= process->start + SEEN_SECONDS && other->end >= process->end)
            return true;
    }
    return false;
}

/* Whether the shell tells of its commands, and of none that failed when this one did. */
static bool was_condition(const struct job_model *model, const struct job_process *process,
                          const struct job_process *shell)
{
    static const double LATE = 1; /* so long after it its shell has noticed at the latest */
    const struct layer_place *place = layers_place(&model->layers, shell->pid);
    const struct layer_list *failures = &model->layers.failures;
    const char *how = member_string(place ? place->line : NULL, "how");
    size_t index;
    json_t *record;
    if (!how || strcmp(how, "inside") != 0 || failures->total > json_array_size(failures->records))
        return false;
    json_array_foreach(failures->records, index, record)
    {
        double after = record_seconds(record) - process->end;
        if (json_integer_value(json_object_get(record, "pid")) == shell->pid && after >= -SEEN_SECONDS && after <= LATE)
            return false;
    }
    return true;
}

bool culprit_was_tested(const struct job_model *model, const struct job_process *process, pid_t shell)
{
    const struct layer_place *place = layers_place(&model->layers, shell);
    return is_command_of(place ? place->tested : NULL, process);
}

/* Of a crash: it is not only that something else is done then. */
static bool was_expected(const struct job_model *model, const struct job_process *process,
                         const struct job_process *shell)
{
    const struct layer_place *place = layers_place(&model->layers, shell->pid);
    return !shell->status && is_command_of(place ? place->conditions : NULL, process);
}

/* Whether a shell started it in a trap, by its text. */
static bool was_cleanup(const struct job_model *model, const struct job_process *process,
                        const struct job_process *shell)
{
    const struct layer_place *place = layers_place(&model->layers, shell->pid);
    return place && place->trap && is_of_trap(place->trap, process, shell, has_missing(model, shell, place->trap)) &&
           (is_named(place->trap_only, process) || process->start >= culprit_trap_start(model, shell));
}

/* With the same words; `stage`: not only with the same script or command in front of others. */
static bool is_same_program(const struct job_process *one, const struct job_process *other, bool stage)
{
    const json_t *first = json_array_get(one->argv, 1);
    const char *word = json_string_value(first);
    bool same_first = word && *word != '-' && json_equal(first, json_array_get(other->argv, 1));
    return strcmp(one->name, other->name) == 0 && (json_equal(one->argv, other->argv) || (same_first && !stage));
}

static bool is_make(const struct job_process *process)
{
    return strcmp(process->name, "make") == 0 || strcmp(process->name, "gmake") == 0;
}

bool culprit_is_handled(const struct job_model *model, const struct job_process *process)
{
    enum { DEPTH_MOST = 16 };
    const struct job_process *command = process; /* what a fork of a shell has executed last, if it is one */
    for (int depth = 0; process && depth < DEPTH_MOST; depth++) {
        const struct job_process *parent = NULL;
        bool again = false, stage = culprit_is_stage(model, process);
        for (size_t i = 0; i < model->ended_count; i++) {
            const struct job_process *other = &model->ended[i];
            parent = other != process && is_child(process, other) ? other : parent;
            again |= other != process && other->ppid == process->ppid && other->start >= process->end - SEEN_SECONDS &&
                     !other->status && is_same_program(other, process, stage);
        }
        if (!parent || !WIFEXITED(process->status))
            return parent && was_expected(model, process, parent);
        bool fork = starter_is_shell(parent->name, parent->argv) && json_equal(parent->argv, process->argv);
        command = fork && process->status == command->status ? command : process;
        if (parent->status) {
            process = again ? NULL : parent; /* that has failed with it */
            continue;
        }
        int status = WEXITSTATUS(process->status);
        bool missing = status == SHELL_NOT_EXECUTABLE || status == SHELL_NOT_FOUND;
        return is_make(parent) || again || (!stage && !missing && was_condition(model, process, parent)) ||
               (!missing && culprit_was_tested(model, command, parent->pid)) || was_cleanup(model, process, parent);
    }
    return !process;
}
