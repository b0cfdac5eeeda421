/* SPDX-License-Identifier: Apache-2.0 */
/* Who has said a line, and so how much it has to do with the failure: what failed first, a stage beside it, a script, a trap, another program. */
#include "base/data/number.h"
#include "jobdir/layers/cause_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobdir/layers/culprit.h"
#include "jobdir/text/text.h"

static const double NEAR_SECONDS = 60;     /* before the failure */
static const double COARSE_SECONDS = 0.01; /* times of files are that coarse */

bool speaker_is(const struct job_end *end, size_t at, const char *text)
{
    const json_t *failed = json_array_get(end->chain, at), *argument;
    size_t index;
    if (line_begins_with(text, member_string(failed, "name")))
        return true;
    json_array_foreach(json_object_get(failed, "argv"), index, argument)
    {
        const char *word = json_string_value(argument);
        if (index && word && *word != '-')
            return line_begins_with(text, text_base(word)) || line_begins_with(text, word);
    }
    return false;
}

bool speaker_runs(const char *language, const char *name, const json_t *argv)
{
    const char *program = json_string_value(json_array_get(argv, 0));
    return (name && strncmp(name, language, strlen(language)) == 0) ||
           (program && strncmp(text_base(program), language, strlen(language)) == 0);
}

bool speaker_is_builtin(const struct job_end *end, const json_t *record)
{
    const json_t *first = json_array_get(end->chain, 0), *parent = json_array_get(end->chain, 1);
    const char *text = member_string(record, "text");
    return text && cause_is_shell(first) &&
           !json_equal(json_object_get(first, "argv"), json_object_get(parent, "argv")) && speaker_is(end, 0, text) &&
           line_behind_script(text) != text;
}

bool speaker_place_prints(const struct layer_place *place, const char *text)
{
    size_t index;
    const json_t *begin;
    json_array_foreach(place && text ? place->prints : NULL, index, begin)
    {
        const char *known = json_string_value(begin);
        if (known && *known && strncmp(text, known, strlen(known)) == 0)
            return true;
    }
    return false;
}

