/* SPDX-License-Identifier: Apache-2.0 */
/* Of all lines, the one that says most of the failure. */
#include "base/data/number.h"
#include "jobdir/layers/cause_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/data/cleanup.h"
#include "jobdir/layers/culprit.h"

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

/* Whether one program of Python alone can have said what was said then: with others that ran at the same time, their exceptions follow
 * of the first one. Those that were over when what failed began have said what stands above. */
static bool is_python_alone(const struct job_end *end, double seconds)
{
    const struct job_model *model = end->model;
    size_t index, failed = 0;
    json_t *process;
    const double since = cause_chain_start(end, 0);
    json_array_foreach(end->chain, index, process)
    {
        if (starter_of(member_string(process, "name")) == STARTER_LAUNCHER)
            return false;
    }
    for (size_t i = 0; i < model->ended_count; i++)
        failed += culprit_has_failed(&model->ended[i]) && WIFEXITED(model->ended[i].status) &&
                  model->ended[i].end >= number_max(seconds - CAUSE_AT_ONCE_SECONDS, since) &&
                  speaker_runs("python", model->ended[i].name, NULL);
    return !end->rank && failed < 2;
}

/* Whether Python ended otherwise than by an exception that nobody caught, and said something else last, or nothing but a signal ended it:
 * it has caught the exceptions that it has told of. */
static bool has_caught(const struct job_end *end, double seconds)
{
    const json_t *last = end->model->layers.last_lines;
    const char *line = lines_last(json_object_get(last, "lines"), 0);
    int status = cause_chain_status(json_array_get(end->chain, 0));
    if (!speaker_runs("python", cause_chain_name(end, 0), NULL) || status == JOB_STATUS_UNKNOWN || !status ||
        (WIFEXITED(status) && WEXITSTATUS(status) == 1) || !is_python_alone(end, seconds))
        return false;
    return WIFSIGNALED(status) || (strcmp(member_text(last, "file"), "stderr") == 0 && line && *line);
}

static bool is_last_line(const struct job_end *end, const json_t *record)
{
    const char *line = lines_last(json_object_get(end->model->layers.last_lines, "lines"), 0);
    const char *text = member_string(record, "text");
    return line && text && strcmp(line, text) == 0;
}

/* Those do not count, nor what stands directly above one of them, as logging.exception writes it. */
static void drop_caught(const struct job_end *end, const json_t *lines, enum said *said)
{
    for (size_t i = json_array_size(lines); i-- > 0;) {
        const json_t *record = json_array_get(lines, i);
        double seconds = record_seconds(record);
        if (!line_is_traceback(record) || !has_caught(end, seconds) ||
            (!cause_signal(end) && is_last_line(end, record)))
            continue;
        said[i] = SAID_NOTHING;
        for (; i > 0 && !line_is_traceback(json_array_get(lines, i - 1)) &&
               record_seconds(json_array_get(lines, i - 1)) >= seconds - SEEN_SECONDS;
             i--)
            said[i - 1] = SAID_NOTHING;
    }
}

/* What cleans up, or takes results away, or a program that something which failed was to make, is not there: that tells less than an
 * error that was said before, or in another file. */
static void drop_misses(const struct job_end *end, const struct speakers *speakers, const json_t *lines,
                        enum said *said)
{
    int status = cause_chain_status(json_array_get(end->chain, 0));
    bool missed = culprit_is_utility(cause_chain_name(end, 0)) ||
                  (status == W_EXITCODE(SHELL_NOT_FOUND, 0) && speakers->before.count);
    for (size_t i = 0; missed && i < json_array_size(lines); i++) {
        const json_t *record = json_array_get(lines, i);
        bool error = false;
        for (size_t j = 0; j < json_array_size(lines); j++) /* each file is read by itself */
            error |= (said[j] == SAID_ERROR || said[j] == SAID_OF_ANOTHER) &&
                     (j < i || !lines_are_of_one_file(json_array_get(lines, j), record));
        if (said[i] == SAID_BY_ITSELF && error && strstr(member_text(record, "text"), strerrordesc_np(ENOENT)))
            said[i] = SAID_HINT;
    }
}

/* Nor errors that make has got over, which it says below them; above are those of another target. */
static void drop_made_anyway(const json_t *lines, enum said *said)
{
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *record = json_array_get(lines, i);
        bool ignored = line_has_pattern(record, "made_anyway");
        for (size_t j = i; ignored && j-- > 0 && said[j] != SAID_CONSEQUENCE;)
            if (said[j] == SAID_ERROR && lines_are_of_one_file(json_array_get(lines, j), record))
                said[j] = SAID_OF_ANOTHER;
    }
}

/* Nor what a program says to have got over, below in the same file. */
static void drop_recovered(const json_t *lines, enum said *said)
{
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *record = json_array_get(lines, i);
        for (size_t j = line_has_pattern(record, "recovered") ? i : 0; j-- > 0;)
            if (lines_are_of_one_file(json_array_get(lines, j), record))
                said[j] = SAID_NOTHING;
    }
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
    if (!last || !count || !words.len || line_tells_of_giving_up(cause_text(&words)))
        return;
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *record = json_array_get(lines, i);
        json_int_t line = json_integer_value(json_object_get(record, "line")), behind = count - line;
        if (line > 0 && lines_are_of_one_file(record, last) &&
            (behind >= LINES_MANY || (behind >= LINES_LEAST && ended - line_written_seconds(record) >= LONG_SECONDS)))
            said[i] = SAID_NOTHING;
    }
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
    return above == said && lines_are_of_one_file(exception, said) &&
           record_seconds(exception) - record_seconds(said) < SEEN_SECONDS;
}

