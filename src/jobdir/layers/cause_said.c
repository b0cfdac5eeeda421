/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons that programs say: errors in logs and of exceptions, credentials. */
#include "jobdir/layers/cause_internal.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/data/cleanup.h"
#include "jobdir/layers/culprit.h"
#include "jobdir/layers/starter.h"
#include "jobdir/text/text.h"

enum { THEN_COLUMNS = 200 };
static const double NEAR_SECONDS = 60;     /* before it */
static const double SEEN_SECONDS = 0.05;   /* times of what was only seen are that coarse, */
static const double COARSE_SECONDS = 0.01; /* and times of files */

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

/* How long before the failure, if that is worth to be told. */
static const char *put_when(struct cause *cause, const struct job_end *end, const json_t *record)
{
    double before = cause_chain_end(end, 0) - record_seconds(record);
    if (before > CAUSE_FAILURE_SECONDS)
        snprintf(cause->when, sizeof cause->when, ", %.0f s before it failed", before);
    return cause->when;
}

/* Node and Java end by limits of their own. */
static bool is_of_own_heap(const char *text)
{
    static const char *const words[] = {"heap limit", "heap space", "JavaScript heap"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasestr(text, words[i]))
            return true;
    return false;
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
    cause_cut(&cause->what, text ? text + strspn(text, " \t") : NULL);
    const char *place = json_string_value(json_object_get(record, "place")); /* of an exception */
    if (place) {
        cause_end_sentence(&cause->what);
        buf_puts(&cause->what, ", at ");
        cause_cut(&cause->what, text_base(place));
    }
    buf_puts(&cause->where, errors[error].what);
    if (errors[error].error == ENOMEM && !(text && is_of_own_heap(text)))
        cause_put_memory_limit(&cause->where, end, cause);
    cause->note = NOTE(cause_said, .what = cause_text(&cause->where), .text = cause_text(&cause->what),
                       .when = put_when(cause, end, record), .sure = sure);
    return true;
}

/* What is printed when a program has ended already, or gives up, whatever the reason is. */
static bool is_consequence(const struct job_end *end, const json_t *log)
{
    static const char *const patterns[] = {"mpi_abort",        "gave_up",  "killed",    "abort",
                                           "traceback",        "segfault", "bus_error", "illegal_instruction",
                                           "fortran_backtrace"};
    static const char no_backtrace[] = "Could not print backtrace"; /* of gfortran */
    const char *pattern = json_string_value(json_object_get(log, "pattern"));
    const char *text = json_string_value(json_object_get(log, "text"));
    for (size_t i = 0; pattern && i < sizeof patterns / sizeof *patterns; i++)
        if (strcmp(pattern, patterns[i]) == 0)
            return true;
    if (text && strstr(text, no_backtrace))
        return true;
    int signo = json_array_size(end->chain) > 1 ? cause_signal(end) : 0;
    return signo && text && culprit_mentions_end(text, signo);
}

/* Records of versions before only say when it was read. */
double cause_written_seconds(const json_t *record)
{
    const json_t *written = json_object_get(record, "written");
    return json_is_number(written) ? json_number_value(written) : record_seconds(record);
}

/* When something failed, or just before. */
static bool is_just_before(double failed, double seconds)
{
    return seconds >= failed - CAUSE_FAILURE_SECONDS && seconds <= failed + CAUSE_AT_ONCE_SECONDS;
}

/* "sort: ..." or "make[1]: ...", as programs begin what they say of errors. */
static bool begins_with(const char *text, const char *name)
{
    size_t len = name ? strlen(name) : 0;
    if (!text || !len || strncmp(text, name, len) != 0)
        return false;
    const char *end = text + len;
    if (*end == '[')
        end += 1 + strspn(end + 1, "0123456789");
    return *end == ':' || (end > text + len && end[0] == ']' && end[1] == ':');
}

