/* SPDX-License-Identifier: Apache-2.0 */
/* What programs said last, before they ended or were ended: as log_last and log_words have it. */
#include "jobdir/layers/cause_internal.h"

#include <ctype.h>
#include <string.h>

#include "jobdir/layers/culprit.h"
#include "jobdir/text/text.h"

#define BETWEEN " / " /* lines */

/* It began with the name of a program that is over. */
static bool is_of_program(const struct job_model *model, const char *text)
{
    bool found = false;
    for (size_t i = 0; i < model->ended_count && !found; i++)
        found = line_begins_with(text, model->ended[i].name);
    return found;
}

/* Whether it ended as its language ends a program that gives up with a text: sys.exit("text") of Python, die of Perl, STOP of Fortran,
 * echo and exit of a shell; another program with a complaint. */
static bool gives_up_with_text(const struct job_model *model, const json_t *process, const char *text)
{
    static const char stop[] = "STOP ";
    const char *name = member_string(process, "name");
    const json_t *argv = json_object_get(process, "argv");
    bool shell = starter_is_shell(name, argv);
    if (!json_integer_value(json_object_get(process, "exit_code")))
        return false;
    if ((!shell && (speaker_runs("python", name, argv) || speaker_runs("perl", name, argv))) ||
        strncmp(text, stop, sizeof stop - 1) == 0)
        return true;
    return (shell ? cause_is_complaint(text) : line_tells_of_failure(text)) && !is_of_program(model, text);
}

/* Whether the line is all that standard error has, and no other program's, nor a shell's: that may as well have told of a step. */
static bool is_all_it_said(const struct job_model *model, const json_t *process, const struct log_last_record *row)
{
    const char *line = json_string_value(json_array_get(row->lines, 0));
    return line && json_array_size(row->lines) == 1 && strcmp(row->file, "stderr") == 0 &&
           json_integer_value(json_object_get(process, "exit_code")) && !is_of_program(model, line) &&
           !cause_is_shell(process);
}

/* "*****", "=====" and empty ones stand around what is said. */
static bool is_frame(const char *line)
{
    while (*line && !isalnum((unsigned char)*line) && (unsigned char)*line < 0x80)
        line++;
    return !*line;
}

/* How many lines behind the last one that says something. */
static size_t frames_behind(const json_t *lines)
{
    const char *line;
    size_t count = 0;
    while ((line = lines_last(lines, count)) != NULL && is_frame(line))
        count++;
    return line ? count : 0;
}

/* Whether the last line is as the one before but for its numbers, as of steps. */
static bool is_one_of_many(const json_t *lines)
{
    size_t behind = frames_behind(lines);
    return lines_are_alike(lines_last(lines, behind), lines_last(lines, behind + 1));
}

/* Make and the like, and launchers: what they say begins with their names. It may be NULL. */
static bool names_itself(const struct job_process *process)
{
    enum starter starter = starter_of(process ? process->name : NULL);
    return starter == STARTER_RUNNER || starter == STARTER_LAUNCHER;
}

/* A script that had started it prints such a line by itself, or make or a launcher begins what it says so. */
static bool is_of_starter(const struct job_model *model, const struct job_process *process, const char *line)
{
    enum { ABOVE_MOST = 8 };
    static const char *const of_time[] = {"real\t", "user\t", "sys\t", NULL}; /* a word of bash */
    const struct job_process *above = process;
    if (text_begins_with_one(line, of_time))
        return true;
    for (int i = 0; i < ABOVE_MOST && above; i++) {
        pid_t pid = above->ppid;
        above = job_model_ended(model, pid);
        if (speaker_place_prints(layers_place(&model->layers, pid), line) ||
            (names_itself(above) && line_begins_with(line, above->name)))
            return true;
    }
    return false;
}

/* No other program that had the same parent, and may have said something, was over when it began. */
static bool was_first(const struct job_model *model, const struct job_process *process)
{
    static const char *const silent[] = {"sleep", "test", "true", "false", NULL};
    bool first = true;
    for (size_t i = 0; i < model->ended_count && first; i++) {
        const struct job_process *other = &model->ended[i];
        first = other->ppid != process->ppid || other->pid == process->pid || other->start > process->start ||
                culprit_is_utility(other->name) || text_is_one(other->name, silent);
    }
    return first;
}

/* All that its parent may have said since is known: that is a script of which nothing else began when it was over, or make. */
static bool is_parent_known(const struct job_model *model, const struct job_process *process)
{
    const struct layer_place *place = layers_place(&model->layers, process->ppid);
    bool known = place && place->tested;
    if (names_itself(job_model_ended(model, process->ppid)))
        return true;
    for (size_t i = 0; known && i < json_array_size(place->prints); i++) {
        const char *begin = json_string_value(json_array_get(place->prints, i));
        known = begin && *begin;
    }
    for (size_t i = 0; known && i < model->ended_count; i++)
        known = model->ended[i].ppid != process->ppid || model->ended[i].pid == process->pid ||
                model->ended[i].start < process->end - SEEN_SECONDS;
    return known;
}

