/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks. What is asked of them commands of scry answer, as everything; what is done to them is done here, for it takes only a
 * moment. They are those of the user whose server it is, and run as that user: the runner is a program of its own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "task/answer.h"
#include "task/spec.h"
#include "task/launch.h"
#include "task/store.h"
#include "web/serve/question.h"
#include "web/serve/routes.h"
#include "web/serve/tree.h"

struct refusal {
    int code, status;
    const char *kind;
};

static const struct refusal *refusal_of(int code)
{
    static const struct refusal rows[] = {
        {-ENOENT, 404, "unknown"},  {-EINVAL, 400, "bad_task"}, {-EBUSY, 409, "busy"},   {-EALREADY, 409, "over"},
        {-EFBIG, 413, "too_large"}, {-ENOSPC, 507, "no_space"}, {-EPERM, 403, "denied"}, {0, 500, "failed"}};
    size_t i = 0;
    while (rows[i].code && rows[i].code != code)
        i++;
    return &rows[i];
}

static void refuse(struct visit *visit, int code, const struct err *err)
{
    const struct refusal *row = refusal_of(code);
    visit_answer_error(visit, row->status, row->kind, "%s", err->text);
}

/* The id in the path, of a task that is there. */
static int find(const struct visit *visit, struct task_store *ret_store, char ret_id[TASK_ID_SIZE], struct err *err)
{
    struct task task;
    int code = task_store_open(ret_store, err);
    if (code < 0)
        return code;
    if (visit->parts[0].len >= TASK_ID_SIZE)
        return err_set(err, -ENOENT, "there is no such task; api/tasks lists them");
    snprintf(ret_id, TASK_ID_SIZE, "%.*s", SPAN_ARG(visit->parts[0]));
    code = task_load(ret_store, ret_id, &task, err);
    task_done(&task);
    return code;
}

static void ask(struct visit *visit, const char *const *argv)
{
    question_ask(visit->server->questions, visit,
                 &(struct question_spec){.argv = argv, .limit_s = TASKS_LIMIT_SECONDS});
}

void answer_tasks(struct visit *visit)
{
    static const char *const argv[] = {"task", "ls", "--all", "--json", NULL};
    ask(visit, argv);
}

void answer_task(struct visit *visit)
{
    struct task_store store;
    char id[TASK_ID_SIZE];
    struct err err = {0};
    int code = find(visit, &store, id, &err);
    if (code < 0) {
        refuse(visit, code, &err);
        return;
    }
    const char *argv[] = {"task", "show", "--json", id, NULL};
    ask(visit, argv);
}

/* ?tasks=ONE,OTHER: ids, of which the command says what is wrong. */
void answer_scaling(struct visit *visit)
{
    enum { MOST = QUESTION_WORDS - 4 };
    char ids[MOST][TASK_ID_SIZE];
    const char *argv[MOST + 5] = {"task", "scaling", "--json", "--"}, *given = visit_argument(visit, "tasks");
    struct span list = span_str(given ? given : ""), id;
    size_t count = 0;
    while (foreign_next(&list, ',', &id)) {
        if (count == MOST || id.len >= TASK_ID_SIZE || !foreign_is_id(id)) {
            visit_answer_error(visit, 400, "bad_question", "expected ids of at most %d tasks: ?tasks=ONE,OTHER", MOST);
            return;
        }
        snprintf(ids[count], TASK_ID_SIZE, "%.*s", SPAN_ARG(id));
        argv[4 + count] = ids[count];
        count++;
    }
    if (count)
        ask(visit, argv);
    else
        visit_answer_error(visit, 400, "bad_question", "name tasks: ?tasks=ONE,OTHER");
}

/* ---- what is done to them ---- */

/* The answer to what was done is the task as it is now. */
static void answer_with(struct visit *visit, const struct task_store *store, const char *id, int status)
{
    struct err err = {0};
    json_t *json = task_answer_one(store, id, &err);
    if (json)
        visit_answer_json(visit, status, json);
    else
        refuse(visit, err.code, &err);
}

void answer_tasks_post(struct visit *visit)
{
    struct task_store store;
    char id[TASK_ID_SIZE];
    struct err err = {0};
    json_error_t where;
    json_t *json = visit->is_json ? json_loadb(visit->body.data ? visit->body.data : "", visit->body.len,
                                               JSON_REJECT_DUPLICATES, &where)
                                  : NULL;
    if (!json) {
        visit_answer_error(visit, 400, "body", "expected a task as a JSON object, and Content-Type: application/json");
        return;
    }
    int code = task_store_open(&store, &err);
    if (code == 0)
        code = task_create(&store, json, id, &err);
    if (code < 0)
        refuse(visit, code, &err);
    else
        answer_with(visit, &store, id, 201);
    json_decref(json);
}

static json_t *command_json(const json_t *spec)
{
    _cleanup_(buf_done) struct buf command = BUF_INIT;
    task_command(&command, spec, NULL);
    return text_json(command.data);
}

/* The same rules, and nothing is made: for forms, which say what is wrong while they are filled in. */
void answer_task_check(struct visit *visit)
{
    struct err err = {0};
    json_t *whole = NULL, *json = visit_json(visit);
    if (!json)
        return;
    int code = task_spec_check_new(json, &whole, &err);
    if (code < 0)
        refuse(visit, code, &err);
    else
        visit_answer_json(visit, 200, json_pack("{s:O, s:o}", "task", whole, "command", command_json(whole)));
    json_decref(whole);
    json_decref(json);
}

