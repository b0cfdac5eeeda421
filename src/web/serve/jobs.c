/* SPDX-License-Identifier: Apache-2.0 */
#include "web/serve/jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "shm/waits.h"
#include "web/serve/question.h"
#include "web/serve/routes.h"

enum { SITE_WORD = 256 };

/* Directories of others may hold links that lead anywhere. */
bool job_lies_in(const char *dir, const char *path)
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

bool job_own_path(struct span id, char ret_path[PATH_MAX])
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

static bool job_named(struct visit *visit, struct span id, struct named_job *ret_job)
{
    *ret_job->path = '\0';
    ret_job->word = ret_job->path;
    ret_job->mirrored = ret_job->followed = false;
    bool good = foreign_is_id(id);
    ret_job->own = good && job_own_path(id, ret_job->path);
    if (ret_job->own || (good && find_known(visit->server, id, ret_job)))
        return true;
    if (good && jobs_list_next(visit))
        return false;
    if (good && find_named(visit->server, id, ret_job))
        return true;
    visit_answer_error(visit, 404, "unknown", "there is no such job; api/jobs lists them");
    return false;
}

bool job_of_visit(struct visit *visit, struct named_job *ret_job)
{
    return job_named(visit, visit->parts[0], ret_job);
}

/* A mirror that nobody keeps does not change when its job does. */
static const char *depends_on(const struct named_job *job)
{
    return job->followed ? NULL : job->path;
}

static void on_mirror(struct visit *visit, const struct answer *answer)
{
    visit->mirror_is_new = answer->blob != NULL;
    if (answer->blob)
        visit->route->answer(visit);
    else
        answer_give(visit, answer);
}

bool job_of_visit_here(struct visit *visit, struct named_job *ret_job)
{
    if (!job_of_visit(visit, ret_job))
        return false;
    if (!ret_job->mirrored || visit->mirror_is_new)
        return true;
    const char *argv[] = {"report", "--json", ret_job->word, NULL};
    visit->then = on_mirror;
    question_ask(visit->server->questions, visit,
                 &(struct question_spec){.argv = argv,
                                         .jobdir = depends_on(ret_job),
                                         .fresh_ms = JOBS_LIVE_MS,
                                         .limit_s = JOBS_LIMIT_SECONDS,
                                         .good_status = 3});
    return false;
}

void answer_job(struct visit *visit)
{
    struct named_job job;
    const char *asks = visit->route->asks;
    if (!job_of_visit(visit, &job))
        return;
    const char *argv[] = {asks, "--json", job.word, NULL};
    question_ask(visit->server->questions, visit,
                 &(struct question_spec){.argv = argv,
                                         .jobdir = depends_on(&job),
                                         .fresh_ms = JOBS_LIVE_MS,
                                         .limit_s = JOBS_LIMIT_SECONDS,
                                         /* of a job that stands still; of processes that had ended meanwhile */
                                         .good_status = strcmp(asks, "snapshot") == 0 ? 1 : 3});
}

/* A question to scry-view: the route says which arguments of the query it may have, and what the stars of its path are,
 * which all are behind the job. */
void answer_view(struct visit *visit)
{
    static const char *const starred[] = {NULL, "level", "index"};
    struct named_job job;
    if (!job_of_visit_here(visit, &job))
        return;
    json_t *view = json_pack("{s:s}", "ask", visit->route->asks);
    for (size_t i = 1; i < PARTS_OF_PATH; i++)
        if (visit->parts[i].len)
            json_object_set_new(view, starred[i], json_stringn(visit->parts[i].ptr, visit->parts[i].len));
    bool good = view;
    for (size_t i = 0; good && i < visit->argument_count; i++) {
        char *value = strchr(visit->arguments[i], '=');
        size_t len = value ? (size_t)(value - visit->arguments[i]) : 0;
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : 0), visit->arguments[i]);
        good = len && !json_object_get(view, name) && json_object_set_new(view, name, json_string(value + 1)) == 0;
    }
    if (good)
        question_ask(visit->server->questions, visit,
                     &(struct question_spec){.view = view, .jobdir = job.path, .fresh_ms = JOBS_VIEW_MS});
    else
        visit_answer_error(visit, 400, "bad_question", "expected arguments NAME=VALUE, each once, as UTF-8");
    json_decref(view);
}

void answer_compare(struct visit *visit)
{
    struct named_job one, two;
    const char *jobs = visit_argument(visit, "jobs"), *comma = jobs ? strchr(jobs, ',') : NULL;
    if (!comma) {
        visit_answer_error(visit, 400, "bad_question", "name two jobs: ?jobs=ONE,OTHER");
        return;
    }
    if (!job_named(visit, span_of(jobs, (size_t)(comma - jobs)), &one) || !job_named(visit, span_str(comma + 1), &two))
        return;
    const char *argv[] = {"diff", "--json", one.word, two.word, NULL};
    question_ask(visit->server->questions, visit,
                 &(struct question_spec){.argv = argv, .fresh_ms = JOBS_LIVE_MS, .limit_s = JOBS_LIMIT_SECONDS});
}

/* The arguments are options of the command; what is wrong with their values it says itself. */
void answer_site(struct visit *visit)
{
    static const char *const names[] = {"since", "owner", "node"};
    enum { NAMES = sizeof names / sizeof *names };
    char words[NAMES][SITE_WORD];
    const char *argv[NAMES + 3] = {"site", "--json"};
    size_t count = 2;
    for (size_t i = 0; i < NAMES; i++) {
        const char *value = visit_argument(visit, names[i]);
        if (!value)
            continue;
        if (strlen(value) >= SITE_WORD / 2) {
            visit_answer_error(visit, 400, "bad_question", "%s is too long", names[i]);
            return;
        }
        snprintf(words[i], SITE_WORD, "--%s=%s", names[i], value);
        argv[count++] = words[i];
    }
    question_ask(visit->server->questions, visit,
                 &(struct question_spec){.argv = argv, .fresh_ms = JOBS_LIST_MS, .limit_s = JOBS_LIMIT_SECONDS});
}
