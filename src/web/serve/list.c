/* SPDX-License-Identifier: Apache-2.0 */
/* The list of jobs: what scry ps says of one's own, of those in directories, and of those at brokers. */
#include <stdio.h>
#include <stdlib.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "web/serve/jobs.h"
#include "web/serve/question.h"
#include "web/serve/routes.h"

enum {
    JOBS_MOST = 10000,
    KEPT_BYTES = 16 << 20, /* of an answer, whose jobs are kept */
    REST_TIMES = 10,       /* so much longer than listing them takes, jobs are looked for in the last list */
    MATCH_DEPTH = 8
};

struct listing {
    json_t *jobs, *notes;
    size_t source; /* that is asked now: 0 one's own, then directories, then brokers */
};

void jobs_list_free(struct server *server)
{
    for (size_t i = 0; i < LISTED_MOST; i++)
        json_decref(server->listed[i].jobs);
}

/* The source with this number: a directory, or a broker. false: there are no more. */
static bool source_at(const struct options *options, size_t number, const char **ret_dir, const char **ret_broker)
{
    size_t at = 0;
    *ret_dir = *ret_broker = NULL;
    for (const char *dir; (dir = options_next(options, "jobs", &at));)
        if (!--number) {
            *ret_dir = dir;
            return true;
        }
    at = 0;
    for (const char *broker; (broker = options_next(options, "broker", &at));)
        if (!--number) {
            *ret_broker = broker;
            return true;
        }
    return false;
}

static int compare(const void *a, const void *b)
{
    double one = json_number_value(json_object_get(*(json_t *const *)a, "started_seconds"));
    double other = json_number_value(json_object_get(*(json_t *const *)b, "started_seconds"));
    return (one < other) - (one > other);
}

/* Is the text somewhere in the value? */
static bool has_text(const json_t *value, const char *text, int depth)
{
    const char *key;
    json_t *member;
    size_t i;
    if (json_is_string(value))
        return strcasestr(json_string_value(value), text);
    if (depth == MATCH_DEPTH)
        return false;
    if (json_is_array(value))
        json_array_foreach(value, i, member) if (has_text(member, text, depth + 1)) return true;
    if (json_is_object(value))
        json_object_foreach((json_t *)value, key, member) if (has_text(member, text, depth + 1)) return true;
    return false;
}

static bool is_wanted(const json_t *row, const char *state, const char *text)
{
    static const char *const members[] = {"id", "name", "host", "argv", "status"};
    const char *its = json_string_value(json_object_get(row, "state"));
    if (state && *state && (!its || strcmp(its, state) != 0))
        return false;
    for (size_t i = 0; text && *text && i < sizeof members / sizeof *members; i++)
        if (has_text(json_object_get(row, members[i]), text, 0))
            return true;
    return !text || !*text;
}

static void answer(struct visit *visit, struct listing *listing)
{
    const char *limit = visit_argument(visit, "limit"), *before = visit_argument(visit, "before");
    const char *state = visit_argument(visit, "state"), *text = visit_argument(visit, "text");
    uint64_t most = JOBS_MOST;
    size_t count = json_array_size(listing->jobs);
    if (limit && !foreign_number(span_str(limit), &most)) {
        visit_answer_error(visit, 400, "bad_question", "limit is no number");
        return;
    }
    json_t **rows = calloc(count + 1, sizeof *rows);
    json_t *list = json_array();
    bool begun = !before || !*before;
    for (size_t i = 0; rows && i < count; i++)
        rows[i] = json_array_get(listing->jobs, i);
    if (rows)
        qsort(rows, count, sizeof *rows, compare);
    for (size_t i = 0; rows && i < count && json_array_size(list) < most && i < JOBS_MOST; i++) {
        const char *id = json_string_value(json_object_get(rows[i], "id"));
        if (begun && is_wanted(rows[i], state, text))
            json_array_append(list, rows[i]);
        begun |= before && id && strcmp(id, before) == 0;
    }
    free(rows);
    json_t *json = json_pack("{s:o}", "jobs", list);
    if (json_array_size(listing->notes))
        json_object_set(json, "notes", listing->notes);
    visit_answer_json_tagged(visit, json);
}

/* {"jobs", "notes"} of an answer: what may be shown, with the ids by which it is asked for. NULL: it is none. */
static json_t *read_jobs(struct server *server, const struct blob *blob, const char *dir, const char *broker)
{
    json_t *json = json_loadb(blob->bytes, blob->size, 0, NULL), *jobs = json_object_get(json, "jobs"), *row;
    json_t *kept = json_is_array(jobs) ? json_array() : NULL, *notes = json_array();
    size_t i;
    if (kept)
        json_array_foreach(jobs, i, row) if (known_job_learn(server, row, dir, broker, notes))
            json_array_append(kept, row);
    json_decref(json);
    json_t *all = kept ? json_pack("{s:o, s:O}", "jobs", kept, "notes", notes) : NULL;
    json_decref(notes);
    return all;
}