/* With the name of the process of the chain, or of the script that it executes. */
static bool begins_with_name(const struct job_end *end, size_t at, const char *text)
{
    const json_t *failed = json_array_get(end->chain, at), *argument;
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

/* Whether one of the last lines of standard error begins with the name of what failed first. */
static bool spoke_with_name(const struct job_end *end)
{
    const json_t *last = end->model->layers.last_lines, *line;
    const char *file = json_string_value(json_object_get(last, "file"));
    size_t index;
    bool spoke = false;
    json_array_foreach(json_object_get(last, "lines"), index, line) spoke |=
        begins_with_name(end, 0, json_string_value(line));
    return spoke && file && strcmp(file, "stderr") == 0;
}

static const json_t *put_own_words(struct buf *out, const struct job_end *end, int at);

/* Of a program that tells that one which it had started has failed, as make does; but a shell is no more than that, unless it is a
 * script that has said why. */
static bool is_told_by_parent(const struct job_end *end, const json_t *record)
{
    const json_t *first = json_array_get(end->chain, 0);
    bool told = false;
    for (size_t at = 1; at < json_array_size(end->chain) && !told; at++)
        told = begins_with_name(end, at, json_string_value(json_object_get(record, "text")));
    _cleanup_(buf_done) struct buf own = BUF_INIT;
    return told &&
           (spoke_with_name(end) || put_own_words(&own, end, 0) ||
            !starter_is_shell(json_string_value(json_object_get(first, "name")), json_object_get(first, "argv")));
}

/* The names of processes that failed, and are none of those that made the command fail: there may be thousands. */
struct names {
    const char **list; /* sorted */
    size_t count;
};

/* Programs that a script starts in its traps only, and when the first of them may have begun. */
struct trap_words {
    const json_t *names;
    double start;
};

struct others {
    struct names before; /* the job has survived those */
    struct names after;  /* begun when it had failed: a script that cleans up */
    struct trap_words *traps;
    size_t trap_count;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Without memory for them none is known. Free the list. */
static void find_names(const struct job_end *end, bool after, struct names *ret_names)
{
    const struct job_model *model = end->model;
    double failed = cause_chain_end(end, 0);
    *ret_names = (struct names){.list = calloc(model->ended_count + 1, sizeof(char *))};
    for (size_t i = 0; ret_names->list && i < model->ended_count; i++) {
        const struct job_process *process = &model->ended[i];
        if (process->status && (after ? process->start >= failed : process->end < failed) &&
            cause_chain_at(end, process->pid) < 0)
            ret_names->list[ret_names->count++] = process->name;
    }
    if (ret_names->count)
        qsort(ret_names->list, ret_names->count, sizeof(char *), by_name);
}

/* Of the scripts of the chain. Without memory for them none is known. Free the list. */
static void find_traps(const struct job_end *end, struct others *others)
{
    const struct job_model *model = end->model;
    others->traps = calloc(json_array_size(end->chain) + 1, sizeof *others->traps);
    others->trap_count = 0;
    for (size_t at = 0; others->traps && at < json_array_size(end->chain); at++) {
        pid_t pid = (pid_t)json_integer_value(json_object_get(json_array_get(end->chain, at), "pid"));
        const struct layer_place *place = layers_place(&model->layers, pid);
        double start = at ? cause_chain_end(end, (int)at - 1) : INFINITY;
        if (!place || !place->trap_only)
            continue;
        for (size_t i = 0; i < model->ended_count; i++)
            if (model->ended[i].pid == pid)
                start = fmin(start, culprit_trap_start(model, &model->ended[i]));
        others->traps[others->trap_count++] = (struct trap_words){place->trap_only, start};
    }
}

/* What stands behind "job.sh: line 4: " of bash, or "job.sh: 4: " of others. */
static const char *behind_script(const char *text)
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

/* With the name of a program that a script started in a trap, or that it did not find there. */
static bool is_of_trap(const struct others *others, const char *text, double seconds)
{
    size_t index;
    const json_t *name;
    for (size_t i = 0; text && i < others->trap_count; i++)
        json_array_foreach(others->traps[i].names, index, name)
        {
            if (seconds >= others->traps[i].start && (begins_with(text, json_string_value(name)) ||
                                                      begins_with(behind_script(text), json_string_value(name))))
                return true;
        }
    return false;
}

/* With the name of one of them, and of none of the chain. */
static bool is_of_another(const struct job_end *end, const struct names *others, const char *text)
{
    char name[JOB_NAME_SIZE];
    const char *key = name;
    for (size_t at = 0; at < json_array_size(end->chain); at++)
        if (begins_with_name(end, at, text))
            return false;
    /* a name may have a ':' itself */
    for (size_t len = 0; text && others->count && len < sizeof name && text[len]; len++) {
        name[len] = 0;
        if (text[len] == ':' && len && bsearch(&key, others->list, others->count, sizeof(char *), by_name))
            return true;
        name[len] = text[len];
    }
    return false;
}

/* What failed first began only after it. */
static bool is_older(const struct job_end *end, double seconds)
{
    const json_t *start = json_object_get(json_array_get(end->chain, 0), "start_seconds");
    return json_array_size(end->chain) > 1 && json_is_number(start) &&
           seconds < json_number_value(start) - SEEN_SECONDS;
}

/* Whether a script above what failed first, or above the at-th of the chain, prints such a line by itself. */
static bool is_printed_above(const struct job_end *end, size_t at, const char *text)
{
    size_t index;
    const json_t *begin;
    for (at++; text && at < json_array_size(end->chain); at++) {
        pid_t pid = (pid_t)json_integer_value(json_object_get(json_array_get(end->chain, at), "pid"));
        const struct layer_place *place = layers_place(&end->model->layers, pid);
        json_array_foreach(place ? place->prints : NULL, index, begin)
        {
            const char *known = json_string_value(begin);
            if (known && *known && strncmp(text, known, strlen(known)) == 0)
                return true;
        }
    }
    return false;
}

/* Before what failed first had ended: else it may tell why that was. */
static bool is_of_script(const struct job_end *end, const json_t *record)
{
    return json_array_size(end->chain) > 1 &&
           cause_written_seconds(record) < cause_chain_end(end, 0) - COARSE_SECONDS &&
           is_printed_above(end, 0, json_string_value(json_object_get(record, "text")));
}

/* What a launcher says that the job has gone on after: it may be read only later. */
static bool is_of_tolerated_launcher(const struct job_end *end, const char *pattern)
{
    bool tolerated = false;
    if (!pattern || strcmp(pattern, "mpi_abort") != 0 || end->rank)
        return false;
    for (size_t i = 0; i < end->model->ended_count; i++) {
        const struct job_process *process = &end->model->ended[i];
        if (starter_of(process->name) != STARTER_LAUNCHER)
            continue;
        if (!cause_was_tolerated(end, process->end))
            return false;
        tolerated = true;
    }
    return tolerated;
}

/* "WARNING cache: ...", "12:01:02 [WARNING] ...". */
static bool is_warned_of(const char *text)
{
    enum { LABEL_WITHIN = 40 };
    static const char word[] = "warn";
    const char *at = text ? strcasestr(text, word) : NULL;
    return at && at - text < LABEL_WITHIN && (at == text || !isalnum((unsigned char)at[-1]));
}

/* Of an error with a cause outside the program, that this only warns of it. */
static bool is_warning(const json_t *record)
{
    const char *text;
    return error_of(record, &text) >= 0 && is_warned_of(text);
}

/* That nobody reads any more what it writes: of another one of a pipeline, which has failed because of that. */
static bool is_of_writer(const struct job_end *end, const json_t *record)
{
    const struct job_model *model = end->model;
    const char *text = json_string_value(json_object_get(record, "text"));
    if (!text || (!strcasestr(text, strerrordesc_np(EPIPE)) && !strstr(text, "BrokenPipe")) ||
        begins_with_name(end, 0, text))
        return false;
    for (size_t i = 0; i < model->ended_count; i++)
        if (culprit_has_failed(&model->ended[i]) && cause_chain_at(end, model->ended[i].pid) < 0 &&
            model->ended[i].start < cause_chain_end(end, 0) &&
            model->ended[i].end >= cause_chain_end(end, 0) - CAUSE_AT_ONCE_SECONDS)
            return true;
    return false;
}

/* What Python says of an exception. */
static bool is_exception(const json_t *record)
{
    static const char assertion[] = "AssertionError";
    const char *pattern = json_string_value(json_object_get(record, "pattern"));
    const char *text = json_string_value(json_object_get(record, "text"));
    return pattern && (strcmp(pattern, "exception") == 0 || strcmp(pattern, "validation") == 0 ||
                       (text && strcmp(pattern, "assertion") == 0 && strncmp(text, assertion, strlen(assertion)) == 0));
}

static bool is_of_python(const json_t *process)
{
    static const char python[] = "python";
    const char *name = json_string_value(json_object_get(process, "name"));
    const char *program = json_string_value(json_array_get(json_object_get(process, "argv"), 0));
    return (name && strncmp(name, python, sizeof python - 1) == 0) ||
           (program && strncmp(text_base(program), python, sizeof python - 1) == 0);
}

/* What another stage of the pipeline says that failed later, as it got no more, or too little. */
static bool is_of_later_stage(const struct job_end *end, const json_t *record)
{
    static const char python[] = "python";
    const struct job_model *model = end->model;
    const json_t *first = json_array_get(end->chain, 0);
    pid_t pid = (pid_t)json_integer_value(json_object_get(first, "pid"));
    pid_t parent = (pid_t)json_integer_value(json_object_get(json_array_get(end->chain, 1), "pid"));
    const char *text = json_string_value(json_object_get(record, "text"));
    if (!parent || cause_written_seconds(record) < cause_chain_end(end, 0) - COARSE_SECONDS)
        return false;
    for (size_t i = 0; text && i < model->ended_count; i++) {
        const struct job_process *other = &model->ended[i];
        bool beside = other->ppid == parent && other->pid != pid && other->start <= cause_chain_end(end, 0) &&
                      other->end >= cause_chain_end(end, 0);
        if (!beside || !culprit_has_failed(other) || begins_with_name(end, 0, text))
            continue;
        bool exception = is_exception(record) && strncmp(other->name, python, sizeof python - 1) == 0;
        if (begins_with(text, other->name) || (exception && !is_of_python(first)))
            return true;
    }
    return false;
}

static enum said said_of(const struct job_end *end, const struct others *others, const json_t *record)
{
    enum line_level level = line_level_of(json_string_value(json_object_get(record, "level")));
    const char *text = json_string_value(json_object_get(record, "text"));
    const char *pattern = json_string_value(json_object_get(record, "pattern"));
    double seconds = record_seconds(record);
    if (seconds < cause_chain_end(end, 0) - NEAR_SECONDS || seconds > end->seconds + CAUSE_AT_ONCE_SECONDS ||
        cause_was_tolerated(end, seconds) || is_of_tolerated_launcher(end, pattern))
        return SAID_NOTHING;
    if (is_of_writer(end, record) || is_of_later_stage(end, record))
        return SAID_NOTHING;
    if (level == LINE_ERROR && is_consequence(end, record))
        return SAID_CONSEQUENCE;
    if (begins_with_name(end, 0, text) && is_just_before(cause_chain_end(end, 0), seconds))
        return is_older(end, cause_written_seconds(record)) ? SAID_OF_ANOTHER : SAID_BY_ITSELF;
    if (is_of_another(end, &others->after, text) || is_of_trap(others, text, seconds))
        return SAID_NOTHING;
    bool older = is_older(end, cause_written_seconds(record)) || is_of_script(end, record);
    if (level == LINE_ERROR && !is_warning(record))
        return older || is_of_another(end, &others->before, text) ? SAID_OF_ANOTHER : SAID_ERROR;
    bool number = !pattern || strcmp(pattern, "nan") == 0; /* many programs go on with these */
    return level <= LINE_WARNING && !number && seconds >= cause_chain_end(end, 0) - CAUSE_FAILURE_SECONDS && !older &&
                   !is_of_another(end, &others->before, text)
               ? SAID_HINT
               : SAID_NOTHING;
}

/* All lines in their order: errors that other lines have pushed out of the list of all, then that. A new reference. */
static json_t *all_lines(const struct layers *layers)
{
    const json_t *first = json_array_get(layers->logs.records, 0);
    json_t *lines = json_array(), *record;
    size_t index;
    json_array_foreach(layers->errors.records, index, record)
    {
        if (record_seconds(record) < record_seconds(first))
            json_array_append(lines, record);
    }
    json_array_extend(lines, layers->logs.records);
    return lines;
}

/* The same, with the line of the user's code that raised it. */
static bool is_traceback(const json_t *record)
{
    return is_exception(record) && json_is_string(json_object_get(record, "place"));
}

/* Whether one program of Python alone can have said what was said then: with others that ran at the same time, their exceptions follow
 * of the first one. Those that were over when what failed began have said what stands above. */
static bool is_python_alone(const struct job_end *end, double seconds)
{
    static const char python[] = "python";
    const struct job_model *model = end->model;
    size_t index, failed = 0;
    json_t *process;
    const json_t *start = json_object_get(json_array_get(end->chain, 0), "start_seconds");
    const double since = json_is_number(start) ? json_number_value(start) : 0;
    json_array_foreach(end->chain, index, process)
    {
        if (starter_of(json_string_value(json_object_get(process, "name"))) == STARTER_LAUNCHER)
            return false;
    }
    for (size_t i = 0; i < model->ended_count; i++)
        failed += culprit_has_failed(&model->ended[i]) && WIFEXITED(model->ended[i].status) &&
                  model->ended[i].end >= fmax(seconds - CAUSE_AT_ONCE_SECONDS, since) &&
                  strncmp(model->ended[i].name, python, sizeof python - 1) == 0;
    return !end->rank && failed < 2;
}

/* Whether Python ended otherwise than by an exception that nobody caught, and said something else last, or nothing but a signal ended it:
 * it has caught the exceptions that it has told of. */
static bool has_caught(const struct job_end *end, double seconds)
{
    static const char python[] = "python";
    const json_t *first = json_array_get(end->chain, 0), *last = end->model->layers.last_lines;
    const json_t *lines = json_object_get(last, "lines");
    const char *name = json_string_value(json_object_get(first, "name"));
    const char *line = json_string_value(json_array_get(lines, json_array_size(lines) - 1));
    const char *file = json_string_value(json_object_get(last, "file"));
    int status = cause_chain_status(first);
    if (!name || strncmp(name, python, sizeof python - 1) != 0 || status == JOB_STATUS_UNKNOWN || !status ||
        (WIFEXITED(status) && WEXITSTATUS(status) == 1) || !is_python_alone(end, seconds))
        return false;
    return WIFSIGNALED(status) || (file && strcmp(file, "stderr") == 0 && line && *line);
}

static bool is_last_line(const struct job_end *end, const json_t *record)
{
    const json_t *lines = json_object_get(end->model->layers.last_lines, "lines");
    const char *line = json_string_value(json_array_get(lines, json_array_size(lines) - 1));
    const char *text = json_string_value(json_object_get(record, "text"));
    return line && text && strcmp(line, text) == 0;
}

/* Those do not count, nor what stands directly above one of them, as logging.exception writes it. */
static void drop_caught(const struct job_end *end, const json_t *lines, enum said *said)
{
    for (size_t i = json_array_size(lines); i-- > 0;) {
        const json_t *record = json_array_get(lines, i);
        double seconds = record_seconds(record);
        if (!is_traceback(record) || !has_caught(end, seconds) || (!cause_signal(end) && is_last_line(end, record)))
            continue;
        said[i] = SAID_NOTHING;
        for (; i > 0 && !is_traceback(json_array_get(lines, i - 1)) &&
               record_seconds(json_array_get(lines, i - 1)) >= seconds - SEEN_SECONDS;
             i--)
            said[i - 1] = SAID_NOTHING;
    }
}

/* What cleans up, or takes results away, or a program that something which failed was to make, is not there: that tells less than an
 * error that was said before, or in another file. */
static void drop_misses(const struct job_end *end, const struct others *others, const json_t *lines, enum said *said)
{
    enum { NOT_FOUND = 127 };
    const char *name = json_string_value(json_object_get(json_array_get(end->chain, 0), "name"));
    int status = cause_chain_status(json_array_get(end->chain, 0));
    bool missed = culprit_is_utility(name) || (status == W_EXITCODE(NOT_FOUND, 0) && others->before.count);
    for (size_t i = 0; missed && i < json_array_size(lines); i++) {
        const json_t *record = json_array_get(lines, i), *file = json_object_get(record, "file");
        bool error = false;
        for (size_t j = 0; j < json_array_size(lines); j++) /* each file is read by itself */
            error |= (said[j] == SAID_ERROR || said[j] == SAID_OF_ANOTHER) &&
                     (j < i || !json_equal(json_object_get(json_array_get(lines, j), "file"), file));
        if (said[i] == SAID_BY_ITSELF && error &&
            strstr(json_string_value(json_object_get(record, "text")), strerrordesc_np(ENOENT)))
            said[i] = SAID_HINT;
    }
}

/* Nor errors that make has got over, which it says below them; above are those of another target. */
static void drop_made_anyway(const json_t *lines, enum said *said)
{
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *record = json_array_get(lines, i);
        const char *pattern = json_string_value(json_object_get(record, "pattern"));
        bool ignored = pattern && strcmp(pattern, "made_anyway") == 0;
        for (size_t j = i; ignored && j-- > 0 && said[j] != SAID_CONSEQUENCE;)
            if (said[j] == SAID_ERROR &&
                json_equal(json_object_get(json_array_get(lines, j), "file"), json_object_get(record, "file")))
                said[j] = SAID_OF_ANOTHER;
    }
}

/* Nor what a program says to have got over, below in the same file. */
static void drop_recovered(const json_t *lines, enum said *said)
{
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *record = json_array_get(lines, i);
        const char *pattern = json_string_value(json_object_get(record, "pattern"));
        for (size_t j = i; pattern && strcmp(pattern, "recovered") == 0 && j-- > 0;)
            if (json_equal(json_object_get(json_array_get(lines, j), "file"), json_object_get(record, "file")))
                said[j] = SAID_NOTHING;
    }
}

