/* SPDX-License-Identifier: Apache-2.0 */
#include "web/serve/routes.h"

/* clang-format off */
const struct route route_rows[] = {
    {"api/session", METHOD_GET, RIGHT_OBSERVE, answer_session_get},
    {"api/session", METHOD_POST, 0, answer_session_post},
    {"api/session", METHOD_DELETE, RIGHT_OBSERVE, answer_session_delete},
    {"api/links", METHOD_POST, RIGHT_OBSERVE, answer_links_post},
    {"api/jobs", METHOD_GET, RIGHT_OBSERVE, answer_jobs, .arguments = "limit before state text"},
    {"api/jobs/*", METHOD_GET, RIGHT_OBSERVE, answer_job, .asks = "top"},
    {"api/jobs/*/report", METHOD_GET, RIGHT_OBSERVE, answer_job, .asks = "report"},
    {"api/jobs/*/why", METHOD_GET, RIGHT_OBSERVE, answer_job, .asks = "why"},
    {"api/jobs/*/snapshot", METHOD_GET, RIGHT_OBSERVE, answer_job, .asks = "snapshot"},
    {"api/jobs/*/set", METHOD_POST, RIGHT_CONTROL, answer_set},
    {"api/jobs/*/signal", METHOD_POST, RIGHT_CONTROL, answer_signal},
    {"api/jobs/*/records", METHOD_GET, RIGHT_OBSERVE, answer_records, .arguments = "types behind"},
    {"api/jobs/*/files", METHOD_GET, RIGHT_OBSERVE, answer_files},
    {"api/jobs/*/files/**", METHOD_GET, RIGHT_OBSERVE, answer_file},
    {"api/jobs/*/files.tar", METHOD_GET, RIGHT_OBSERVE, answer_archive},
    {"api/jobs/*/picture", METHOD_GET, RIGHT_OBSERVE, answer_view, .asks = "picture"},
    {"api/jobs/*/tiles/*/*", METHOD_GET, RIGHT_OBSERVE, answer_view, .asks = "tiles", .arguments = "lanes"},
    {"api/jobs/*/selection", METHOD_GET, RIGHT_OBSERVE, answer_view, .asks = "selection", .arguments = "from to lanes"},
    {"api/jobs/*/search", METHOD_GET, RIGHT_OBSERVE, answer_view, .asks = "search", .arguments = "function from to limit"},
    {"api/jobs/*/call", METHOD_GET, RIGHT_OBSERVE, answer_view, .asks = "call", .arguments = "lane at depth"},
    {"api/jobs/*/profile", METHOD_GET, RIGHT_OBSERVE, answer_view, .asks = "profile"},
    {"api/jobs/*/volume", METHOD_GET, RIGHT_OBSERVE, answer_view, .asks = "volume"},
    {"api/jobs/*/tree", METHOD_GET, RIGHT_OBSERVE, answer_view, .asks = "tree", .arguments = "processes"},
    {"api/jobs/*/distributions", METHOD_GET, RIGHT_OBSERVE, answer_view, .asks = "distributions"},
    {"api/jobs/*/source", METHOD_GET, RIGHT_OBSERVE, answer_view, .asks = "source", .arguments = "file"},
    {"api/compare", METHOD_GET, RIGHT_OBSERVE, answer_compare, .arguments = "jobs"},
    {"api/site", METHOD_GET, RIGHT_SITE, answer_site, .arguments = "since owner node"},
    {"api/tasks", METHOD_GET, RIGHT_OBSERVE, answer_tasks},
    {"api/tasks", METHOD_POST, RIGHT_SUBMIT, answer_tasks_post},
    {"api/tasks/check", METHOD_POST, RIGHT_SUBMIT, answer_task_check},
    {"api/tasks/ways", METHOD_GET, RIGHT_OBSERVE, answer_task_ways},
    {"api/tasks/events", METHOD_GET, RIGHT_OBSERVE, answer_task_events},
    {"api/tasks/*", METHOD_GET, RIGHT_OBSERVE, answer_task},
    {"api/tasks/*", METHOD_DELETE, RIGHT_SUBMIT, answer_task_do, .asks = "rm"},
    {"api/tasks/*/queue", METHOD_POST, RIGHT_SUBMIT, answer_task_do, .asks = "queue"},
    {"api/tasks/*/cancel", METHOD_POST, RIGHT_SUBMIT, answer_task_do, .asks = "cancel"},
    {"api/tasks/*/rerun", METHOD_POST, RIGHT_SUBMIT, answer_task_do, .asks = "rerun"},
    {"api/tasks/*/files/*", METHOD_PUT, RIGHT_SUBMIT, answer_task_file, .body = true},
    {"api/tasks/*/output", METHOD_GET, RIGHT_OBSERVE, answer_task_outputs},
    {"api/tasks/*/output/**", METHOD_GET, RIGHT_OBSERVE, answer_task_output},
    {"api/scaling", METHOD_GET, RIGHT_OBSERVE, answer_scaling, .arguments = "tasks"},
    {"*", METHOD_GET, 0, answer_page}, /* all other paths: files of the pages */
};
/* clang-format on */
const size_t route_count = sizeof route_rows / sizeof *route_rows;

const char *method_name(enum method method)
{
    switch (method) {
    case METHOD_GET:
        return "get";
    case METHOD_HEAD:
        return "head";
    case METHOD_POST:
        return "post";
    case METHOD_PUT:
        return "put";
    case METHOD_DELETE:
        return "delete";
    case METHOD_OTHER:
        break;
    }
    return "other";
}

static bool matches(const char *pattern, const char *path, struct span ret_parts[PARTS_OF_PATH])
{
    size_t count = 0;
    for (; *pattern; pattern++) {
        if (*pattern != '*') {
            if (*path++ != *pattern)
                return false;
            continue;
        }
        bool rest = pattern[1] == '*';
        size_t len = rest ? strlen(path) : strcspn(path, "/");
        pattern += rest;
        if (!len || count == PARTS_OF_PATH)
            return false;
        ret_parts[count++] = span_of(path, len);
        path += len;
    }
    return !*path;
}

const struct route *route_find(const char *path, enum method method, struct span ret_parts[PARTS_OF_PATH],
                               unsigned *ret_methods)
{
    bool api = strncmp(path, "api/", 4) == 0;
    enum method wanted = method == METHOD_HEAD ? METHOD_GET : method;
    *ret_methods = 0;
    for (size_t i = 0; i + 1 < route_count; i++) {
        if (!api || !matches(route_rows[i].path, path, ret_parts))
            continue;
        if (route_rows[i].method == wanted)
            return &route_rows[i];
        *ret_methods |= (unsigned)route_rows[i].method;
    }
    if (!api && wanted == METHOD_GET)
        return &route_rows[route_count - 1];
    *ret_methods |= api ? 0 : METHOD_GET;
    return NULL;
}