/* How many lines at the end of what a process wrote are others'; more than there are: it is not known which are its own. What was
 * written while it lived is its own; what a script prints by itself is the script's. Where what had started it has the same file, the
 * last line may be of that, but one that begins with the name of the process. */
static size_t behind_own(const struct job_model *model, const json_t *record)
{
    struct log_last_record row;
    record_read(record, RECORD_log_last, &row);
    const struct job_process *process = job_model_ended(model, (pid_t)row.pid);
    const double written = record_seconds(record) - row.quiet_seconds;
    const size_t frames = frames_behind(row.lines), count = json_array_size(row.lines);
    size_t behind = frames;
    if (!process || (row.quiet_seconds >= 0 && written < process->end - SEEN_SECONDS && written >= process->start))
        return frames;
    while (behind < count && is_of_starter(model, process, lines_last(row.lines, behind)))
        behind++;
    bool begun = row.quiet_seconds < 0 || written >= process->start - SEEN_SECONDS;
    if (!row.shared || (begun && (behind > frames ? was_first(model, process) : is_parent_known(model, process))))
        return behind;
    for (size_t i = behind; i < count && begun; i++)
        if (line_begins_with(lines_last(row.lines, i), process->name))
            return i;
    return SIZE_MAX;
}

/* The last line but so many of what a program wrote, but of steps; an indented one goes on with another, unless all are, as the lists of
 * Fortran. NULL: none. */
static const char *last_but(const json_t *lines, size_t behind)
{
    const size_t count = json_array_size(lines);
    const char *last = behind < count ? lines_last(lines, behind) : NULL;
    const char *before = count > behind + 1 ? lines_last(lines, behind + 1) : last;
    if (!last || !*last || (before != last && lines_are_alike(last, before)) ||
        (*last == ' ' && (!before || *before != ' ')) || (isspace((unsigned char)*last) && *last != ' '))
        return NULL;
    return last + strspn(last, " ");
}

static bool is_failure(const char *text)
{
    return cause_is_complaint(text) || line_tells_of_failure(text);
}

/* More than numbers, and a word. */
static bool is_sentence(const char *text)
{
    enum { WORDS = 2, LETTERS = 3 };
    unsigned words = 0;
    for (size_t len; *text && words < WORDS; text += len ? len : 1) {
        for (len = 0; isalpha((unsigned char)text[len]);)
            len++;
        words += len >= LETTERS;
    }
    return words == WORDS;
}

/* What standard output ended with beside the lines of standard error, where the last of these tells of no failure. NULL: nothing. */
static const char *beside(const json_t *record, const char *last)
{
    const json_t *output = json_object_get(record, "output");
    size_t behind = frames_behind(output);
    const char *line = lines_last(output, behind), *before;
    while ((before = lines_last(output, behind + 1)) != NULL && line && strcmp(line, before) == 0)
        behind++; /* as often as the program was started */
    line = last_but(output, behind);
    return line && !is_failure(last) && !line_is_warned_of(line) && is_sentence(line) ? line : NULL;
}

const json_t *cause_put_words_of(struct buf *out, const struct job_model *model, pid_t pid)
{
    const json_t *record;
    for (size_t i = 0; (record = cause_last(&model->layers.last_words, i)) != NULL; i++) {
        const bool its = json_integer_value(json_object_get(record, "pid")) == pid;
        const char *last = its ? last_but(json_object_get(record, "lines"), behind_own(model, record)) : NULL;
        if (!last)
            continue;
        cause_cut(out, last);
        return record;
    }
    return NULL;
}

const json_t *cause_put_own_words(struct buf *out, const struct job_end *end, int at)
{
    return cause_put_words_of(out, end->model, cause_chain_pid(end, (size_t)at));
}

/* Whether they stand in a file that what had started the process had, too: then they are its own only as far as that says so. */
static bool are_shared(const struct job_end *end, int at, const json_t *last)
{
    const json_t *record;
    bool shared = false;
    for (size_t i = 0; !shared && (record = cause_last(&end->model->layers.last_words, i)) != NULL; i++)
        shared = json_is_true(json_object_get(record, "shared")) && lines_are_of_one_file(record, last) &&
                 json_integer_value(json_object_get(record, "pid")) == cause_chain_pid(end, (size_t)at);
    return shared;
}

/* "make: *** [Makefile:3: out] Error 1", of what had started the at-th of the chain: below what that said. */
static bool is_of_runner(const struct job_end *end, size_t at, const char *line)
{
    for (at++; at < json_array_size(end->chain); at++) {
        const char *name = cause_chain_name(end, at);
        if (starter_of(name) == STARTER_RUNNER && speaker_is(end, at, line))
            return true;
    }
    return false;
}

/* The last line that begins with its name; else what the last one was, if it may have given up with that, and it came not after, from
 * whatever started it. */
