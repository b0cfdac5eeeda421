/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/layers/cause.h"

#include <string.h>
#include <sys/wait.h>

#include "base/data/cleanup.h"
#include "base/data/number.h"
#include "jobdir/layers/cause_internal.h"
#include "jobdir/layers/culprit.h"
#include "jobdir/record/info.h"
#include "jobdir/text/text.h"

enum { TEXT_COLUMNS = 200 };
static const double NEAR_SECONDS = 30; /* before the end: what may still have to do with it */

/* ---- what rules share ---- */

void cause_add(struct cause *cause, const json_t *record)
{
    json_t *seq = json_object_get(record, "seq");
    if (seq)
        json_array_append(cause->evidence, seq);
}

void cause_cut(struct buf *out, const char *text)
{
    if (text)
        buf_append(out, text, text_fit(text, strcspn(text, "\n"), TEXT_COLUMNS));
}

void cause_end_sentence(struct buf *out)
{
    const char *last = out->len > 1 ? out->data + out->len - 1 : "";
    if (*last == ',' || (*last == '.' && last[-1] != '.'))
        out->data[--out->len] = '\0';
}

void cause_put_place(struct buf *out, const char *file, int64_t line)
{
    cause_cut(out, file ? text_base(file) : "?");
    if (line >= 0)
        buf_printf(out, ":%lld", (long long)line);
}

const char *cause_text(const struct buf *buf)
{
    return buf->data ? buf->data : "";
}

int cause_chain_status(const json_t *process)
{
    const json_t *code = json_object_get(process, "exit_code"), *signal = json_object_get(process, "signal");
    if (json_is_integer(code))
        return W_EXITCODE((int)json_integer_value(code), 0);
    return json_is_integer(signal) ? (int)json_integer_value(signal) : JOB_STATUS_UNKNOWN;
}

bool cause_is_near(const struct job_end *end, double seconds)
{
    return seconds >= end->seconds - NEAR_SECONDS;
}

int cause_chain_at(const struct job_end *end, pid_t pid)
{
    size_t index;
    json_t *process;
    json_array_foreach(end->chain, index, process)
    {
        if (json_integer_value(json_object_get(process, "pid")) == pid)
            return (int)index;
    }
    return -1;
}

double cause_chain_end(const struct job_end *end, int at)
{
    const json_t *seconds = json_object_get(json_array_get(end->chain, (size_t)at), "end_seconds");
    return seconds ? json_number_value(seconds) : end->seconds;
}

double cause_before_end(const struct job_end *end, pid_t pid, double seconds)
{
    const struct job_model *model = end->model;
    int at = cause_chain_at(end, pid);
    double ended = at >= 0 ? cause_chain_end(end, at) : seconds;
    /* they stand about in the order of their ends */
    for (size_t i = model->ended_count; at < 0 && i-- > 0 && model->ended[i].end >= seconds - NEAR_SECONDS;)
        if (model->ended[i].pid == pid) {
            ended = model->ended[i].end;
            break;
        }
    return ended < seconds ? ended : seconds;
}

int cause_signal(const struct job_end *end)
{
    const json_t *signal = json_object_get(json_array_get(end->chain, 0), "signal");
    return json_is_integer(signal) ? (int)json_integer_value(signal) : end->signal;
}

bool cause_is_of_end(const struct job_end *end, double seconds)
{
    return seconds >= cause_chain_end(end, 0) - NEAR_SECONDS && cause_chain_start(end, 0) <= seconds;
}

bool cause_is_just_before(double failed, double seconds)
{
    return seconds >= failed - CAUSE_FAILURE_SECONDS && seconds <= failed + CAUSE_AT_ONCE_SECONDS;
}

bool cause_is_before(const struct job_end *end, size_t at, double seconds)
{
    const json_t *start = json_object_get(json_array_get(end->chain, at), "start_seconds");
    return json_is_number(start) && seconds < json_number_value(start) - SEEN_SECONDS;
}

bool cause_was_tolerated(const struct job_end *end, double seconds)
{
    return seconds < end->tolerated;
}

