/* SPDX-License-Identifier: Apache-2.0 */
#include "web/serve/serve.h"

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

struct known_job {
    UT_hash_handle hh;
    char *path, *word; /* its directory, or mirror; how commands call it */
    const char *dir;   /* it was put somewhere in this directory; NULL: it is elsewhere, and that is its mirror */
    bool followed;     /* behind a broker. Otherwise in the record: no more comes */
    char id[];
};

static bool job_own_path(struct span id, char ret_path[PATH_MAX]);
static bool job_lies_in(const char *dir, const char *path);

/* Jobs that are not found by the name of a directory alone, as they were listed last: put somewhere under any name, behind a
 * broker, in the record. */

enum { KNOWN_MOST = 200000, NOTES_MOST = 20 };

void known_jobs_free(struct server *server)
{
    HASH_FREE_ALL(server->known, free(each->path), free(each->word));
}

static const struct known_job *known_job_find(struct server *server, struct span id)
{
    struct known_job *known = NULL;
    HASH_FIND(hh, server->known, id.ptr, id.len, known);
    return known;
}

/* The broker's URL (broker/url.h) with owner and job, which stand before what follows a question mark. */
static void put_word(struct buf *out, const char *broker, const char *own, const char *id)
{
    size_t len = strcspn(broker, "?"), head = 1, end = len;
    const char *more = broker + len;
    bool socket = strncmp(broker, "unix:", 5) == 0 || strncmp(broker, "local", 5) == 0;
    while (end && broker[end - 1] == '/')
        end--;
    if (strncmp(broker, "mqtt", 4) == 0)
        head = (size_t)(strstr(broker, "//") ? strstr(broker, "//") + 2 - broker : 0);
    struct span rest = end > head ? span_of(broker + head, end - head) : (struct span){0};
    bool named = socket ? memmem(broker, end, "//", 2) != NULL : rest.len && memchr(rest.ptr, '/', rest.len);
    buf_append(out, broker, end);
    if (!named)
        buf_printf(out, "%s%s", socket ? "//" : "/", own);
    buf_printf(out, "/%s%s", id, more);
}

static void known_remember(struct server *server, const char *id, const char *path, const char *dir, const char *broker)
{
    size_t len = strlen(id);
    struct known_job *known = (struct known_job *)known_job_find(server, span_of(id, len));
    if (known) { /* what was there is gone: known_name has looked */
        HASH_DEL(server->known, known);
        free(known->path);
        free(known->word);
        free(known);
    }
    known = HASH_COUNT(server->known) < KNOWN_MOST ? calloc(1, sizeof *known + len + 1) : NULL;
    struct buf word = BUF_INIT;
    if (broker)
        put_word(&word, broker, server->user, id);
    else
        buf_puts(&word, dir ? path : id);
    if (known && (known->path = strdup(path)) && (known->word = buf_take(&word))) {
        known->followed = broker != NULL;
        known->dir = dir;
        memcpy(known->id, id, len);
        HASH_ADD_KEYPTR(hh, server->known, known->id, len, known);
    } else if (known) {
        free(known->path);
        free(known);
    }
    buf_done(&word);
}

/* ---- what was put somewhere ---- */

static void add_note(json_t *notes, const struct buf *text)
{
    if (json_array_size(notes) < NOTES_MOST)
        json_array_append_new(notes, text_json(text->data));
    else if (json_array_size(notes) == NOTES_MOST)
        json_array_append_new(notes, json_string("there are more directories of which the same is to be said"));
}

/* Does the id lead to another directory? */
static bool is_taken(struct server *server, const char *id, const char *path)
{
    char own[PATH_MAX];
    const struct known_job *known = known_job_find(server, span_str(id));
    if (job_own_path(span_str(id), own) && strcmp(own, path) != 0)
        return true;
    return known && strcmp(known->path, path) != 0 && (!known->dir || job_lies_in(known->dir, known->path));
}