/* The same, to be given back by json_decref. An answer that says what the last one said is not read again, if its jobs are kept. */
static json_t *jobs_of(struct server *server, size_t source, const struct answer *answer_of)
{
    const char *dir, *broker;
    struct listed *listed = source < LISTED_MOST ? &server->listed[source] : NULL;
    if (listed && listed->jobs && strcmp(listed->tag, answer_of->tag) == 0)
        return json_incref(listed->jobs);
    source_at(server->options, source, &dir, &broker);
    json_t *jobs = read_jobs(server, answer_of->blob, dir, broker);
    if (jobs && listed) {
        json_decref(listed->jobs);
        listed->jobs = answer_of->blob->size <= KEPT_BYTES ? json_incref(jobs) : NULL;
        snprintf(listed->tag, sizeof listed->tag, "%s", answer_of->tag);
    }
    return jobs;
}

/* false: there is no such source. */
static bool ask(struct visit *visit, size_t source, answer_fn *then)
{
    const char *dir = NULL, *broker = NULL;
    char place[PATH_MAX + 32];
    const char *argv[] = {"ps", "--json", "--all", NULL, NULL, NULL};
    if (source && !source_at(visit->server->options, source, &dir, &broker))
        return false;
    struct question_spec spec = {
        .argv = argv, .fresh_ms = broker ? LIST_ELSEWHERE_MS : LIST_HERE_MS, .limit_s = LIST_LIMIT_SECONDS};
    argv[3] = broker;
    if (dir) {
        snprintf(place, sizeof place, "SCRY_STATE_DIR=%s", dir);
        spec.environment = place;
    }
    visit->then = then;
    question_ask(visit->server->questions, visit, &spec);
    return true;
}

/* ---- for who asks for one job ---- */

static void on_list(struct visit *visit, const struct answer *answer_of)
{
    struct listed *listed = visit->listed < LISTED_MOST ? &visit->server->listed[visit->listed] : NULL;
    if (!answer_of->blob && !visit->listed) { /* it may be there: nobody knows */
        answer_give(visit, answer_of);
        return;
    }
    if (answer_of->blob && !(listed && strcmp(listed->tag, answer_of->tag) == 0))
        json_decref(jobs_of(visit->server, visit->listed, answer_of));
    if (listed)
        listed->good_ns = clock_now_ns() + REST_TIMES * answer_of->took_ns;
    visit->listed++;
    visit->route->answer(visit);
}

/* Ids that nobody has must not keep a processor busy with lists: what was not in one of late is not looked for in the next. */
bool jobs_list_next(struct visit *visit)
{
    while (visit->listed < LISTED_MOST && clock_now_ns() < visit->server->listed[visit->listed].good_ns)
        visit->listed++;
    return ask(visit, visit->listed, on_list);
}

/* ---- for who asks for all ---- */

static void take(struct visit *visit, const struct answer *answer_of)
{
    struct listing *listing = visit->extra;
    const char *dir, *broker;
    json_t *json = answer_of->blob ? jobs_of(visit->server, listing->source, answer_of) : NULL;
    if (!json && !listing->source) {
        answer_give(visit, answer_of);
        return;
    }
    if (!json) {
        _cleanup_(buf_done) struct buf note = BUF_INIT;
        source_at(visit->server->options, listing->source, &dir, &broker);
        buf_printf(&note, "%s: %s", dir ? dir : broker, answer_of->text ? answer_of->text : "no answer");
        json_array_append_new(listing->notes, text_json(note.data));
    }
    json_array_extend(listing->jobs, json_object_get(json, "jobs"));
    json_array_extend(listing->notes, json_object_get(json, "notes"));
    json_decref(json);
    listing->source++;
    if (!ask(visit, listing->source, take))
        answer(visit, listing);
}

static void done(struct visit *visit)
{
    struct listing *listing = visit->extra;
    json_decref(listing->jobs);
    json_decref(listing->notes);
    free(listing);
}

void answer_jobs(struct visit *visit)
{
    struct listing *listing = calloc(1, sizeof *listing);
    if (!listing) {
        visit_answer_error(visit, 503, "memory", "out of memory; try again later");
        return;
    }
    listing->jobs = json_array();
    listing->notes = json_array();
    visit->extra = listing;
    visit->done = done;
    ask(visit, 0, take);
}