/* That it ends, or what stands above, is no reason by itself. */
static bool tells_of_giving_up(const char *text)
{
    static const char *const given_up[] = {"abort", "giv",   "exit",     "stop",  "terminat", "quit",
                                           "above", "error", "previous", "fail ", "failed",   "shutting down"};
    for (size_t i = 0; i < sizeof given_up / sizeof *given_up; i++)
        if (strcasestr(text, given_up[i]))
            return true;
    return false;
}

/* Nor an error after which its program went on for long, with lines in the same file, to final words of its own. */
static void drop_gone_on(const struct job_end *end, const json_t *lines, enum said *said)
{
    enum { LINES_LEAST = 20, LINES_MANY = 500 };
    static const double LONG_SECONDS = 1;
    _cleanup_(buf_done) struct buf words = BUF_INIT;
    const json_t *last = cause_put_last_words(&words, end, 0);
    json_int_t count = json_integer_value(json_object_get(last, "line"));
    double ended = record_seconds(last) - json_number_value(json_object_get(last, "quiet_seconds"));
    if (!last || !count || !words.len || tells_of_giving_up(cause_text(&words)))
        return;
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *record = json_array_get(lines, i);
        json_int_t line = json_integer_value(json_object_get(record, "line")), behind = count - line;
        if (line > 0 && json_equal(json_object_get(record, "file"), json_object_get(last, "file")) &&
            (behind >= LINES_MANY || (behind >= LINES_LEAST && ended - cause_written_seconds(record) >= LONG_SECONDS)))
            said[i] = SAID_NOTHING;
    }
}

