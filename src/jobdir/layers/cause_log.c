/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons that programs say: errors in logs and of exceptions, credentials. */
#include "jobdir/layers/cause_internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/data/cleanup.h"
#include "jobdir/layers/culprit.h"
#include "jobdir/text/text.h"

enum { THEN_COLUMNS = 200 };

static bool is_no_space(const struct line_error *error)
{
    return error && error->error == ENOSPC;
}

static void put_at(struct buf *out, const char *place)
{
    buf_puts(out, ", at ");
    cause_cut(out, text_base(place));
}

/* How long before the failure, if that is worth to be told. */
static const char *put_when(struct cause *cause, const struct job_end *end, const json_t *record)
{
    double before = cause_chain_end(end, 0) - record_seconds(record);
    if (before > CAUSE_FAILURE_SECONDS)
        snprintf(cause->when, sizeof cause->when, ", %.0f s before it failed", before);
    return cause->when;
}

static bool say_error(const struct job_end *end, struct cause *cause, const json_t *record, bool sure)
{
    const char *text;
    const struct line_error *error = line_error_of(record, &text);
    const struct layer_filesystem *system = is_no_space(error) ? cause_full_disk(end) : NULL;
    if (!error)
        return false;
    cause_add(cause, record);
    if (system) {
        cause_add(cause, end->model->layers.health);
        cause_say_full(cause, end, system, sure);
        return true;
    }
    cause_cut(&cause->what, text ? text + strspn(text, " \t") : NULL);
    const char *place = member_string(record, "place"); /* of an exception */
    if (place) {
        cause_end_sentence(&cause->what);
        put_at(&cause->what, place);
    }
    buf_puts(&cause->where, error->what);
    if (error->error == ENOMEM && !(text && line_is_of_own_heap(text)))
        cause_put_memory_limit(&cause->where, end, cause);
    cause->note = NOTE(cause_said, .what = cause_text(&cause->where), .text = cause_text(&cause->what),
                       .when = put_when(cause, end, record), .sure = sure);
    return true;
}

/* What it says not to find, or an exception, is there, but its interpreter is not: "./run.py: its interpreter /opt/python is not there". */
bool cause_find_unexecuted(const struct job_end *end, struct cause *cause, bool sure)
{
    static const char why[] = ": its ";
    const char *unexecuted = member_string(end->model->end, "unexecuted");
    const json_t *records[] = {end->said->record, cause_last(&end->model->layers.uncaught, 0)};
    const char *behind = unexecuted ? strstr(unexecuted, why) : NULL, *text;
    for (size_t i = 0; sure && behind && i < sizeof records / sizeof *records; i++) {
        if (!records[i] || cause_was_tolerated(end, record_seconds(records[i])))
            continue;
        line_error_of(records[i], &text);
        if (!text || !memmem(text, strlen(text), unexecuted, (size_t)(behind - unexecuted)))
            continue;
        cause_cut(&cause->what, unexecuted);
        cause_add(cause, records[i]);
        cause_add(cause, end->model->end);
        cause->note = NOTE(cause_start, .reason = cause_text(&cause->what));
        return true;
    }
    return false;
}

/* An error that nobody caught is why its process ended. What a log says may have been dealt with: it is only sure where
 * the disk was indeed full. So is that a disk was full: any program can say that. */
bool cause_find_error(const struct job_end *end, struct cause *cause, bool sure)
{
    const struct layers *layers = &end->model->layers;
    const json_t *record;
    for (size_t i = 0; (record = cause_last(&layers->uncaught, i)) != NULL; i++) {
        const char *text;
        bool full = !is_no_space(line_error_of(record, &text)) || cause_full_disk(end);
        bool own = full && cause_ended_its_process(end, record);
        if (!cause_was_tolerated(end, record_seconds(record)) && (own || !sure) &&
            cause_is_near(end, record_seconds(record)) && say_error(end, cause, record, sure))
            return true;
    }
    const char *text;
    record = end->said->record;
    _cleanup_(buf_done) struct buf before = BUF_INIT;
    if (end->said->said == SAID_CONSEQUENCE &&
        (cause_launched_ended(end) || cause_put_complaint(&before, end, cause_chain_end(end, 0), false)))
        return false; /* it is known what of */
    bool seen = record && is_no_space(line_error_of(record, &text)) && cause_full_disk(end);
    return record && (seen || !sure) && say_error(end, cause, record, sure);
}

/* What programs say where a credential is refused: they have no common words for it. */
static bool is_about_credentials(const char *text)
{
    static const char *const words[] = {"expired", "certificate", "credential", "authentication", "unauthorized", NULL};
    return text_has_one(text, words);
}

static const json_t *credential_error(const struct job_end *end)
{
    const struct layers *layers = &end->model->layers;
    const struct layer_list *lists[] = {&layers->uncaught, &layers->logs};
    const char *const members[] = {"message", "text"};
    const json_t *record;
    for (size_t i = 0; i < 2; i++)
        for (size_t back = 0; (record = cause_last(lists[i], back)) != NULL; back++)
            if (cause_is_near(end, record_seconds(record)) && is_about_credentials(member_string(record, members[i])))
                return record;
    return NULL;
}

