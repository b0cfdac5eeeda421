/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons that programs say: errors in logs and of exceptions, credentials. */
#include "jobdir/layers/cause_internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "jobdir/text/text.h"

static const double FAILURE_SECONDS = 5; /* before it */

/* Errors that have a cause outside the program: the C library's text, or a built-in pattern of logs. 0, NULL: none.
 * `once`: it comes again only where the same is tried again. */
static const struct {
    int error;
    const char *pattern, *what;
    bool once;
} errors[] = {
    {ENOSPC, "no_space", "a disk was full", false},
    {EDQUOT, "disk_quota", "a disk quota was used up", false},
    {EFBIG, NULL, "a file grew beyond its limit (ulimit -f, or the file system's)", false},
    {0, "oom_kill", "it was killed because it took too much memory", false},
    {0, "batch_limit", "the batch system ended it", false},
    {ENOMEM, "out_of_memory", "there was not enough memory", true},
    {EMFILE, "too_many_files", "a process had too many open files (ulimit -n)", true},
    {ENFILE, NULL, "the node had too many open files", true},
    {EROFS, "read_only", "a file system can only be read", false},
    {EKEYEXPIRED, NULL, "a credential had expired", false},
    {EIO, "io_error", "a disk or file system does not work", false},
    {ESTALE, NULL, "a file system of another node lost a file", false},
    {0, "shared_object", "a library is missing, or is another version", true},
    {0, "command_not_found", "a program was not found", true},
    {0, "mpi_abort", "an MPI program gave up", true},
    {0, "gpu_error", "an error of a GPU", true},
};

static int error_in(const char *text, const char *pattern)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if ((pattern && errors[i].pattern && strcmp(pattern, errors[i].pattern) == 0) ||
            (text && errors[i].error && strstr(text, strerrordesc_np(errors[i].error))))
            return (int)i;
    return -1;
}

static int error_of(const json_t *record, const char **ret_text)
{
    *ret_text = json_string_value(json_object_get(record, record_type(record) == RECORD_log ? "text" : "message"));
    return error_in(*ret_text, json_string_value(json_object_get(record, "pattern")));
}

static bool is_no_space(int error)
{
    return error >= 0 && errors[error].error == ENOSPC;
}

static bool say_error(const struct job_end *end, struct cause *cause, const json_t *record, bool sure)
{
    const char *text;
    int error = error_of(record, &text);
    const struct layer_filesystem *system = is_no_space(error) ? cause_full_disk(end) : NULL;
    if (error < 0)
        return false;
    cause_add(cause, record);
    if (system) {
        cause_add(cause, end->model->layers.health);
        cause_say_full(cause, end, system, sure);
        return true;
    }
    cause_cut(&cause->what, text);
    cause->note = NOTE(cause_said, .what = errors[error].what, .text = cause_text(&cause->what), .sure = sure);
    return true;
}

/* What is printed when a program has ended already, or gives up, whatever the reason is. */
static bool is_consequence(const json_t *log)
{
    static const char *const patterns[] = {"mpi_abort", "killed", "abort", "traceback"};
    const char *pattern = json_string_value(json_object_get(log, "pattern"));
    for (size_t i = 0; pattern && i < sizeof patterns / sizeof *patterns; i++)
        if (strcmp(pattern, patterns[i]) == 0)
            return true;
    return false;
}

/* When something failed, or just before. */
static bool is_just_before(double failed, double seconds)
{
    return seconds >= failed - FAILURE_SECONDS && seconds <= failed + CAUSE_AT_ONCE_SECONDS;
}

/* The same of the first process that failed. */
static bool is_at_failure(const struct job_end *end, double seconds)
{
    return is_just_before(cause_chain_end(end, 0), seconds);
}

/* Whether the job has survived it: it went on, and another error came when it failed. Of an error that is only the
 * consequence of another one: whether that is there. */
static bool is_outdone(const struct job_end *end, size_t at)
{
    const struct layer_list *list = &end->model->layers.errors;
    const json_t *record = cause_last(list, at), *other;
    const char *text;
    int error = error_of(record, &text);
    bool consequence = is_consequence(record);
    if (error < 0 || !errors[error].once)
        return false;
    for (size_t i = 0; (other = cause_last(list, i)) != NULL; i++) {
        double after = record_seconds(other) - record_seconds(record);
        bool later = i < at && error_of(other, &text) < 0;
        if (is_consequence(other) || !is_at_failure(end, record_seconds(other)))
            continue;
        if ((later && after > CAUSE_AT_ONCE_SECONDS) || (consequence && i > at && after >= -FAILURE_SECONDS))
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
        bool full = !is_no_space(error_of(record, &text)) || cause_full_disk(end);
        bool own = full && cause_ended_its_process(end, record);
        if ((own || !sure) && cause_is_near(end, record_seconds(record)) && say_error(end, cause, record, sure))
            return true;
    }
    for (size_t i = 0; (record = cause_last(&layers->errors, i)) != NULL; i++) {
        const char *text;
        bool seen = is_no_space(error_of(record, &text)) && cause_full_disk(end);
        if ((seen || !sure) && !is_outdone(end, i) && cause_is_near(end, record_seconds(record)) &&
            say_error(end, cause, record, sure))
            return true;
    }
    return false;
}