/* Whether a process failed beside it, or when it had begun and before `until`, of which *ret_first is the first that did. */
static bool ran_beside_failure(const struct job_model *model, const struct job_process *process, double until,
                               double *ret_first)
{
    *ret_first = until;
    for (size_t i = 0; i < model->ended_count; i++) {
        const struct job_process *other = &model->ended[i];
        if (other == process || other->ppid != process->ppid || !culprit_has_failed(other) || other->start >= until ||
            other->end < process->start)
            continue;
        if (other->start <= process->end)
            return true;
        *ret_first = other->start < *ret_first ? other->start : *ret_first;
    }
    return false;
}

int cause_end_status(const struct job_end *end)
{
    return end->signal ? SHELL_SIGNAL + end->signal : end->exit_code;
}

bool cause_lived_on(const json_t *process, int signo)
{
    return starter_lived_on(member_string(process, "name"), json_object_get(process, "argv"),
                            cause_chain_status(process), signo);
}

/* As a shell has it. */
static int shell_status(const json_t *process)
{
    int status = cause_chain_status(process);
    return status == JOB_STATUS_UNKNOWN ? status : starter_shell_status(status);
}

/* What a script also runs when it only cleans up behind an error. */
static bool is_of_cleanup(const char *name)
{
    static const char *const names[] = {"sleep", "date", "echo", "printf", "cat", "sync", "hostname", NULL};
    return culprit_is_utility(name) || culprit_is_lookup(name) || text_is_one(name, names);
}

/* Before when a script of the chain went on: a command of it began then and succeeded, and ended before that one began which failed
 * with the status of the job. Make and the like go on with other things, and fail of the first. */
static double find_tolerated(const struct job_end *end)
{
    enum { LOOKS_MOST = 100 };
    static const double LATE_SECONDS = 0.2; /* a line is read a little after it was written */
    const struct job_model *model = end->model;
    int status = cause_end_status(end);
    double tolerated = -1;
    for (size_t at = 0; at + 1 < json_array_size(end->chain); at++) {
        pid_t pid = cause_chain_pid(end, at + 1);
        enum starter starter = starter_of(cause_chain_name(end, at + 1));
        int own = shell_status(json_array_get(end->chain, at));
        double start = cause_chain_start(end, at);
        bool cleanup = culprit_is_utility(cause_chain_name(end, at));
        if (own != status || (starter != STARTER_SHELL && starter != STARTER_NONE))
            continue;
        for (size_t i = model->ended_count, looks = 0; i-- > 0 && looks < LOOKS_MOST;) {
            const struct job_process *process = &model->ended[i];
            double until = start - SEEN_SECONDS;
            if (process->ppid != pid || process->status || process->end > start + SEEN_SECONDS ||
                process->start >= until || (cleanup && is_of_cleanup(process->name)) ||
                (looks++, ran_beside_failure(model, process, until, &until)))
                continue;
            tolerated = number_max(tolerated, number_min(until, process->start + (cleanup ? 0 : LATE_SECONDS)));
            break;
        }
    }
    return tolerated;
}

/* Whether the text is of the process that was ended, or of its end. */
static bool is_of_end(const char *text, const struct job_process *process)
{
    static const char *const over[] = {"timed out", "timeout", "too long", "time limit", NULL};
    const char *program = process->name;
    struct starter_timeout timeout;
    int signo = job_status_signal(process->status);
    bool of_it = signo && culprit_mentions_end(text, signo);
    if (starter_timed_out(process->name, process->argv, process->end - process->start, process->status, &timeout) &&
        timeout.program)
        program = timeout.program;
    return of_it || (program != process->name && text_has_one(text, over)) || strstr(text, program);
}

/* How many of the chain its next one went on after, to an end of its own with last words, or an error of a script, that are of something
 * else: what a fault ended, and was of no shell; or a script ended itself, and did not ask how it ended. */