/* Of a builtin of the shell that failed first, by itself, as "job.sh: line 5: cd: run2: No such file or directory": with the status of
 * the last one it ended, the others it has gone on after. */
static bool is_of_builtin(const struct job_end *end, const json_t *record)
{
    const json_t *first = json_array_get(end->chain, 0), *parent = json_array_get(end->chain, 1);
    const json_t *argv = json_object_get(first, "argv");
    const char *text = json_string_value(json_object_get(record, "text"));
    return text && starter_is_shell(json_string_value(json_object_get(first, "name")), argv) &&
           !(parent && json_equal(argv, json_object_get(parent, "argv"))) && begins_with_name(end, 0, text) &&
           behind_script(text) != text;
}

/* Whether the exception stands directly below what Python said of it, as logging.exception writes it. */
static bool is_below(const json_t *lines, const json_t *exception, const json_t *said)
{
    size_t index;
    const json_t *record, *above = NULL;
    json_array_foreach(lines, index, record)
    {
        if (record == exception)
            break;
        above = record;
    }
    return above == said && json_equal(json_object_get(exception, "file"), json_object_get(said, "file")) &&
           record_seconds(exception) - record_seconds(said) < SEEN_SECONDS;
}

/* "FATAL: ..." or "... CRITICAL ...", and not that it gives up because of another. */
static bool is_graver(const char *text)
{
    static const char *const words[] = {"FATAL", "CRITICAL"};
    const char *word = NULL;
    for (size_t i = 0; text && !word && i < sizeof words / sizeof *words; i++)
        if ((word = strstr(text, words[i])))
            word += strlen(words[i]);
    return word && word[strspn(word, " :]>|-*")] && !tells_of_giving_up(word);
}