/* Sure where a program also says that it was refused. */
bool cause_find_credential(const struct job_end *end, struct cause *cause, bool sure)
{
    const json_t *expired = cause_named(end, "credential_expired"), *error = expired ? credential_error(end) : NULL;
    if (!expired || (sure && !error))
        return false;
    cause_cut(&cause->where, json_string_value(cause_warning_field(expired, "credential")));
    cause_cut(&cause->what, json_string_value(cause_warning_field(expired, "path")));
    cause_add(cause, expired);
    if (error)
        cause_add(cause, error);
    cause->note =
        NOTE(cause_credential, .credential = cause_text(&cause->where), .path = cause_text(&cause->what), .sure = sure);
    return true;
}

/* 'Current thread 0x7f (most recent call first): File "/home/u/main.py", line 3 in inner' of Python's faulthandler. */
static bool put_fault_place(struct buf *out, const char *text)
{
    static const char begin[] = "File \"", middle[] = "\", line ";
    const char *file = strstr(text, begin), *end = file ? strstr(file, middle) : NULL;
    if (!end)
        return false;
    _cleanup_(buf_done) struct buf path = BUF_INIT;
    buf_append(&path, file + strlen(begin), (size_t)(end - file) - strlen(begin));
    put_at(out, cause_text(&path));
    buf_printf(out, ":%d", atoi(end + strlen(middle)));
    return true;
}

/* "Error termination. Backtrace: at /home/u/grid.f90:6" */
bool cause_put_backtrace(struct buf *out, const struct job_end *end, double seconds)
{
    static const char at[] = " at ";
    const json_t *record;
    for (size_t i = 0; (record = cause_last(&end->model->layers.logs, i)) != NULL; i++) {
        const char *text = member_text(record, "text");
        const char *place = line_has_pattern(record, "fortran_backtrace") ? strstr(text, at) : NULL;
        bool fault = line_has_pattern(record, "fault_place");
        if ((!place && !fault) || fabs(record_seconds(record) - seconds) > CAUSE_AT_ONCE_SECONDS)
            continue;
        if (fault)
            return put_fault_place(out, text);
        put_at(out, place + strlen(at));
        return true;
    }
    return false;
}

/* "; caused by KeyError: 'size', at a.py:3", of an exception of Python to which others led: the first one that was raised in the program's
 * own code. Those that it only raised once more say no more. */
static void put_first_of_chain(struct cause *cause, const struct job_end *end, const json_t *record)
{
    static const char while_handling[] = "During handling";
    const json_t *list = end->model->layers.logs.records, *first = NULL;
    size_t at = json_array_size(list);
    while (at > 0 && json_array_get(list, at - 1) != record)
        at--;
    bool handled = false; /* by what raised the next one */
    for (at = at ? at - 1 : 0; at >= 2; at -= 2) {
        const json_t *between = json_array_get(list, at - 1), *cause_of = json_array_get(list, at - 2);
        if (!line_has_pattern(between, "python_chained") || !line_is_exception(cause_of) ||
            !lines_are_of_one_file(cause_of, record) || !lines_are_of_one_file(between, record))
            break;
        if (line_is_traceback(cause_of)) {
            first = cause_of;
            handled = strncmp(member_text(between, "text"), while_handling, strlen(while_handling)) == 0;
        }
    }
    if (!first || json_equal(json_object_get(first, "text"), json_object_get(record, "text")))
        return;
    buf_puts(&cause->said, handled ? "; while it handled " : "; caused by ");
    cause_cut(&cause->said, member_string(first, "text"));
    cause_end_sentence(&cause->said);
    put_at(&cause->said, member_text(first, "place"));
    cause_add(cause, first);
}

/* "; then CalledProcessError: Command 'stage.sh' returned non-zero exit status 3, at run.py:2" */
static void put_told(struct cause *cause, const json_t *told)
{
    buf_puts(&cause->said, "; then ");
    cause_cut(&cause->said, member_string(told, "text"));
    cause_end_sentence(&cause->said);
    put_at(&cause->said, member_text(told, "place"));
    cause_add(cause, told);
}

/* What stood above the exception of Python that tells that a command failed, if that may be its words; NULL: nothing. */
static const char *words_above(const struct job_end *end, const json_t *told)
{
    const char *above = member_string(told, "above");
    bool words = above && (speaker_is(end, 0, above) || cause_is_complaint(above) || line_tells_of_failure(above));
    return words ? above : NULL;
}