/* What programs say where a credential is refused: they have no common words for it. */
static bool is_about_credentials(const char *text)
{
    static const char *const words[] = {"expired", "certificate", "credential", "authentication", "unauthorized"};
    for (size_t i = 0; text && i < sizeof words / sizeof *words; i++)
        if (strcasestr(text, words[i]))
            return true;
    return false;
}

static const json_t *credential_error(const struct job_end *end)
{
    const struct layers *layers = &end->model->layers;
    const struct layer_list *lists[] = {&layers->uncaught, &layers->logs};
    const char *const members[] = {"message", "text"};
    const json_t *record;
    for (size_t i = 0; i < 2; i++)
        for (size_t back = 0; (record = cause_last(lists[i], back)) != NULL; back++)
            if (cause_is_near(end, record_seconds(record)) &&
                is_about_credentials(json_string_value(json_object_get(record, members[i]))))
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

/* "sort: ...", as programs begin what they say of errors. */
static bool begins_with(const char *text, const char *name)
{
    size_t len = name ? strlen(name) : 0;
    return text && len && strncmp(text, name, len) == 0 && text[len] == ':';
}

/* With the name of the process that failed first, or of the script that it executes. */
static bool begins_with_name(const struct job_end *end, const char *text)
{
    const json_t *failed = json_array_get(end->chain, 0), *argument;
    size_t index;
    if (begins_with(text, json_string_value(json_object_get(failed, "name"))))
        return true;
    json_array_foreach(json_object_get(failed, "argv"), index, argument)
    {
        const char *word = json_string_value(argument);
        if (index && word && *word != '-')
            return begins_with(text, text_base(word)) || begins_with(text, word);
    }
    return false;
}

bool cause_explains_abort(const struct job_end *end, double seconds)
{
    const json_t *record;
    for (size_t i = 0; (record = cause_last(&end->model->layers.errors, i)) != NULL; i++) {
        const char *text;
        int error = error_of(record, &text);
        if (error >= 0 && errors[error].error && is_just_before(seconds, record_seconds(record)) && !is_outdone(end, i))
            return true;
    }
    return false;
}

bool cause_says_why(const struct job_end *end)
{
    const json_t *record;
    if (cause_signal(end) == SIGABRT && cause_explains_abort(end, cause_chain_end(end, 0)))
        return true;
    for (size_t i = 0; (record = cause_last(&end->model->layers.errors, i)) != NULL; i++) {
        const char *text;
        int error = error_of(record, &text);
        if (error >= 0 && errors[error].error && is_at_failure(end, record_seconds(record)) &&
            begins_with_name(end, text))
            return true;
    }
    return false;
}

/* When the first process failed: an error, or what that process says itself. */
static bool find_log_in(const struct job_end *end, struct cause *cause, const struct layer_list *list, bool any)
{
    const json_t *record;
    for (size_t i = 0; (record = cause_last(list, i)) != NULL; i++) {
        const char *file = json_string_value(json_object_get(record, "file"));
        const char *text = json_string_value(json_object_get(record, "text"));
        bool error = line_level_of(json_string_value(json_object_get(record, "level"))) == LINE_ERROR;
        if (!is_at_failure(end, record_seconds(record)) || (!any && is_consequence(record)) ||
            (!error && !begins_with_name(end, text)))
            continue;
        cause_cut(&cause->where, file ? file : "?");
        cause_cut(&cause->what, text);
        cause_add(cause, record);
        cause->note = NOTE(cause_log, .file = cause_text(&cause->where), .text = cause_text(&cause->what));
        return true;
    }
    return false;
}

bool cause_find_log(const struct job_end *end, struct cause *cause, bool sure)
{
    const struct layers *layers = &end->model->layers;
    for (int any = 0; any <= 1 && !sure; any++)
        if (find_log_in(end, cause, &layers->logs, any) || find_log_in(end, cause, &layers->errors, any))
            return true;
    return false;
}