bool speaker_is_above(const struct job_end *end, size_t at, const char *text)
{
    bool is = false;
    for (at++; at < json_array_size(end->chain) && !is; at++)
        is = speaker_place_prints(cause_chain_place(end, at), text);
    return is;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Without memory for them none is known. */
static void find_names(const struct job_end *end, bool after, struct speaker_names *ret_names)
{
    const struct job_model *model = end->model;
    double failed = cause_chain_end(end, 0);
    *ret_names = (struct speaker_names){.list = calloc(model->ended_count + 1, sizeof(char *))};
    for (size_t i = 0; ret_names->list && i < model->ended_count; i++) {
        const struct job_process *process = &model->ended[i];
        if (process->status && (after ? process->start >= failed : process->end < failed) &&
            cause_chain_at(end, process->pid) < 0)
            ret_names->list[ret_names->count++] = process->name;
    }
    if (ret_names->count)
        qsort(ret_names->list, ret_names->count, sizeof(char *), by_name);
}

/* Of the scripts of the chain. Without memory for them none is known. */
static void find_traps(const struct job_end *end, struct speakers *speakers)
{
    const struct job_model *model = end->model;
    speakers->traps = calloc(json_array_size(end->chain) + 1, sizeof *speakers->traps);
    for (size_t at = 0; speakers->traps && at < json_array_size(end->chain); at++) {
        pid_t pid = cause_chain_pid(end, at);
        const struct layer_place *place = cause_chain_place(end, at);
        double start = at ? cause_chain_end(end, (int)at - 1) : INFINITY;
        if (!place || !place->trap_only)
            continue;
        for (size_t i = 0; i < model->ended_count; i++)
            if (model->ended[i].pid == pid)
                start = number_min(start, culprit_trap_start(model, &model->ended[i]));
        speakers->traps[speakers->trap_count++] = (struct speaker_trap){place->trap_only, start};
    }
}

void speakers_find(const struct job_end *end, struct speakers *ret_speakers)
{
    *ret_speakers = (struct speakers){0};
    find_names(end, false, &ret_speakers->before);
    find_names(end, true, &ret_speakers->after);
    find_traps(end, ret_speakers);
}

void speakers_done(struct speakers *speakers)
{
    free(speakers->before.list);
    free(speakers->after.list);
    free(speakers->traps);
}

/* With the name of a program that a script started in a trap, or that it did not find there. */
static bool is_of_trap(const struct speakers *speakers, const char *text, double seconds)
{
    size_t index;
    const json_t *name;
    for (size_t i = 0; text && i < speakers->trap_count; i++)
        json_array_foreach(speakers->traps[i].names, index, name)
        {
            if (seconds >= speakers->traps[i].start &&
                (line_begins_with(text, json_string_value(name)) ||
                 line_begins_with(line_behind_script(text), json_string_value(name))))
                return true;
        }
    return false;
}

/* With the name of one of them, and of none of the chain. */
static bool is_of_another(const struct job_end *end, const struct speaker_names *names, const char *text)
{
    char name[JOB_NAME_SIZE];
    const char *key = name;
    for (size_t at = 0; at < json_array_size(end->chain); at++)
        if (speaker_is(end, at, text))
            return false;
    /* a name may have a ':' itself */
    for (size_t len = 0; text && names->count && len < sizeof name && text[len]; len++) {
        name[len] = 0;
        if (text[len] == ':' && len && bsearch(&key, names->list, names->count, sizeof(char *), by_name))
            return true;
        name[len] = text[len];
    }
    return false;
}

/* What failed first began only after it. */
static bool is_older(const struct job_end *end, const json_t *record)
{
    return json_array_size(end->chain) > 1 && cause_is_before(end, 0, line_written_seconds(record));
}

/* Before what failed first had ended: else it may tell why that was. */
static bool is_of_script(const struct job_end *end, const json_t *record)
{
    return json_array_size(end->chain) > 1 && line_written_seconds(record) < cause_chain_end(end, 0) - COARSE_SECONDS &&
           speaker_is_above(end, 0, member_string(record, "text"));
}

/* What a launcher says that the job has gone on after: it may be read only later. */
static bool is_of_tolerated_launcher(const struct job_end *end, const json_t *record)
{
    bool tolerated = false;
    if (!line_has_pattern(record, "mpi_abort") || end->rank)
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

/* That nobody reads any more what it writes: of another one of a pipeline, which has failed because of that. */
static bool is_of_writer(const struct job_end *end, const json_t *record)
{
    const struct job_model *model = end->model;
    const char *text = member_string(record, "text");
    if (!text || (!strcasestr(text, strerrordesc_np(EPIPE)) && !strstr(text, "BrokenPipe")) || speaker_is(end, 0, text))
        return false;
    for (size_t i = 0; i < model->ended_count; i++)
        if (culprit_has_failed(&model->ended[i]) && cause_chain_at(end, model->ended[i].pid) < 0 &&
            model->ended[i].start < cause_chain_end(end, 0) &&
            model->ended[i].end >= cause_chain_end(end, 0) - CAUSE_AT_ONCE_SECONDS)
            return true;
    return false;
}

/* What another stage of the pipeline says that failed later, as it got no more, or too little. */
static bool is_of_later_stage(const struct job_end *end, const json_t *record)
{
    const struct job_model *model = end->model;
    const json_t *argv = json_object_get(json_array_get(end->chain, 0), "argv");
    pid_t pid = cause_chain_pid(end, 0), parent = cause_chain_pid(end, 1);
    const char *text = member_string(record, "text");
    if (!parent || line_written_seconds(record) < cause_chain_end(end, 0) - COARSE_SECONDS)
        return false;
    for (size_t i = 0; text && i < model->ended_count; i++) {
        const struct job_process *other = &model->ended[i];
        bool beside = other->ppid == parent && other->pid != pid && other->start <= cause_chain_end(end, 0) &&
                      other->end >= cause_chain_end(end, 0);
        if (!beside || !culprit_has_failed(other) || speaker_is(end, 0, text))
            continue;
        bool exception = line_is_exception(record) && speaker_runs("python", other->name, NULL);
        if (line_begins_with(text, other->name) ||
            (exception && !speaker_runs("python", cause_chain_name(end, 0), argv)))
            return true;
    }
    return false;
}

enum said speakers_weigh(const struct job_end *end, const struct speakers *speakers, const json_t *record)
{
    enum line_level level = line_level_of(member_string(record, "level"));
    const char *text = member_string(record, "text");
    double seconds = record_seconds(record);
    if (seconds < cause_chain_end(end, 0) - NEAR_SECONDS || seconds > end->seconds + CAUSE_AT_ONCE_SECONDS ||
        cause_was_tolerated(end, seconds) || is_of_tolerated_launcher(end, record) || is_of_writer(end, record) ||
        is_of_later_stage(end, record))
        return SAID_NOTHING;
    if (level == LINE_ERROR && line_is_consequence(end, record))
        return SAID_CONSEQUENCE;
    if (speaker_is(end, 0, text) && cause_is_just_before(cause_chain_end(end, 0), seconds))
        return is_older(end, record) ? SAID_OF_ANOTHER : SAID_BY_ITSELF;
    if (is_of_another(end, &speakers->after, text) || is_of_trap(speakers, text, seconds))
        return SAID_NOTHING;
    bool older = is_older(end, record) || is_of_script(end, record);
    if (level == LINE_ERROR && !line_is_warning(record))
        return older || is_of_another(end, &speakers->before, text) ? SAID_OF_ANOTHER : SAID_ERROR;
    /* many programs go on with numbers that are none */
    bool other =
        member_string(record, "pattern") && !line_has_pattern(record, "nan") && !line_is_labelled_warning(text);
    return level <= LINE_WARNING && other && seconds >= cause_chain_end(end, 0) - CAUSE_FAILURE_SECONDS && !older &&
                   !is_of_another(end, &speakers->before, text)
               ? SAID_HINT
               : SAID_NOTHING;
}
