/* SPDX-License-Identifier: Apache-2.0 */
/* What the lines of programs mean, by their words alone: errors of the system, complaints, ends, exceptions. */
#include "jobdir/layers/cause_internal.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "jobdir/layers/culprit.h"
#include "jobdir/text/text.h"

/* Errors that have a cause outside the program: the C library's text, or a built-in pattern of logs. 0, NULL: none.
 * `once`: it comes again only where the same is tried again. */
static const struct line_error errors[] = {
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

const char *lines_last(const json_t *lines, size_t back)
{
    return json_string_value(json_array_get(lines, json_array_size(lines) - 1 - back));
}

bool lines_are_of_one_file(const json_t *one, const json_t *other)
{
    return json_equal(json_object_get(one, "file"), json_object_get(other, "file"));
}

bool line_has_pattern(const json_t *record, const char *pattern)
{
    return strcmp(member_text(record, "pattern"), pattern) == 0;
}

const struct line_error *line_error_of(const json_t *record, const char **ret_text)
{
    const char *text = member_string(record, record_type(record) == RECORD_log ? "text" : "message");
    *ret_text = text;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if ((errors[i].pattern && line_has_pattern(record, errors[i].pattern)) ||
            (text && errors[i].error && strstr(text, strerrordesc_np(errors[i].error))))
            return &errors[i];
    return NULL;
}

bool line_is_of_own_heap(const char *text)
{
    static const char *const words[] = {"heap limit", "heap space", "JavaScript heap", NULL};
    return text_has_one(text, words);
}

bool line_tells_of_memory(const char *text)
{
    static const char *const words[] = {"alloc", "memory", "new thread", NULL};
    return text_has_one(text, words) && !line_is_of_own_heap(text);
}

/* Behind the "warn" of a label, which stands near the begin of a line. NULL: there is none. */
static const char *behind_warn(const char *text)
{
    enum { LABEL_WITHIN = 40 };
    static const char word[] = "warn";
    const char *at = text ? strcasestr(text, word) : NULL;
    bool label = at && at - text < LABEL_WITHIN && (at == text || !isalnum((unsigned char)at[-1]));
    return label ? at + strlen(word) : NULL;
}

bool line_is_warned_of(const char *text)
{
    return behind_warn(text) != NULL;
}

bool line_is_labelled_warning(const char *text)
{
    static const char ending[] = "ing";
    const char *at = behind_warn(text), *error = at ? strcasestr(text, "error") : NULL;
    if (!at || (error && error < at))
        return false;
    at += strncasecmp(at, ending, strlen(ending)) == 0 ? strlen(ending) : 0;
    return *at && strchr(":]>)|", *at);
}

bool line_is_warning(const json_t *record)
{
    const char *text = member_string(record, "text");
    return line_is_labelled_warning(text) || (line_error_of(record, &text) && line_is_warned_of(text));
}

bool line_is_exception(const json_t *record)
{
    static const char assertion[] = "AssertionError";
    return line_has_pattern(record, "exception") || line_has_pattern(record, "validation") ||
           (line_has_pattern(record, "assertion") &&
            strncmp(member_text(record, "text"), assertion, strlen(assertion)) == 0);
}

bool line_is_traceback(const json_t *record)
{
    return line_is_exception(record) && json_is_string(json_object_get(record, "place"));
}

bool line_tells_of_giving_up(const char *text)
{
    static const char *const words[] = {"abort", "giv",      "exit",  "stop",   "terminat",      "quit", "above",
                                        "error", "previous", "fail ", "failed", "shutting down", NULL};
    return text_has_one(text, words);
}

bool line_is_graver(const char *text)
{
    static const char *const words[] = {"FATAL", "CRITICAL"};
    const char *word = NULL;
    for (size_t i = 0; text && !word && i < sizeof words / sizeof *words; i++)
        if ((word = strstr(text, words[i])))
            word += strlen(words[i]);
    return word && word[strspn(word, " :]>|-*")] && !line_tells_of_giving_up(word);
}

/* What a shell says where a script is to end: it may as well have told of a step before. */
bool cause_is_complaint(const char *text)
{
    static const char ignored[] = "(ignored)"; /* of make */
    static const char *const words[] = {
        "error",   "errors",  "fail",       "failed",  "failure", "cannot",   "can't",       "not",   "no",
        "unable",  "giving",  "abort",      "aborted", "missing", "invalid",  "usage",       "must",  "lost",
        "denied",  "refused", "illegal",    "fatal",   "unknown", "bad",      "wrong",       "empty", "corrupt",
        "damaged", "exiting", "unexpected", "stale",   "expired", "exceeded", "insufficient"};
    if (strstr(text, ignored))
        return false;
    for (const char *at = text; *at; at++) {
        size_t len = 0;
        while (isalpha((unsigned char)at[len]) || (len && at[len] == '\''))
            len++;
        for (size_t i = 0; len && i < sizeof words / sizeof *words; i++)
            if (strlen(words[i]) == len && strncasecmp(at, words[i], len) == 0)
                return true;
        at += len ? len - 1 : 0;
    }
    return false;
}

bool line_tells_of_failure(const char *text)
{
    static const char *const words[] = {"cannot ",    "can't ",    "could not ", "unable to ",
                                        "failed to ", "giving up", "must be ",   NULL};
    static const char lacks[] = "no ";
    size_t len = 0;
    while (isalnum((unsigned char)text[len]) || (text[len] && strchr("_-./[]", text[len])))
        len++;
    if (!len || text[len] != ':' || text[len + 1] != ' ')
        return false;
    text += len + strlen(": ");
    return (strncasecmp(text, lacks, strlen(lacks)) == 0 && islower((unsigned char)text[strlen(lacks)])) ||
           text_has_one(text, words);
}

bool line_begins_with(const char *text, const char *name)
{
    size_t len = name ? strlen(name) : 0;
    if (!text || !len || strncmp(text, name, len) != 0)
        return false;
    const char *end = text + len;
    if (*end == '[')
        end += 1 + strspn(end + 1, "0123456789");
    return *end == ':' || (end > text + len && end[0] == ']' && end[1] == ':');
}

const char *line_behind_script(const char *text)
{
    static const char line[] = "line ";
    const char *at = strstr(text, ": ");
    if (!at)
        return text;
    at += strlen(": ");
    at += strncmp(at, line, strlen(line)) == 0 ? strlen(line) : 0;
    size_t digits = strspn(at, "0123456789");
    return digits && strncmp(at + digits, ": ", strlen(": ")) == 0 ? at + digits + strlen(": ") : text;
}

bool line_is_notice(const char *line)
{
    const char *behind = line ? line_behind_script(line) : "";
    behind += behind == line ? 0 : strspn(behind, " ");
    size_t digits = strspn(behind, "0123456789");
    return behind != line && digits && behind[digits] == ' ';
}

bool lines_are_alike(const char *one, const char *other)
{
    static const char of_number[] = "0123456789.";
    bool numbers = false;
    while (one && other && *one && *other) {
        bool number = isdigit((unsigned char)*one) && isdigit((unsigned char)*other);
        if (!number && *one != *other)
            return false;
        numbers |= number;
        one += number ? strspn(one, of_number) : 1;
        other += number ? strspn(other, of_number) : 1;
    }
    return one && other && numbers && !*one && !*other;
}

bool line_is_consequence(const struct job_end *end, const json_t *record)
{
    static const char *const patterns[] = {"mpi_abort",         "gave_up",  "killed",    "abort",
                                           "traceback",         "segfault", "bus_error", "illegal_instruction",
                                           "fortran_backtrace", NULL};
    static const char no_backtrace[] = "Could not print backtrace"; /* of gfortran */
    const char *text = member_text(record, "text");
    int signo = json_array_size(end->chain) > 1 ? cause_signal(end) : 0;
    return text_is_one(member_string(record, "pattern"), patterns) || strstr(text, no_backtrace) ||
           (signo && culprit_mentions_end(text, signo));
}

double line_written_seconds(const json_t *record)
{
    const json_t *written = json_object_get(record, "written");
    /* of versions before there is only when it was read */
    return json_is_number(written) ? json_number_value(written) : record_seconds(record);
}