static bool is_same(const char *path, const char *other)
{
    struct stat one, two;
    return strcmp(path, other) != 0 && stat(path, &one) == 0 && stat(other, &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

/* Is it a directory that is shown already, to which another way leads? */
static bool is_shown(struct server *server, const char *id, const char *path)
{
    char own[PATH_MAX];
    const struct known_job *known = known_job_find(server, span_str(id));
    return (foreign_is_id(span_str(id)) && job_own_path(span_str(id), own) && is_same(path, own)) ||
           (known && is_same(path, known->path));
}

/* The id by which it is asked for: its own one, unless that cannot stand in a path or is another directory's. Then it is made of
 * the path, so that it stays the same. */
static void name_dropped(struct server *server, json_t *row, const char *path, const char *dir, json_t *notes)
{
    char id[FOREIGN_ID_MOST + 24];
    const char *its = json_string_value(json_object_get(row, "id"));
    bool good = its && foreign_is_id(span_str(its));
    snprintf(id, sizeof id, "%s", good ? its : "job");
    if (!good || is_taken(server, id, path)) {
        int len = good ? (int)strnlen(its, FOREIGN_ID_MOST - 17) : 3;
        snprintf(id, sizeof id, "%.*s.%016" PRIx64, len, good ? its : "job", sum_add(0, path, strlen(path)));
        _cleanup_(buf_done) struct buf note = BUF_INIT;
        buf_printf(&note,
                   good ? "%s is a second directory of the job %s: it is shown as %s"
                        : "%s has no id that can be an address (%s): it is shown as %s",
                   path, its ? its : "", id);
        add_note(notes, &note);
        json_object_set_new(row, "id", json_string(id));
    }
    const struct known_job *known = known_job_find(server, span_str(id));
    if (!known || strcmp(known->path, path) != 0)
        known_remember(server, id, path, dir, NULL);
}

static bool is_below(const char *dir, const char *path)
{
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    return strncmp(path, dir, len) == 0 && path[len] == '/';
}

/* Remembers a job of a list: of one's own jobs, those in `dir` (--jobs), or those at `broker`. The row gets another id if its own one
 * leads elsewhere; `notes` say so. false: it is not to be shown. */
static bool known_job_learn(struct server *server, json_t *row, const char *dir, const char *broker, json_t *notes)
{
    char home[PATH_MAX];
    const char *id = json_string_value(json_object_get(row, "id")),
               *path = json_string_value(json_object_get(row, "path"));
    if (!id || !path)
        return false;
    if (!broker && dirs_jobs_find(home, sizeof home, NULL) == 0 && !dir && is_below(home, path)) {
        if (strcmp(text_base(path), id) != 0)
            name_dropped(server, row, path, "/", notes); /* links out of one's own directory are one's own */
        return true;
    }
    if (dir && !is_below(dir, path)) /* of the record: the list of one's own has it */
        return false;
    if (dir && !job_lies_in(dir, path)) {
        _cleanup_(buf_done) struct buf note = BUF_INIT;
        buf_printf(&note, "%s is left out: it leads out of that directory, or its name is no UTF-8", path);
        add_note(notes, &note);
        return false;
    }
    if (dir && is_shown(server, id, path))
        return false;
    if (dir)
        name_dropped(server, row, path, dir, notes);
    else if (*path == '/' && foreign_is_id(span_str(id)) && !known_job_find(server, span_str(id)))
        known_remember(server, id, path, NULL, broker);
    return true;
}

/* The list of jobs: what scry ps says of one's own, of those in directories, and of those at brokers. */

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

static int known_compare(const void *a, const void *b)
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

static void listing_answer(struct http_request *request, struct listing *listing)
{
    const char *limit = request_argument(request, "limit"), *before = request_argument(request, "before");
    const char *state = request_argument(request, "state"), *text = request_argument(request, "text");
    uint64_t most = JOBS_MOST;
    size_t count = json_array_size(listing->jobs);
    if (limit && !foreign_number(span_str(limit), &most)) {
        request_answer_error(request, 400, "bad_question", "limit is no number");
        return;
    }
    json_t **rows = calloc(count + 1, sizeof *rows);
    json_t *list = json_array();
    bool begun = !before || !*before;
    for (size_t i = 0; rows && i < count; i++)
        rows[i] = json_array_get(listing->jobs, i);
    if (rows)
        qsort(rows, count, sizeof *rows, known_compare);
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
    request_answer_json_tagged(request, json);
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
static bool listing_ask(struct http_request *request, size_t source, answer_fn *then)
{
    const char *dir = NULL, *broker = NULL;
    char place[PATH_MAX + 32];
    const char *argv[] = {"ps", "--json", "--all", NULL, NULL, NULL};
    if (source && !source_at(request->server->options, source, &dir, &broker))
        return false;
    struct question_spec spec = {
        .argv = argv, .fresh_ms = broker ? LIST_ELSEWHERE_MS : LIST_HERE_MS, .limit_s = LIST_LIMIT_SECONDS};
    argv[3] = broker;
    if (dir) {
        snprintf(place, sizeof place, "SCRY_STATE_DIR=%s", dir);
        spec.environment = place;
    }
    request->then = then;
    question_ask(request->server->questions, request, &spec);
    return true;
}

/* ---- for who asks for one job ---- */

static void on_list(struct http_request *request, const struct answer *answer_of)
{
    struct listed *listed = request->listed < LISTED_MOST ? &request->server->listed[request->listed] : NULL;
    if (!answer_of->blob && !request->listed) { /* it may be there: nobody knows */
        answer_give(request, answer_of);
        return;
    }
    if (answer_of->blob && !(listed && strcmp(listed->tag, answer_of->tag) == 0))
        json_decref(jobs_of(request->server, request->listed, answer_of));
    if (listed)
        listed->good_ns = clock_now_ns() + REST_TIMES * answer_of->took_ns;
    request->listed++;
    request->route->answer(request);
}

/* Lists the next source of jobs that was not listed for this request: one's own, then --jobs, then brokers; then calls the route's
 * function again. false: there are no more. */
/* Ids that nobody has must not keep a processor busy with lists: what was not in one of late is not looked for in the next. */
static bool jobs_list_next(struct http_request *request)
{
    while (request->listed < LISTED_MOST && clock_now_ns() < request->server->listed[request->listed].good_ns)
        request->listed++;
    return listing_ask(request, request->listed, on_list);
}

/* ---- for who asks for all ---- */

static void listing_take(struct http_request *request, const struct answer *answer_of)
{
    struct listing *listing = request->extra;
    const char *dir, *broker;
    json_t *json = answer_of->blob ? jobs_of(request->server, listing->source, answer_of) : NULL;
    if (!json && !listing->source) {
        answer_give(request, answer_of);
        return;
    }
    if (!json) {
        _cleanup_(buf_done) struct buf note = BUF_INIT;
        source_at(request->server->options, listing->source, &dir, &broker);
        buf_printf(&note, "%s: %s", dir ? dir : broker, answer_of->text ? answer_of->text : "no answer");
        json_array_append_new(listing->notes, text_json(note.data));
    }
    json_array_extend(listing->jobs, json_object_get(json, "jobs"));
    json_array_extend(listing->notes, json_object_get(json, "notes"));
    json_decref(json);
    listing->source++;
    if (!listing_ask(request, listing->source, listing_take))
        listing_answer(request, listing);
}

static void listing_done(struct http_request *request)
{
    struct listing *listing = request->extra;
    json_decref(listing->jobs);
    json_decref(listing->notes);
    free(listing);
}

void answer_jobs(struct http_request *request)
{
    struct listing *listing = calloc(1, sizeof *listing);
    if (!listing) {
        request_answer_error(request, 503, "memory", "out of memory; try again later");
        return;
    }
    listing->jobs = json_array();
    listing->notes = json_array();
    request->extra = listing;
    request->done = listing_done;
    listing_ask(request, 0, listing_take);
}

enum { OPTION_WORD = 256 };

/* Is this within the directory, when all links are followed? */
/* Directories of others may hold links that lead anywhere. */
static bool job_lies_in(const char *dir, const char *path)
{
    _cleanup_(freep) char *home = realpath(dir, NULL);
    _cleanup_(freep) char *real = realpath(path, NULL);
    size_t in = home ? strlen(home) : 0;
    return home && real && strncmp(real, home, in) == 0 && (real[in] == '/' || (in == 1 && real[1]));
}

static bool is_job(const char *dir)
{
    char path[PATH_MAX + 16];
    struct stat info;
    snprintf(path, sizeof path, "%s/job.json", dir);
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* The path that a job of that id has among one's own. false: there is none. */
static bool job_own_path(struct span id, char ret_path[PATH_MAX])
{
    char home[PATH_MAX - FOREIGN_ID_MOST - 2];
    if (dirs_jobs_find(home, sizeof home, NULL) < 0)
        return false;
    snprintf(ret_path, PATH_MAX, "%s/%.*s", home, SPAN_ARG(id));
    return is_job(ret_path);
}

static bool find_known(struct server *server, struct span id, struct named_job *ret_job)
{
    const struct known_job *known = known_job_find(server, id);
    if (!known || (known->dir && !(is_job(known->path) && job_lies_in(known->dir, known->path))))
        return false;
    snprintf(ret_job->path, PATH_MAX, "%s", known->path);
    ret_job->word = known->word;
    ret_job->mirrored = !known->dir;
    ret_job->followed = known->followed;
    return true;
}

/* By the name of a directory, if no job has that as its id. */
static bool find_named(struct server *server, struct span name, struct named_job *ret_job)
{
    size_t at = 0;
    for (const char *dir; (dir = options_next(server->options, "jobs", &at));) {
        int len = snprintf(ret_job->path, PATH_MAX, "%s/%.*s", dir, SPAN_ARG(name));
        if (len < PATH_MAX && is_job(ret_job->path) && job_lies_in(dir, ret_job->path))
            return true;
    }
    return false;
}

static bool job_named(struct http_request *request, struct span id, struct named_job *ret_job)
{
    *ret_job->path = '\0';
    ret_job->word = ret_job->path;
    ret_job->mirrored = ret_job->followed = false;
    bool good = foreign_is_id(id);
    ret_job->own = good && job_own_path(id, ret_job->path);
    if (ret_job->own || (good && find_known(request->server, id, ret_job)))
        return true;
    if (good && jobs_list_next(request))
        return false;
    if (good && find_named(request->server, id, ret_job))
        return true;
    request_answer_error(request, 404, "unknown", "there is no such job; api/jobs lists them");
    return false;
}

bool job_of_request(struct http_request *request, struct named_job *ret_job)
{
    return job_named(request, request->parts[0], ret_job);
}

/* A mirror that nobody keeps does not change when its job does. */
static const char *depends_on(const struct named_job *job)
{
    return job->followed ? NULL : job->path;
}

static void on_mirror(struct http_request *request, const struct answer *answer)
{
    request->mirror_is_new = answer->blob != NULL;
    if (answer->blob)
        request->route->answer(request);
    else
        answer_give(request, answer);
}

bool job_of_request_here(struct http_request *request, struct named_job *ret_job)
{
    if (!job_of_request(request, ret_job))
        return false;
    if (!ret_job->mirrored || request->mirror_is_new)
        return true;
    const char *argv[] = {"report", "--json", ret_job->word, NULL};
    request->then = on_mirror;
    question_ask(request->server->questions, request,
                 &(struct question_spec){.argv = argv,
                                         .jobdir = depends_on(ret_job),
                                         .fresh_ms = JOBS_LIVE_MS,
                                         .limit_s = JOBS_LIMIT_SECONDS,
                                         .good_status = 3});
    return false;
}

void answer_job(struct http_request *request)
{
    struct named_job job;
    const char *asks = request->route->asks;
    if (!job_of_request(request, &job))
        return;
    const char *argv[] = {asks, "--json", job.word, NULL};
    question_ask(request->server->questions, request,
                 &(struct question_spec){.argv = argv,
                                         .jobdir = depends_on(&job),
                                         .fresh_ms = JOBS_LIVE_MS,
                                         .limit_s = JOBS_LIMIT_SECONDS,
                                         /* of a job that stands still; of processes that had ended meanwhile */
                                         .good_status = strcmp(asks, "snapshot") == 0 ? 1 : 3});
}

/* A question to scry-view: the route says which arguments of the query it may have, and what the stars of its path are,
 * which all are behind the job. */
void answer_view(struct http_request *request)
{
    static const char *const starred[] = {NULL, "level", "index"};
    struct named_job job;
    if (!job_of_request_here(request, &job))
        return;
    json_t *view = json_pack("{s:s}", "ask", request->route->asks);
    for (size_t i = 1; i < PARTS_OF_PATH; i++)
        if (request->parts[i].len)
            json_object_set_new(view, starred[i], json_stringn(request->parts[i].ptr, request->parts[i].len));
    bool good = view;
    for (size_t i = 0; good && i < request->argument_count; i++) {
        char *value = strchr(request->arguments[i], '=');
        size_t len = value ? (size_t)(value - request->arguments[i]) : 0;
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : 0), request->arguments[i]);
        good = len && !json_object_get(view, name) && json_object_set_new(view, name, json_string(value + 1)) == 0;
    }
    if (good)
        question_ask(request->server->questions, request,
                     &(struct question_spec){.view = view, .jobdir = job.path, .fresh_ms = JOBS_VIEW_MS});
    else
        request_answer_error(request, 400, "bad_question", "expected arguments NAME=VALUE, each once, as UTF-8");
    json_decref(view);
}

void answer_compare(struct http_request *request)
{
    struct named_job one, two;
    const char *jobs = request_argument(request, "jobs"), *comma = jobs ? strchr(jobs, ',') : NULL;
    if (!comma) {
        request_answer_error(request, 400, "bad_question", "name two jobs: ?jobs=ONE,OTHER");
        return;
    }
    if (!job_named(request, span_of(jobs, (size_t)(comma - jobs)), &one) ||
        !job_named(request, span_str(comma + 1), &two))
        return;
    const char *argv[] = {"diff", "--json", one.word, two.word, NULL};
    question_ask(request->server->questions, request,
                 &(struct question_spec){.argv = argv, .fresh_ms = JOBS_LIVE_MS, .limit_s = JOBS_LIMIT_SECONDS});
}

/* Appends the arguments as options of the command, which says itself what is wrong with their values. false: it was answered. */
static bool put_options(struct http_request *request, const char *const *names, size_t name_count,
                        char words[][OPTION_WORD], const char **argv, size_t *count)
{
    for (size_t i = 0; i < name_count; i++) {
        const char *value = request_argument(request, names[i]);
        if (!value)
            continue;
        if (strlen(value) >= OPTION_WORD / 2) {
            request_answer_error(request, 400, "bad_question", "%s is too long", names[i]);
            return false;
        }
        snprintf(words[i], OPTION_WORD, "--%s=%s", names[i], value);
        argv[(*count)++] = words[i];
    }
    return true;
}

void answer_site(struct http_request *request)
{
    static const char *const names[] = {"since", "owner", "node"};
    enum { NAMES = sizeof names / sizeof *names };
    char words[NAMES][OPTION_WORD];
    const char *argv[NAMES + 3] = {"site", "--json"};
    size_t count = 2;
    if (put_options(request, names, NAMES, words, argv, &count))
        question_ask(request->server->questions, request,
                     &(struct question_spec){.argv = argv, .fresh_ms = JOBS_LIST_MS, .limit_s = JOBS_LIMIT_SECONDS});
}

/* What the job printed; not of the job's directory alone, so an answer is kept for a moment only. */
void answer_logs(struct http_request *request)
{
    static const char *const names[] = {"last", "grep"};
    enum { NAMES = sizeof names / sizeof *names };
    char words[NAMES][OPTION_WORD];
    const char *argv[NAMES + 6] = {"logs", "--json"}, *stream = request_argument(request, "stream");
    size_t count = 2;
    struct named_job job;
    if (stream && strcmp(stream, "stdout") != 0 && strcmp(stream, "stderr") != 0) {
        request_answer_error(request, 400, "bad_question", "a stream is stdout or stderr");
        return;
    }
    if (!job_of_request(request, &job))
        return;
    argv[count++] = "--last=2000"; /* of two the last one counts */
    if (!put_options(request, names, NAMES, words, argv, &count))
        return;
    if (stream)
        argv[count++] = strcmp(stream, "stdout") == 0 ? "--stdout" : "--stderr";
    argv[count] = job.word;
    question_ask(request->server->questions, request,
                 &(struct question_spec){
                     .argv = argv, .fresh_ms = JOBS_LIVE_MS, .limit_s = JOBS_LIMIT_SECONDS, .may_be_empty = true});
}