const json_t *cause_put_last_words(struct buf *out, const struct job_end *end, int at)
{
    const json_t *record = end->model->layers.last_lines;
    struct log_last_record row;
    const char *said = NULL;
    const json_t *own = at < 0 ? NULL : cause_put_own_words(out, end, at);
    if (!record || at < 0 || own || are_shared(end, at, record))
        return own;
    record_read(record, RECORD_log_last, &row);
    const char *last = lines_last(row.lines, frames_behind(row.lines));
    bool told = json_array_size(row.lines) > 1 && last && is_of_runner(end, (size_t)at, last);
    const char *before = told ? lines_last(row.lines, 1) : NULL;
    last = told ? before && (cause_is_complaint(before) || line_tells_of_failure(before)) ? before : NULL : last;
    last = last && !is_one_of_many(row.lines) && !line_is_warned_of(last) && !speaker_is_above(end, (size_t)at, last)
               ? last
               : NULL;
    const double seconds = record_seconds(record) - row.quiet_seconds, after = seconds - cause_chain_end(end, at);
    if (row.quiet_seconds < 0 || after < -CAUSE_FAILURE_SECONDS || cause_is_before(end, (size_t)at, seconds) ||
        !row.file ||
        (strcmp(row.file, "stdout") == 0 && !culprit_has_tee(end->model, cause_chain_pid(end, (size_t)at))))
        return NULL;
    for (size_t i = json_array_size(row.lines); i-- > 0 && !said;) {
        const char *line = json_string_value(json_array_get(row.lines, i));
        said = speaker_is(end, (size_t)at, line) && !line_is_notice(line) ? line : NULL;
    }
    const json_t *process = json_array_get(end->chain, (size_t)at);
    if (!said && last && *last && !isspace((unsigned char)*last) &&
        after <= (told ? CAUSE_AT_ONCE_SECONDS : SEEN_SECONDS) &&
        (gives_up_with_text(end->model, process, last) || is_all_it_said(end->model, process, &row)))
        said = last;
    const char *output = said && said == last ? beside(record, said) : NULL;
    const struct job_process *speaker = job_model_ended(end->model, cause_chain_pid(end, (size_t)at));
    output = output && speaker_is_above(end, (size_t)at, output) ? NULL : output;
    if (!said || (output && (size_t)at + 1 < json_array_size(end->chain) &&
                  (!speaker || !is_parent_known(end->model, speaker)))) /* a script may have said that */
        return NULL;
    cause_cut(out, said);
    if (output) {
        buf_puts(out, BETWEEN);
        cause_cut(out, output);
    }
    return record;
}

const json_t *cause_put_said_last(struct buf *out, const struct job_end *end)
{
    enum { ROOM = 160 };
    const json_t *record = end->model->layers.last_lines, *lines = json_object_get(record, "lines");
    size_t behind = frames_behind(lines), from = behind, len = 0;
    const char *line, *below = NULL;
    for (; (line = lines_last(lines, from)) != NULL && !is_frame(line) && !lines_are_alike(line, below); from++) {
        len += strlen(line);
        if (below && len > ROOM)
            break;
        below = line;
    }
    for (; from-- > behind; buf_puts(out, from > behind ? BETWEEN : "")) {
        line = lines_last(lines, from);
        cause_cut(out, line + strspn(line, " \t"));
    }
    const char *output = below ? beside(record, lines_last(lines, behind)) : NULL;
    if (output) {
        buf_puts(out, BETWEEN);
        cause_cut(out, output);
    }
    return below ? record : NULL;
}

const json_t *cause_put_number(struct buf *out, const struct job_end *end, double seconds)
{
    const json_t *last = end->model->layers.last_lines, *record = cause_last(&end->model->layers.logs, 0);
    const char *text = member_string(record, "text"), *line = lines_last(json_object_get(last, "lines"), 0);
    bool gone_on = lines_are_of_one_file(record, last) && line && text && strcmp(line, text) != 0;
    if (!line_has_pattern(record, "nan") || gone_on || !cause_is_just_before(seconds, record_seconds(record)))
        return NULL;
    cause_cut(out, member_string(record, "file"));
    buf_puts(out, " says: ");
    cause_cut(out, text);
    return record;
}

/* Whether a line is that something has ended, or of make and the like, or of a launcher. */
static bool tells_of_end(const struct job_end *end, const char *line)
{
    const json_t *record;
    for (size_t at = 0; at < json_array_size(end->chain); at++) {
        enum starter starter = starter_of(cause_chain_name(end, at));
        if ((starter == STARTER_RUNNER || starter == STARTER_LAUNCHER) && speaker_is(end, at, line))
            return true;
    }
    for (size_t i = 0; (record = cause_last(&end->model->layers.logs, i)) != NULL; i++) {
        const char *text = member_string(record, "text");
        if (text && strcmp(text, line) == 0 && line_is_consequence(end, record))
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
        line = line && (tells_of_end(end, line) || line_is_notice(line)) ? NULL : line;
    }
    any &= line && row.file && strcmp(row.file, "stderr") == 0 && !strcasestr(line, "warn");
    bool then = row.quiet_seconds < 0 || cause_is_just_before(seconds, record_seconds(record) - row.quiet_seconds);
    if (!line || !then || !(any || cause_is_complaint(line) || line_tells_of_failure(line)))
        return NULL;
    cause_cut(out, line + strspn(line, " \t"));
    return record;
}
