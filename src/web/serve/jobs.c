/* SPDX-License-Identifier: Apache-2.0 */
#include "web/serve/jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "web/serve/question.h"
#include "web/serve/routes.h"

enum { LIVE_MS = 1000, LIST_MS = 1000, VIEW_MS = 200, LIMIT_SECONDS = 120 };

/* Directories of others may hold links that lead anywhere. */
static bool lies_in(const char *dir, struct span id, char ret_path[PATH_MAX])
{
    char path[PATH_MAX];
    _cleanup_(freep) char *home = realpath(dir, NULL);
    int len = snprintf(path, sizeof path, "%s/%.*s", dir, SPAN_ARG(id));
    size_t in = home ? strlen(home) : 0;
    return home && len < PATH_MAX && realpath(path, ret_path) && strncmp(ret_path, home, in) == 0 &&
           ret_path[in] == '/';
}

static bool is_job(const char *dir)
{
    char path[PATH_MAX + 16];
    struct stat info;
    snprintf(path, sizeof path, "%s/job.json", dir);
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static bool find(struct server *server, struct span id, char ret_path[PATH_MAX])
{
    char home[PATH_MAX - FOREIGN_ID_MOST - 2];
    size_t at = 0;
    if (!foreign_is_id(id))
        return false;
    if (dirs_jobs_find(home, sizeof home, NULL) == 0) {
        snprintf(ret_path, PATH_MAX, "%s/%.*s", home, SPAN_ARG(id));
        if (is_job(ret_path))
            return true;
    }
    for (const char *dir; (dir = options_next(server->options, "jobs", &at));)
        if (lies_in(dir, id, ret_path) && is_job(ret_path))
            return true;
    return false;
}

static bool job_named(struct visit *visit, struct span id, char ret_path[PATH_MAX])
{
    if (find(visit->server, id, ret_path))
        return true;
    visit_answer_error(visit, 404, "unknown", "there is no such job; api/jobs lists them");
    return false;
}

bool job_of_visit(struct visit *visit, char ret_path[PATH_MAX])
{
    return job_named(visit, visit->parts[0], ret_path);
}

void answer_jobs(struct visit *visit)
{
    static const char *const argv[] = {"ps", "--json", "--all", NULL};
    question_ask(visit->server->questions, visit,
                 &(struct question_spec){.argv = argv, .fresh_ms = LIST_MS, .limit_s = LIMIT_SECONDS});
}

void answer_job(struct visit *visit)
{
    char path[PATH_MAX];
    const char *asks = visit->route->asks;
    if (!job_of_visit(visit, path))
        return;
    const char *argv[] = {asks, "--json", path, NULL};
    question_ask(visit->server->questions, visit,
                 &(struct question_spec){.argv = argv,
                                         .jobdir = path,
                                         .fresh_ms = LIVE_MS,
                                         .limit_s = LIMIT_SECONDS,
                                         .good_status = 3}); /* of scry why */
}

/* A question to scry-view: the route says which arguments of the query it may have, and what the stars of its path are,
 * which all are behind the job. */
void answer_view(struct visit *visit)
{
    static const char *const starred[] = {NULL, "level", "index"};
    char path[PATH_MAX];
    if (!job_of_visit(visit, path))
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
                     &(struct question_spec){.view = view, .jobdir = path, .fresh_ms = VIEW_MS});
    else
        visit_answer_error(visit, 400, "bad_question", "expected arguments NAME=VALUE, each once, as UTF-8");
    json_decref(view);
}

void answer_compare(struct visit *visit)
{
    char one[PATH_MAX], two[PATH_MAX];
    const char *jobs = visit_argument(visit, "jobs"), *comma = jobs ? strchr(jobs, ',') : NULL;
    if (!comma) {
        visit_answer_error(visit, 400, "bad_question", "name two jobs: ?jobs=ONE,OTHER");
        return;
    }
    if (!job_named(visit, span_of(jobs, (size_t)(comma - jobs)), one) || !job_named(visit, span_str(comma + 1), two))
        return;
    const char *argv[] = {"report", "--diff", "--json", one, two, NULL};
    question_ask(visit->server->questions, visit,
                 &(struct question_spec){.argv = argv, .fresh_ms = LIVE_MS, .limit_s = LIMIT_SECONDS});
}

void answer_site(struct visit *visit)
{
    static const char *const argv[] = {"site", "--json", NULL};
    question_ask(visit->server->questions, visit,
                 &(struct question_spec){.argv = argv, .fresh_ms = LIST_MS, .limit_s = LIMIT_SECONDS});
}