/* An error that its log went on after, with lines that are none, until a graver one ended it; else NULL. */
static const json_t *find_graver(const json_t *lines, const enum said *said, const json_t *first)
{
    enum { LINES_BETWEEN = 2 };
    const json_t *record;
    json_int_t before = json_integer_value(json_object_get(first, "line"));
    size_t index;
    bool behind = false;
    if (line_is_graver(member_string(first, "text")))
        return NULL;
    json_array_foreach(lines, index, record)
    {
        json_int_t line = json_integer_value(json_object_get(record, "line"));
        behind |= record == first;
        if (!behind || said[index] < SAID_ERROR || !lines_are_of_one_file(record, first))
            continue;
        if (before > 0 && line > before + LINES_BETWEEN && line_is_graver(member_string(record, "text")))
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
        const char *text = member_string(record, "text");
        if (line_is_traceback(record) && said[i] >= SAID_ERROR)
            return text && strstr(text, told) ? record : NULL;
    }
    return NULL;
}

/* Whether a program of its name had failed before what failed first: then each may have said the same. */
static bool has_failed_before(const struct job_end *end)
{
    const char *name = cause_chain_name(end, 0);
    double start = cause_chain_start(end, 0);
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
    struct speakers speakers;
    speakers_find(end, &speakers);
    _cleanup_(freep) enum said *said = calloc(count + 1, sizeof *said);
    for (index = 0; said && index < count; index++)
        said[index] = speakers_weigh(end, &speakers, json_array_get(lines, index));
    if (said) {
        drop_caught(end, lines, said);
        drop_misses(end, &speakers, lines, said);
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
        const struct line_error *error = line_error_of(record, &text);
        burst = burst < seconds ? burst : seconds;
        bool builtin = speaker_is_builtin(end, record);
        const char *later = member_string(first, "text");
        if ((builtin && builtins++) || (before && lines_are_alike(text, later)))
            continue;
        first = record;
        if (line_is_traceback(record) &&
            (!exception || json_equal(json_object_get(record, "text"), json_object_get(exception, "text"))))
            exception = record;
        if (error && (error->error || !error->once))
            outside = record;
    }
    const json_t *argv = json_object_get(json_array_get(end->chain, 0), "argv");
    if (exception && is_python_alone(end, burst) &&
        (line_is_exception(first) ||
         (speaker_runs("python", cause_chain_name(end, 0), argv) && is_below(lines, exception, first))))
        first = exception;
    speakers_done(&speakers);
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
    if (record && end->said->said >= least && cause_is_just_before(seconds, record_seconds(record)))
        cause_cut(out, member_string(record, "text"));
}

void cause_put_said_by(struct buf *out, const struct job_end *end, const char *name, double seconds)
{
    const json_t *record;
    for (size_t i = 0; !out->len && (record = cause_last(&end->model->layers.logs, i)) != NULL; i++) {
        const char *text = member_string(record, "text");
        if (line_level_of(member_string(record, "level")) <= LINE_WARNING && line_begins_with(text, name) &&
            cause_is_just_before(seconds, record_seconds(record)))
            cause_cut(out, text);
    }
}

json_t *cause_error_of(const struct job_end *end, double seconds)
{
    json_t *lines = all_lines(&end->model->layers), *record, *found = NULL;
    size_t index;
    json_array_foreach(lines, index, record)
    {
        bool error = line_level_of(member_string(record, "level")) == LINE_ERROR;
        if (error && !line_is_consequence(end, record) && cause_is_just_before(seconds, record_seconds(record)) &&
            (!found || line_is_exception(record) || !line_is_exception(found)))
            found = record;
    }
    json_incref(found);
    json_decref(lines);
    return found;
}

/* Whether an error of the system was said just before, and by the process that failed first, if that is asked for. */
static bool says_why(const struct job_end *end, double seconds, bool itself)
{
    const char *text;
    const json_t *record = end->said->record;
    const struct line_error *error = record ? line_error_of(record, &text) : NULL;
    return error && error->error && end->said->said >= (itself ? SAID_BY_ITSELF : SAID_ERROR) &&
           cause_is_just_before(seconds, record_seconds(record));
}

bool cause_explains_abort(const struct job_end *end, double seconds)
{
    return says_why(end, seconds, false);
}

bool cause_says_why(const struct job_end *end)
{
    return says_why(end, cause_chain_end(end, 0), cause_signal(end) != SIGABRT);
}

/* Whether what the parent said is why it ended, not that a process was killed which it had started: it lived on. */
bool cause_outlived(const struct job_end *end)
{
    const json_t *parent = json_array_get(end->chain, 1), *code = json_object_get(parent, "exit_code");
    int signo = cause_signal(end);
    return signo && json_is_integer(code) && json_integer_value(code) != SHELL_SIGNAL + signo && !cause_was_told(end) &&
           end->said->said >= SAID_ERROR &&
           record_seconds(end->said->record) >= cause_chain_end(end, 0) - CAUSE_AT_ONCE_SECONDS;
}