void answer_task_ways(struct visit *visit)
{
    static const char *const ways[] = {"mpirun", "slurm", "ssh", "plain"};
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *const *root;
        bool has = task_launch_has(ways[i], &root);
        json_t *variables = json_array();
        for (; root && *root; root++)
            json_array_append_new(variables, json_string(*root));
        json_array_append_new(
            list, json_pack("{s:s, s:b, s:o}", "by", ways[i], "available", has, "root_variables", variables));
    }
    visit_answer_json(visit, 200, json_pack("{s:o}", "ways", list));
}

static int remove_soon(const struct task_store *store, const char *id, struct err *err)
{
    return task_remove(store, id, false, err);
}

void answer_task_do(struct visit *visit)
{
    static const struct {
        const char *name;
        int (*act)(const struct task_store *store, const char *id, struct err *err);
    } rows[] = {{"queue", task_queue}, {"cancel", task_cancel}, {"rerun", task_rerun}, {"rm", remove_soon}};
    struct task_store store;
    char id[TASK_ID_SIZE];
    struct err err = {0};
    size_t i = 0;
    while (strcmp(rows[i].name, visit->route->asks) != 0)
        i++;
    int code = find(visit, &store, id, &err);
    if (code == 0)
        code = rows[i].act(&store, id, &err);
    if (code == 0 && rows[i].act != remove_soon)
        code = task_runner_wake(&store, &err);
    if (code < 0)
        refuse(visit, code, &err);
    else if (rows[i].act == remove_soon)
        visit_answer_nothing(visit);
    else
        answer_with(visit, &store, id, 200);
}

/* ---- what is in its directory ---- */

static bool task_dir(struct visit *visit, char ret_dir[PATH_MAX + TASK_ID_SIZE])
{
    struct task_store store;
    char id[TASK_ID_SIZE];
    struct err err = {0};
    int code = find(visit, &store, id, &err);
    if (code < 0)
        refuse(visit, code, &err);
    else
        snprintf(ret_dir, PATH_MAX + TASK_ID_SIZE, "%s/%s", store.dir, id);
    return code == 0;
}

void answer_task_outputs(struct visit *visit)
{
    char dir[PATH_MAX + TASK_ID_SIZE];
    if (task_dir(visit, dir))
        outputs_answer_list(visit, dir);
}

void answer_task_output(struct visit *visit)
{
    char dir[PATH_MAX + TASK_ID_SIZE], path[PATH_MOST];
    if (!task_dir(visit, dir))
        return;
    snprintf(path, sizeof path, "%.*s", SPAN_ARG(visit->parts[1]));
    if (file_is_output(path))
        tree_answer_file(visit, dir, path, "task");
    else
        visit_answer_error(visit, 404, "unknown",
                           "a task has files/NAME and runs/NAME; api/tasks/ID/output lists them");
}

/* ---- files ---- */

static void drop_upload(struct visit *visit)
{
    struct task_upload *upload = visit->extra;
    if (upload->fd >= 0)
        task_upload_end(upload, false, NULL); /* it was broken off */
    free(upload);
}

static int end_upload(struct visit *visit)
{
    struct task_upload *upload = visit->extra;
    struct err err = {0};
    int code = task_upload_end(upload, true, &err);
    upload->fd = -1;
    if (code < 0)
        refuse(visit, code, &err);
    else
        visit_answer_nothing(visit);
    return 0;
}

/* Of a body that is to be refused: whoever sends it would not read the answer before its end. */
static int take_nothing(struct visit *visit, const void *bytes, size_t size)
{
    (void)size;
    if (!bytes)
        visit_answer_error(visit, visit->refusal.status, visit->refusal_kind, "%s", visit->refusal_text);
    return 0;
}

/* So many bytes of the body are still to come. Very many are not waited for. */
static void refuse_file(struct visit *visit, uint64_t left, int code, const struct err *err)
{
    const struct refusal *row = refusal_of(code);
    if (!left || left > DROP_MOST) {
        visit->close = left > 0;
        refuse(visit, code, err);
        return;
    }
    visit->refusal.status = row->status;
    visit->refusal_kind = row->kind;
    snprintf(visit->refusal_text, sizeof visit->refusal_text, "%.*s", (int)sizeof visit->refusal_text - 1, err->text);
    visit->take_body = take_nothing;
}

static int take_upload(struct visit *visit, const void *bytes, size_t size)
{
    struct task_upload *upload = visit->extra;
    struct err err = {0};
    if (!bytes)
        return end_upload(visit);
    uint64_t left = visit->body_size - upload->bytes;
    int code = task_upload_write(upload, bytes, size, &err);
    if (code == 0)
        return 0;
    task_upload_end(upload, false, NULL);
    upload->fd = -1;
    refuse_file(visit, left, code, &err);
    return 0;
}

void answer_task_file(struct visit *visit)
{
    struct task_store store;
    char id[TASK_ID_SIZE], name[TASK_ID_SIZE * 2];
    struct err err = {0};
    struct task_upload *upload = malloc(sizeof *upload);
    snprintf(name, sizeof name, "%.*s", SPAN_ARG(visit->parts[1]));
    int code = upload ? find(visit, &store, id, &err) : err_set(&err, -ENOMEM, "out of memory");
    if (code == 0)
        code = task_upload_begin(&store, id, name, upload, &err);
    if (code == 0 && visit->body_size > upload->most) {
        task_upload_end(upload, false, NULL);
        code = err_set(&err, -EFBIG, "the files of a task may take as much as its limits.disk_bytes");
    }
    if (code < 0) {
        free(upload);
        refuse_file(visit, visit->body_size, code, &err);
        return;
    }
    visit->extra = upload;
    visit->done = drop_upload;
    visit->take_body = take_upload;
    if (!visit->body_size)
        end_upload(visit);
}