static size_t count_outlived(const struct job_end *end)
{
    _cleanup_(buf_done) struct buf said = BUF_INIT;
    const json_t *first = json_array_get(end->chain, 0), *parent;
    const struct job_process *process = job_model_ended(end->model, cause_chain_pid(end, 0));
    int status = cause_chain_status(first), signo = job_status_signal(status);
    size_t at = 1;
    while ((parent = json_array_get(end->chain, at)) != NULL && shell_status(parent) == shell_status(first))
        at++;
    if (!parent || !process || status == JOB_STATUS_UNKNOWN)
        return 0;
    bool shell = cause_is_shell(parent);
    bool ended = shell ? cause_ended_by_job(end) && !cause_stood_still(end) &&
                             !culprit_was_tested(end->model, process, process->ppid)
                       : at == 1 && signo && job_signal_is_fault(signo) && cause_lived_on(parent, signo);
    if (!ended)
        return 0;
    const double since = cause_chain_end(end, (int)at - 1) - SEEN_SECONDS;
    const json_t *last = cause_put_last_words(&said, end, (int)at);
    double quiet = json_number_value(json_object_get(last, "quiet_seconds"));
    if (last && record_seconds(last) - quiet >= since && cause_is_complaint(cause_text(&said)) &&
        !is_of_end(cause_text(&said), process))
        return at;
    json_auto_t *error = cause_error_of(end, cause_chain_end(end, (int)at));
    const char *text = member_string(error, "text");
    bool own = shell || json_is_string(json_object_get(error, "place")); /* of an exception of Python */
    return text && own && line_written_seconds(error) >= since && !is_of_end(text, process) ? at : 0;
}

uint64_t cause_memory_limit(const struct job_model *model, bool *ret_data)
{
    json_int_t bytes = json_integer_value(json_object_get(model->end, "address_limit_bytes"));
    json_int_t data = json_integer_value(json_object_get(model->end, "data_limit_bytes"));
    *ret_data = data > 0 && (bytes <= 0 || data < bytes);
    bytes = *ret_data ? data : bytes;
    return bytes > 0 ? (uint64_t)bytes : 0;
}

void cause_put_memory_limit(struct buf *out, const struct job_end *end, struct cause *cause)
{
    bool data;
    uint64_t limit = cause_memory_limit(end->model, &data);
    if (!limit)
        return;
    buf_printf(out, " (its %s may have ", data ? "data" : "address space");
    text_size(out, limit);
    buf_puts(out, data ? ": ulimit -d)" : ": ulimit -v)");
    cause_add(cause, end->model->end);
}

json_t *cause_last(const struct layer_list *list, size_t back)
{
    size_t count = json_array_size(list->records);
    return back < count ? json_array_get(list->records, count - 1 - back) : NULL;
}

const json_t *cause_warning(const struct job_end *end, enum note_kind kind)
{
    return cause_named(end, note_name(kind));
}

const json_t *cause_named(const struct job_end *end, const char *name)
{
    const json_t *found = NULL;
    size_t index;
    json_t *warning;
    json_array_foreach(end->warnings, index, warning)
    {
        if (strcmp(member_text(warning, "note"), name) == 0)
            found = warning;
    }
    return found;
}

const json_t *cause_warning_field(const json_t *warning, const char *name)
{
    return json_object_get(json_object_get(warning, "fields"), name);
}

/* Did the process end because of it? One of the first thread that nobody caught ends Python with 1; one of another
 * thread ends only that. */
bool cause_ended_its_process(const struct job_end *end, const json_t *exception)
{
    pid_t pid = (pid_t)json_integer_value(json_object_get(exception, "pid"));
    int at = cause_chain_at(end, pid);
    const json_t *code = json_object_get(json_array_get(end->chain, at < 0 ? SIZE_MAX : (size_t)at), "exit_code");
    return json_integer_value(json_object_get(exception, "tid")) == pid && json_integer_value(code) == 1;
}

/* ---- the rules ---- */

/* In order of strength. Each is asked twice: whether it is sure, then whether it is probable. */
static cause_rule *const rules[] = {
    cause_find_lost,   cause_find_memory,      cause_find_unexecuted,     cause_find_error,      cause_find_credential,
    cause_find_rank,   cause_find_crash,       cause_find_limit,          cause_find_exception,  cause_find_full_disk,
    cause_find_silent, cause_find_mpi_stall,   cause_find_memory_short,   cause_find_standstill, cause_find_timeout,
    cause_find_task,   cause_find_asked,       cause_find_signal,         cause_find_killed,     cause_find_command,
    cause_find_log,    cause_find_lost_before, cause_find_survived_crash, cause_find_process,
};