/* An error that its log went on after, with lines that are none, until a graver one ended it; else NULL. */
static const json_t *find_graver(const json_t *lines, const enum said *said, const json_t *first)
{
    enum { LINES_BETWEEN = 2 };
    const json_t *record, *file = json_object_get(first, "file");
    json_int_t before = json_integer_value(json_object_get(first, "line"));
    size_t index;
    bool behind = false;
    if (is_graver(json_string_value(json_object_get(first, "text"))))
        return NULL;
    json_array_foreach(lines, index, record)
    {
        json_int_t line = json_integer_value(json_object_get(record, "line"));
        behind |= record == first;
        if (!behind || said[index] < SAID_ERROR || !json_equal(json_object_get(record, "file"), file))
            continue;
        if (before > 0 && line > before + LINES_BETWEEN &&
            is_graver(json_string_value(json_object_get(record, "text"))))
            return record;
        before = line;
    }
    return NULL;
}

/* Of the exceptions the last one, if it is that a command failed. */
static const json_t *find_told(const json_t *lines, const enum said *said)
{
    static const char told[] = "CalledProcessError: Command ";
    for (size_t i = json_array_size(lines); i-- > 0;) {
        const json_t *record = json_array_get(lines, i);
        const char *text = json_string_value(json_object_get(record, "text"));
        if (is_traceback(record) && said[i] >= SAID_ERROR)
            return text && strstr(text, told) ? record : NULL;
    }
    return NULL;
}

/* But for their numbers, of which they have some. */
static bool is_alike(const char *one, const char *other)
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

/* Whether a program of its name had failed before what failed first: then each may have said the same. */
static bool has_failed_before(const struct job_end *end)
{
    const json_t *first = json_array_get(end->chain, 0);
    const char *name = json_string_value(json_object_get(first, "name"));
    double start = json_number_value(json_object_get(first, "start_seconds"));
    for (size_t i = 0; name && i < end->model->ended_count; i++)
        if (culprit_has_failed(&end->model->ended[i]) && end->model->ended[i].end <= start + SEEN_SECONDS &&
            strcmp(end->model->ended[i].name, name) == 0)
            return true;
    return false;
}

/* What programs said of the failure. Errors come in bursts: a program goes on after one, tells what follows of it, or others fail
 * because of it. So it is the first line of the last burst; of it one that names a cause outside the program, if it has one. But of
 * exceptions the last one ended the program, which had handled the others; one that is raised once more was raised first. */
void cause_look_at_said(const struct job_end *end, struct cause_said *ret_said)
{
    json_t *lines = all_lines(&end->model->layers), *record;
    size_t count = json_array_size(lines), index, builtins = 0;
    const json_t *first = NULL, *outside = NULL, *exception = NULL;
    enum said most = SAID_NOTHING;
    const char *text;
    double burst = 0;
    const bool before = has_failed_before(end);
    struct others others;
    find_names(end, false, &others.before);
    find_names(end, true, &others.after);
    find_traps(end, &others);
    _cleanup_(freep) enum said *said = calloc(count + 1, sizeof *said);
    for (index = 0; said && index < count; index++) {
        record = json_array_get(lines, index);
        said[index] = said_of(end, &others, record);
    }
    if (said) {
        drop_caught(end, lines, said);
        drop_misses(end, &others, lines, said);
        drop_made_anyway(lines, said);
        drop_recovered(lines, said);
        drop_gone_on(end, lines, said);
    }
    for (index = 0; said && index < count; index++) {
        double seconds = record_seconds(json_array_get(lines, index));
        burst = said[index] > most || (said[index] == most && seconds > burst) ? seconds : burst;
        most = said[index] > most ? said[index] : most;
    }
    for (index = count; most && index-- > 0;) {
        record = json_array_get(lines, index);
        double seconds = record_seconds(record);
        if (said[index] != most || seconds < burst - CAUSE_AT_ONCE_SECONDS)
            continue;
        int error = error_of(record, &text);
        burst = burst < seconds ? burst : seconds;
        bool builtin = is_of_builtin(end, record);
        const char *later = json_string_value(json_object_get(first, "text"));
        if ((builtin && builtins++) || (before && is_alike(text, later)))
            continue;
        first = record;
        if (is_traceback(record) &&
            (!exception || json_equal(json_object_get(record, "text"), json_object_get(exception, "text"))))
            exception = record;
        if (error >= 0 && (errors[error].error || !errors[error].once))
            outside = record;
    }
    if (exception && is_python_alone(end, burst) &&
        (is_exception(first) || (is_of_python(json_array_get(end->chain, 0)) && is_below(lines, exception, first))))
        first = exception;
    free(others.before.list);
    free(others.after.list);
    free(others.traps);
    const json_t *graver = most >= SAID_ERROR && first ? find_graver(lines, said, first) : NULL;
    first = outside ? outside : graver ? graver : first;
    const json_t *told = said ? find_told(lines, said) : NULL;
    if (told && first && record_seconds(told) < record_seconds(first))
        told = NULL;
    json_decref(lines); /* the layers have them, too */
    *ret_said = (struct cause_said){.record = first, .said = most, .told = told};
}

void cause_put_said(struct buf *out, const struct job_end *end, enum said least, double seconds)
{
    const json_t *record = end->said->record;
    if (record && end->said->said >= least && is_just_before(seconds, record_seconds(record)))
        cause_cut(out, json_string_value(json_object_get(record, "text")));
}