void cause_say_log(const struct job_end *end, struct cause *cause, const json_t *record, const char *then)
{
    const char *file = member_string(record, "file");
    cause_cut(&cause->where, file ? file : "?");
    const json_t *told = end->said->told;
    const char *above = told && told == record ? words_above(end, told) : NULL;
    cause_cut(&cause->what, above ? above : member_string(record, "text"));
    const char *place = member_string(record, "place");
    if (place && !above) {
        cause_end_sentence(&cause->what);
        put_at(&cause->said, place);
        put_first_of_chain(cause, end, record);
    } else if (line_tells_of_memory(cause_text(&cause->what))) {
        cause_put_memory_limit(&cause->said, end, cause);
    } else if (line_has_pattern(record, "fortran_error")) {
        cause_put_backtrace(&cause->said, end, record_seconds(record));
    } else if (line_has_pattern(record, "mpi_error") && end->rank && end->rank->named && end->rank->call) {
        cause_end_sentence(&cause->what);
        buf_printf(&cause->said, "; rank %d was in %s", end->rank->rank, end->rank->call);
    }
    cause_add(cause, record);
    if (above || (told && told != record)) {
        cause_end_sentence(&cause->what);
        put_told(cause, told);
    }
    if (*then) {
        cause_end_sentence(&cause->what);
        buf_puts(&cause->said, then);
    }
    cause->note = NOTE(cause_log, .file = cause_text(&cause->where), .text = cause_text(&cause->what),
                       .when = *then ? "" : put_when(cause, end, record), .place = cause_text(&cause->said));
}

/* Whether one of the last lines of standard error begins with the name of what failed first. */
static bool spoke_with_name(const struct job_end *end)
{
    const json_t *last = end->model->layers.last_lines, *line;
    size_t index;
    bool spoke = false;
    json_array_foreach(json_object_get(last, "lines"), index, line) spoke |=
        speaker_is(end, 0, json_string_value(line));
    return spoke && strcmp(member_text(last, "file"), "stderr") == 0;
}

/* Of a program that tells that one which it had started has failed, as make does; but a shell is no more than that, unless it is a
 * script that has said why. */
static bool is_told_by_parent(const struct job_end *end, const json_t *record)
{
    bool told = false;
    for (size_t at = 1; at < json_array_size(end->chain) && !told; at++)
        told = speaker_is(end, at, member_string(record, "text"));
    _cleanup_(buf_done) struct buf own = BUF_INIT;
    return told && (spoke_with_name(end) || cause_put_own_words(&own, end, 0) ||
                    !cause_is_shell(json_array_get(end->chain, 0)));
}

/* "; then plot (pid 12) ended with exit status 5", of what failed first, and has not said the error; but not of what cleans up, or is not there
 * because of that. */
static void put_then(struct buf *out, const struct job_end *end)
{
    const char *name = cause_chain_name(end, 0);
    int status = cause_chain_status(json_array_get(end->chain, 0));
    if (json_array_size(end->chain) < 2 || !name || culprit_is_utility(name) || status == JOB_STATUS_UNKNOWN ||
        !WIFEXITED(status) || WEXITSTATUS(status) == SHELL_NOT_EXECUTABLE || WEXITSTATUS(status) == SHELL_NOT_FOUND)
        return;
    buf_puts(out, "; then ");
    cause_cut(out, name);
    buf_printf(out, " (pid %d) ended with exit status %d", (int)cause_chain_pid(end, 0), WEXITSTATUS(status));
}

/* "ERROR STOP 3": it has said before why. */
static bool is_bare_stop(const json_t *record)
{
    static const char stop[] = "ERROR STOP";
    const char *text = member_text(record, "text");
    if (strncmp(text, stop, strlen(stop)) != 0)
        return false;
    text += strlen(stop);
    return !text[strspn(text, " 0123456789")];
}

bool cause_find_log(const struct job_end *end, struct cause *cause, bool sure)
{
    const json_t *record = sure ? NULL : end->said->record;
    bool consequence = end->said->said == SAID_CONSEQUENCE;
    if (!record || (consequence && (cause_launched_ended(end) || is_told_by_parent(end, record))))
        return false;
    const json_t *before = consequence ? cause_put_complaint(&cause->what, end, cause_chain_end(end, 0), false)
                           : is_bare_stop(record) ? cause_put_own_words(&cause->what, end, 0)
                                                  : NULL;
    if (before) {
        cause_cut(&cause->where, member_string(before, "file"));
        cause_end_sentence(&cause->what);
        buf_puts(&cause->said, "; then ");
        const char *then = member_text(record, "text");
        size_t len = strlen(then);
        while (len && then[len - 1] == ' ')
            len--;
        buf_append(&cause->said, then, text_fit(then, len, THEN_COLUMNS));
        cause_add(cause, before);
        cause_add(cause, record);
        cause->note = NOTE(cause_log, .file = cause_text(&cause->where), .text = cause_text(&cause->what), .when = "",
                           .place = cause_text(&cause->said));
        return true;
    }
    _cleanup_(buf_done) struct buf then = BUF_INIT;
    if (end->said->said == SAID_OF_ANOTHER)
        put_then(&then, end);
    const struct job_process *outlived = end->outlived && !then.len ? job_model_ended(end->model, end->outlived) : NULL;
    if (outlived) {
        buf_puts(&then, "; it had gone on ");
        cause_put_outlived(&then, outlived);
    }
    cause_say_log(end, cause, record, cause_text(&then));
    return true;
}