/* The command could not be executed: nothing else can be the reason. */
static void say_start(const struct job_end *end, struct cause *cause)
{
    if (end->reason && *end->reason) /* versions that recorded only the status say none */
        buf_puts(&cause->what, end->reason);
    else
        buf_printf(&cause->what, "the command %s",
                   end->exit_code == SHELL_NOT_FOUND ? "was not found" : "may not be executed");
    cause_add(cause, end->model->end);
    cause->note = NOTE(cause_start, .reason = cause_text(&cause->what));
    cause->sure = true;
}

void cause_find(const struct job_end *end, struct cause *ret_cause)
{
    struct job_end known = *end;
    struct cause_said said;
    *ret_cause = (struct cause){.evidence = json_array()};
    if (end->not_started) {
        say_start(end, ret_cause);
        return;
    }
    known.tolerated = find_tolerated(end);
    if (known.rank && known.rank->status != JOB_STATUS_UNKNOWN && !cause_is_of_end(end, known.rank->seconds))
        known.rank = NULL; /* the job went on */
    json_auto_t *chain = NULL;
    size_t outlived = count_outlived(&known);
    if (outlived) {
        known.outlived = cause_chain_pid(end, 0);
        chain = json_copy((json_t *)end->chain);
        for (; outlived > 0; outlived--)
            json_array_remove(chain, 0);
        known.chain = chain;
    }
    cause_look_at_said(&known, &said);
    known.said = &said;
    for (int sure = 1; sure >= 0; sure--)
        for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
            if (rules[i](&known, ret_cause, sure)) {
                /* the command itself; what it said last is only told */
                ret_cause->sure = sure ||
                                  (ret_cause->note.kind == NOTE_cause_process && ret_cause->note.cause_process.sure) ||
                                  (ret_cause->note.kind == NOTE_cause_asked && ret_cause->note.cause_asked.sure);
                return;
            }
}

/* "; it said last: ..."; `it`: who is said to have. With its age if that is long. */
static size_t put_said_last(struct cause *cause, const struct job_end *end, const char *it)
{
    _cleanup_(buf_done) struct buf said = BUF_INIT;
    const json_t *record = cause_put_said_last(&said, end);
    double quiet = member_number(record, "quiet_seconds");
    if (!record)
        return 0;
    buf_printf(&cause->said, "; %s said last", it);
    if (quiet > CAUSE_FAILURE_SECONDS)
        buf_printf(&cause->said, ", %.0f s before it ended", quiet);
    buf_puts(&cause->said, ": ");
    size_t words = cause->said.len;
    buf_puts(&cause->said, cause_text(&said));
    cause_add(cause, record);
    return words;
}

void cause_tell(const struct job_end *end, struct cause *ret_cause)
{
    struct cause *cause = ret_cause;
    cause_find(end, cause);
    struct note *note = &cause->note;
    const char **said = note->kind == NOTE_cause_process   ? &note->cause_process.said
                        : note->kind == NOTE_cause_command ? &note->cause_command.said
                        : note->kind == NOTE_cause_rank    ? &note->cause_rank.said
                                                           : NULL;
    /* of a rank that crashed, MPI's handler of signals has said that last */
    bool crashed = note->kind == NOTE_cause_rank && WIFSIGNALED(end->rank->status);
    if (said && !**said && !crashed) { /* others may have said it */
        put_said_last(cause, end, "the job");
        *said = cause_text(&cause->said);
    }
    const json_t *command = json_array_get(end->chain, json_array_size(end->chain) - 1);
    if (note->kind != NOTE_NONE || !command || (!end->exit_code && !end->signal))
        return;
    const char *name = member_string(command, "name");
    cause_cut(&cause->where, name ? name : "?");
    if (end->signal)
        buf_printf(&cause->what, "by %s", text_signal(end->signal, cause->signal, sizeof cause->signal));
    else
        buf_printf(&cause->what, "with exit status %d", end->exit_code);
    size_t words = put_said_last(cause, end, "it");
    *note = NOTE(cause_unknown, .program = cause_text(&cause->where),
                 .pid = (uint64_t)json_integer_value(json_object_get(command, "pid")), .how = cause_text(&cause->what),
                 .said = cause_text(&cause->said), .words = words ? cause_text(&cause->said) + words : "");
}

void cause_done(struct cause *cause)
{
    json_decref(cause->evidence);
    buf_done(&cause->where);
    buf_done(&cause->what);
    buf_done(&cause->said);
}