void cause_put_said_by(struct buf *out, const struct job_end *end, const char *name, double seconds)
{
    const json_t *record;
    for (size_t i = 0; !out->len && (record = cause_last(&end->model->layers.logs, i)) != NULL; i++) {
        const char *text = json_string_value(json_object_get(record, "text"));
        if (line_level_of(json_string_value(json_object_get(record, "level"))) <= LINE_WARNING &&
            begins_with(text, name) && is_just_before(seconds, record_seconds(record)))
            cause_cut(out, text);
    }
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

/* It began with the name of a program that is over. */
static bool is_of_program(const struct job_model *model, const char *text)
{
    bool found = false;
    for (size_t i = 0; i < model->ended_count && !found; i++)
        found = begins_with(text, model->ended[i].name);
    return found;
}

/* "solver: no convergence after 500 iterations", with whatever name a program has for itself: what it could not do, or what it lacks. */
static bool tells_of_failure(const char *text)
{
    static const char *const words[] = {"cannot ",    "can't ",    "could not ", "unable to ",
                                        "failed to ", "giving up", "must be "};
    static const char lacks[] = "no ";
    size_t len = 0;
    while (isalnum((unsigned char)text[len]) || (text[len] && strchr("_-./[]", text[len])))
        len++;
    if (!len || text[len] != ':' || text[len + 1] != ' ')
        return false;
    text += len + strlen(": ");
    bool tells = strncasecmp(text, lacks, strlen(lacks)) == 0 && islower((unsigned char)text[strlen(lacks)]);
    for (size_t i = 0; i < sizeof words / sizeof *words && !tells; i++)
        tells = strcasestr(text, words[i]) != NULL;
    return tells;
}

/* Whether it ended as its language ends a program that gives up with a text: sys.exit("text") of Python, die of Perl, STOP of Fortran,
 * echo and exit of a shell; another program with a complaint. */
static bool gives_up_with_text(const struct job_model *model, const json_t *process, const char *text)
{
    static const char *const languages[] = {"python", "perl"};
    static const char stop[] = "STOP ";
    const char *name = json_string_value(json_object_get(process, "name"));
    const char *program = json_string_value(json_array_get(json_object_get(process, "argv"), 0));
    bool shell = starter_is_shell(name, json_object_get(process, "argv"));
    if (!json_integer_value(json_object_get(process, "exit_code")))
        return false;
    for (size_t i = 0; i < sizeof languages / sizeof *languages && !shell; i++) {
        size_t len = strlen(languages[i]);
        if ((name && strncmp(name, languages[i], len) == 0) ||
            (program && strncmp(text_base(program), languages[i], len) == 0))
            return true;
    }
    if (strncmp(text, stop, sizeof stop - 1) == 0)
        return true;
    return (shell ? cause_is_complaint(text) : tells_of_failure(text)) && !is_of_program(model, text);
}

/* Whether the line is all that standard error has, and no other program's, nor a shell's: that may as well have told of a step. */
static bool is_all_it_said(const struct job_model *model, const json_t *process, const struct log_last_record *row)
{
    const char *line = json_string_value(json_array_get(row->lines, 0));
    return line && json_array_size(row->lines) == 1 && strcmp(row->file, "stderr") == 0 &&
           json_integer_value(json_object_get(process, "exit_code")) && !is_of_program(model, line) &&
           !starter_is_shell(json_string_value(json_object_get(process, "name")), json_object_get(process, "argv"));
}

/* Whether the last line is as the one before but for its numbers, as of steps. */
static bool is_one_of_many(const json_t *lines)
{
    const size_t count = json_array_size(lines);
    return count > 1 && is_alike(json_string_value(json_array_get(lines, count - 1)),
                                 json_string_value(json_array_get(lines, count - 2)));
}

/* The last line of what a program wrote, but of steps; an indented one goes on with another, unless all are, as the lists of Fortran. NULL: none. */
static const char *last_of_own(const json_t *lines)
{
    size_t count = json_array_size(lines);
    const char *last = json_string_value(json_array_get(lines, count - 1));
    const char *before = count > 1 ? json_string_value(json_array_get(lines, count - 2)) : last;
    if (!last || !*last || is_one_of_many(lines) || (*last == ' ' && (!before || *before != ' ')) ||
        (isspace((unsigned char)*last) && *last != ' '))
        return NULL;
    return last + strspn(last, " ");
}

/* What stands at the end of a file that it had for itself. NULL: it had none. */
static const json_t *put_own_words(struct buf *out, const struct job_end *end, int at)
{
    const json_t *record, *pid = json_object_get(json_array_get(end->chain, (size_t)at), "pid");
    for (size_t i = 0; (record = cause_last(&end->model->layers.last_words, i)) != NULL; i++) {
        const char *last = last_of_own(json_object_get(record, "lines"));
        if (!last || !json_equal(pid, json_object_get(record, "pid")))
            continue;
        cause_cut(out, last);
        return record;
    }
    return NULL;
}

/* "make: *** [Makefile:3: out] Error 1", of what had started the at-th of the chain: below what that said. */
static bool is_of_runner(const struct job_end *end, size_t at, const char *line)
{
    for (at++; at < json_array_size(end->chain); at++) {
        const char *name = json_string_value(json_object_get(json_array_get(end->chain, at), "name"));
        if (starter_of(name) == STARTER_RUNNER && begins_with_name(end, at, line))
            return true;
    }
    return false;
}

/* "job.sh: line 2:  1983 Segmentation fault      ./solver": how something ended that the shell had started. */
static bool is_notice(const char *line)
{
    const char *behind = line ? behind_script(line) : "";
    behind += behind == line ? 0 : strspn(behind, " ");
    size_t digits = strspn(behind, "0123456789");
    return behind != line && digits && behind[digits] == ' ';
}

/* The last line that begins with its name; else what the last one was, if it may have given up with that, and it came not after, from
 * whatever started it. An indented one goes on with another. */
const json_t *cause_put_last_words(struct buf *out, const struct job_end *end, int at)
{
    const json_t *record = end->model->layers.last_lines;
    struct log_last_record row;
    const char *said = NULL;
    const json_t *own = at < 0 ? NULL : put_own_words(out, end, at);
    if (!record || at < 0 || own)
        return own;
    record_read(record, RECORD_log_last, &row);
    size_t count = json_array_size(row.lines);
    const char *last = json_string_value(json_array_get(row.lines, count - 1));
    bool told = count > 1 && last && is_of_runner(end, (size_t)at, last);
    const char *before = told ? json_string_value(json_array_get(row.lines, count - 2)) : NULL;
    last = told ? before && (cause_is_complaint(before) || tells_of_failure(before)) ? before : NULL : last;
    last = last && !is_one_of_many(row.lines) && !is_warned_of(last) && !is_printed_above(end, (size_t)at, last) ? last
                                                                                                                 : NULL;
    double after = record_seconds(record) - row.quiet_seconds - cause_chain_end(end, at);
    const json_t *start = json_object_get(json_array_get(end->chain, (size_t)at), "start_seconds");
    bool older =
        json_is_number(start) && record_seconds(record) - row.quiet_seconds < json_number_value(start) - SEEN_SECONDS;
    pid_t pid = (pid_t)json_integer_value(json_object_get(json_array_get(end->chain, (size_t)at), "pid"));
    if (row.quiet_seconds < 0 || after < -CAUSE_FAILURE_SECONDS || older || !row.file ||
        (strcmp(row.file, "stdout") == 0 && !culprit_has_tee(end->model, pid)))
        return NULL;
    for (size_t i = json_array_size(row.lines); i-- > 0 && !said;) {
        const char *line = json_string_value(json_array_get(row.lines, i));
        said = begins_with_name(end, (size_t)at, line) && !is_notice(line) ? line : NULL;
    }
    const json_t *process = json_array_get(end->chain, (size_t)at);
    if (!said && last && *last && !isspace((unsigned char)*last) &&
        after <= (told ? CAUSE_AT_ONCE_SECONDS : SEEN_SECONDS) &&
        (gives_up_with_text(end->model, process, last) || is_all_it_said(end->model, process, &row)))
        said = last;
    if (!said)
        return NULL;
    cause_cut(out, said);
    return record;
}

const json_t *cause_put_number(struct buf *out, const struct job_end *end, double seconds)
{
    const json_t *last = end->model->layers.last_lines, *lines = json_object_get(last, "lines");
    const json_t *record = cause_last(&end->model->layers.logs, 0), *file = json_object_get(record, "file");
    const char *pattern = json_string_value(json_object_get(record, "pattern"));
    const char *text = json_string_value(json_object_get(record, "text"));
    const char *line = json_string_value(json_array_get(lines, json_array_size(lines) - 1));
    bool gone_on = json_equal(file, json_object_get(last, "file")) && line && text && strcmp(line, text) != 0;
    if (!pattern || strcmp(pattern, "nan") != 0 || gone_on || !is_just_before(seconds, record_seconds(record)))
        return NULL;
    cause_cut(out, json_string_value(file));
    buf_puts(out, " says: ");
    cause_cut(out, text);
    return record;
}

/* Whether a line is that something has ended, or of make and the like, or of a launcher. */
static bool tells_of_end(const struct job_end *end, const char *line)
{
    const json_t *record;
    for (size_t at = 0; at < json_array_size(end->chain); at++) {
        enum starter starter = starter_of(json_string_value(json_object_get(json_array_get(end->chain, at), "name")));
        if ((starter == STARTER_RUNNER || starter == STARTER_LAUNCHER) && begins_with_name(end, at, line))
            return true;
    }
    for (size_t i = 0; (record = cause_last(&end->model->layers.logs, i)) != NULL; i++) {
        const char *text = json_string_value(json_object_get(record, "text"));
        if (text && strcmp(text, line) == 0 && is_consequence(end, record))
            return true;
    }
    return false;
}

const json_t *cause_put_complaint(struct buf *out, const struct job_end *end, double seconds, bool any)
{
    const json_t *record = end->model->layers.last_lines;
    struct log_last_record row;
    const char *line = NULL;
    if (!record)
        return NULL;
    record_read(record, RECORD_log_last, &row);
    for (size_t i = json_array_size(row.lines); i-- > 0 && !line;) {
        line = json_string_value(json_array_get(row.lines, i));
        line = line && (tells_of_end(end, line) || is_notice(line)) ? NULL : line;
    }
    any &= line && row.file && strcmp(row.file, "stderr") == 0 && !strcasestr(line, "warn");
    bool then = row.quiet_seconds < 0 || is_just_before(seconds, record_seconds(record) - row.quiet_seconds);
    if (!line || !then || !(any || cause_is_complaint(line) || tells_of_failure(line)))
        return NULL;
    cause_cut(out, line + strspn(line, " \t"));
    return record;
}

/* What it says not to find, or an exception, is there, but its interpreter is not: "./run.py: its interpreter /opt/python is not there". */
bool cause_find_unexecuted(const struct job_end *end, struct cause *cause, bool sure)
{
    static const char why[] = ": its ";
    const char *unexecuted = json_string_value(json_object_get(end->model->end, "unexecuted"));
    const json_t *records[] = {end->said->record, cause_last(&end->model->layers.uncaught, 0)};
    const char *behind = unexecuted ? strstr(unexecuted, why) : NULL, *text;
    for (size_t i = 0; sure && behind && i < sizeof records / sizeof *records; i++) {
        if (!records[i] || cause_was_tolerated(end, record_seconds(records[i])))
            continue;
        error_of(records[i], &text);
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
        bool full = !is_no_space(error_of(record, &text)) || cause_full_disk(end);
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
    bool seen = record && is_no_space(error_of(record, &text)) && cause_full_disk(end);
    return record && (seen || !sure) && say_error(end, cause, record, sure);
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

/* Whether an error of the system was said just before, and by the process that failed first, if that is asked for. */
static bool says_why(const struct job_end *end, double seconds, bool itself)
{
    const char *text;
    const json_t *record = end->said->record;
    int error = record ? error_of(record, &text) : -1;
    return error >= 0 && errors[error].error && end->said->said >= (itself ? SAID_BY_ITSELF : SAID_ERROR) &&
           is_just_before(seconds, record_seconds(record));
}

bool cause_explains_abort(const struct job_end *end, double seconds)
{
    return says_why(end, seconds, false);
}

bool cause_says_why(const struct job_end *end)
{
    return says_why(end, cause_chain_end(end, 0), cause_signal(end) != SIGABRT);
}

/* What its parent has ended itself is not in the chain. */
bool cause_was_told(const struct job_end *end)
{
    const json_t *parent = json_array_get(end->chain, 1);
    int signo = json_integer_value(json_object_get(json_array_get(end->chain, 0), "signal")) ? cause_signal(end) : 0;
    return parent && (signo == SIGKILL || signo == SIGTERM || signo == SIGINT || signo == SIGHUP) &&
           json_is_integer(json_object_get(parent, "exit_code")) &&
           starter_lived_on(json_string_value(json_object_get(parent, "name")), json_object_get(parent, "argv"),
                            cause_chain_status(parent), signo);
}

/* Whether what the parent said is why it ended, not that a process was killed which it had started: it lived on. */
bool cause_outlived(const struct job_end *end)
{
    const json_t *parent = json_array_get(end->chain, 1), *code = json_object_get(parent, "exit_code");
    int signo = cause_signal(end);
    return signo && json_is_integer(code) && json_integer_value(code) != 128 + signo && !cause_was_told(end) &&
           end->said->said >= SAID_ERROR &&
           record_seconds(end->said->record) >= cause_chain_end(end, 0) - CAUSE_AT_ONCE_SECONDS;
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
    buf_puts(out, ", at ");
    cause_cut(out, text_base(cause_text(&path)));
    buf_printf(out, ":%d", atoi(end + strlen(middle)));
    return true;
}

/* "Error termination. Backtrace: at /home/u/grid.f90:6" */
bool cause_put_backtrace(struct buf *out, const struct job_end *end, double seconds)
{
    static const char at[] = " at ";
    const json_t *record;
    for (size_t i = 0; (record = cause_last(&end->model->layers.logs, i)) != NULL; i++) {
        const char *pattern = json_string_value(json_object_get(record, "pattern"));
        const char *text = json_string_value(json_object_get(record, "text"));
        const char *place = pattern && text && strcmp(pattern, "fortran_backtrace") == 0 ? strstr(text, at) : NULL;
        bool fault = pattern && text && strcmp(pattern, "fault_place") == 0;
        if ((!place && !fault) || fabs(record_seconds(record) - seconds) > CAUSE_AT_ONCE_SECONDS)
            continue;
        if (fault)
            return put_fault_place(out, text);
        buf_puts(out, ", at ");
        cause_cut(out, text_base(place + strlen(at)));
        return true;
    }
    return false;
}

/* "; then CalledProcessError: Command 'stage.sh' returned non-zero exit status 3, at run.py:2" */
static void put_told(struct cause *cause, const json_t *told)
{
    const char *place = json_string_value(json_object_get(told, "place"));
    buf_puts(&cause->said, "; then ");
    cause_cut(&cause->said, json_string_value(json_object_get(told, "text")));
    cause_end_sentence(&cause->said);
    buf_puts(&cause->said, ", at ");
    cause_cut(&cause->said, text_base(place));
    cause_add(cause, told);
}

/* What stood above the exception of Python that tells that a command failed, if that may be its words; NULL: nothing. */
static const char *words_above(const struct job_end *end, const json_t *told)
{
    const char *above = json_string_value(json_object_get(told, "above"));
    bool words = above && (begins_with_name(end, 0, above) || cause_is_complaint(above) || tells_of_failure(above));
    return words ? above : NULL;
}

json_t *cause_error_of(const struct job_end *end, double seconds)
{
    json_t *lines = all_lines(&end->model->layers), *record, *found = NULL;
    size_t index;
    json_array_foreach(lines, index, record)
    {
        bool error = line_level_of(json_string_value(json_object_get(record, "level"))) == LINE_ERROR;
        if (error && !is_consequence(end, record) && is_just_before(seconds, record_seconds(record)) &&
            (!found || is_exception(record) || !is_exception(found)))
            found = record;
    }
    json_incref(found);
    json_decref(lines);
    return found;
}

bool cause_tells_of_memory(const char *text)
{
    static const char *const words[] = {"alloc", "memory", "new thread"};
    bool tells = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        tells |= strcasestr(text, words[i]) != NULL;
    return tells && !is_of_own_heap(text);
}

void cause_say_log(const struct job_end *end, struct cause *cause, const json_t *record, const char *then)
{
    const char *file = json_string_value(json_object_get(record, "file"));
    cause_cut(&cause->where, file ? file : "?");
    const json_t *told = end->said->told;
    const char *above = told && told == record ? words_above(end, told) : NULL;
    cause_cut(&cause->what, above ? above : json_string_value(json_object_get(record, "text")));
    const char *place = json_string_value(json_object_get(record, "place"));
    const char *pattern = json_string_value(json_object_get(record, "pattern"));
    if (place && !above) {
        cause_end_sentence(&cause->what);
        buf_puts(&cause->said, ", at ");
        cause_cut(&cause->said, text_base(place));
    } else if (cause_tells_of_memory(cause_text(&cause->what))) {
        cause_put_memory_limit(&cause->said, end, cause);
    } else if (pattern && strcmp(pattern, "fortran_error") == 0) {
        cause_put_backtrace(&cause->said, end, record_seconds(record));
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

/* "; then plot (pid 12) ended with exit status 5", of what failed first, and has not said the error; but not of what cleans up, or is not there
 * because of that. */
static void put_then(struct buf *out, const struct job_end *end)
{
    enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 };
    const json_t *first = json_array_get(end->chain, 0);
    const char *name = json_string_value(json_object_get(first, "name"));
    int status = cause_chain_status(first);
    if (json_array_size(end->chain) < 2 || !name || culprit_is_utility(name) || status == JOB_STATUS_UNKNOWN ||
        !WIFEXITED(status) || WEXITSTATUS(status) == NOT_EXECUTABLE || WEXITSTATUS(status) == NOT_FOUND)
        return;
    buf_puts(out, "; then ");
    cause_cut(out, name);
    buf_printf(out, " (pid %d) ended with exit status %d", (int)json_integer_value(json_object_get(first, "pid")),
               WEXITSTATUS(status));
}

/* "ERROR STOP 3": it has said before why. */
static bool is_bare_stop(const json_t *record)
{
    static const char stop[] = "ERROR STOP";
    const char *text = json_string_value(json_object_get(record, "text"));
    if (!text || strncmp(text, stop, strlen(stop)) != 0)
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
                           : is_bare_stop(record) ? put_own_words(&cause->what, end, 0)
                                                  : NULL;
    if (before) {
        cause_cut(&cause->where, json_string_value(json_object_get(before, "file")));
        cause_end_sentence(&cause->what);
        buf_puts(&cause->said, "; then ");
        const char *then = json_string_value(json_object_get(record, "text"));
        size_t len = then ? strlen(then) : 0;
        while (len && then[len - 1] == ' ')
            len--;
        buf_append(&cause->said, then, text_fit(then ? then : "", len, THEN_COLUMNS));
        cause_add(cause, before);
        cause_add(cause, record);
        cause->note = NOTE(cause_log, .file = cause_text(&cause->where), .text = cause_text(&cause->what), .when = "",
                           .place = cause_text(&cause->said));
        return true;
    }
    _cleanup_(buf_done) struct buf then = BUF_INIT;
    if (end->said->said == SAID_OF_ANOTHER)
        put_then(&then, end);
    for (size_t i = end->model->ended_count; end->outlived && !then.len && i-- > 0;)
        if (end->model->ended[i].pid == end->outlived) {
            buf_puts(&then, "; it had gone on ");
            cause_put_outlived(&then, &end->model->ended[i]);
        }
    cause_say_log(end, cause, record, cause_text(&then));
    return true;
}
