/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks. What is asked of them commands of scry answer, as everything; what is done to them is done here, for it takes only a
 * moment. They are those of the user whose server it is, and run as that user: the runner is a program of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "task/answer.h"
#include "task/spec.h"
#include "task/launch.h"
#include "task/store.h"
#include "web/serve/serve.h"

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

static void refuse_task(struct http_request *request, int code, const struct err *err)
{
    const struct refusal *row = refusal_of(code);
    request_answer_error(request, row->status, row->kind, "%s", err->text);
}

/* The id in the path, of a task that is there. */
static int task_of_request(const struct http_request *request, struct task_store *ret_store, char ret_id[TASK_ID_SIZE],
                           struct err *err)
{
    struct task task;
    int code = task_store_open(ret_store, err);
    if (code < 0)
        return code;
    if (request->parts[0].len >= TASK_ID_SIZE)
        return err_set(err, -ENOENT, "there is no such task; api/tasks lists them");
    snprintf(ret_id, TASK_ID_SIZE, "%.*s", SPAN_ARG(request->parts[0]));
    code = task_load(ret_store, ret_id, &task, err);
    task_done(&task);
    return code;
}

static void ask_scry(struct http_request *request, const char *const *argv)
{
    question_ask(request->server->questions, request,
                 &(struct question_spec){.argv = argv, .limit_s = TASKS_LIMIT_SECONDS});
}

void answer_tasks(struct http_request *request)
{
    static const char *const argv[] = {"task", "ls", "--all", "--json", NULL};
    ask_scry(request, argv);
}

void answer_task(struct http_request *request)
{
    struct task_store store;
    char id[TASK_ID_SIZE];
    struct err err = {0};
    int code = task_of_request(request, &store, id, &err);
    if (code < 0) {
        refuse_task(request, code, &err);
        return;
    }
    const char *argv[] = {"task", "show", "--json", id, NULL};
    ask_scry(request, argv);
}

/* ?tasks=ONE,OTHER: ids, of which the command says what is wrong. */
void answer_scaling(struct http_request *request)
{
    enum { MOST = QUESTION_WORDS - 4 };
    char ids[MOST][TASK_ID_SIZE];
    const char *argv[MOST + 5] = {"task", "scaling", "--json", "--"}, *given = request_argument(request, "tasks");
    struct span list = span_str(given ? given : ""), id;
    size_t count = 0;
    while (foreign_next(&list, ',', &id)) {
        if (count == MOST || id.len >= TASK_ID_SIZE || !foreign_is_id(id)) {
            request_answer_error(request, 400, "bad_question", "expected ids of at most %d tasks: ?tasks=ONE,OTHER",
                                 MOST);
            return;
        }
        snprintf(ids[count], TASK_ID_SIZE, "%.*s", SPAN_ARG(id));
        argv[4 + count] = ids[count];
        count++;
    }
    if (count)
        ask_scry(request, argv);
    else
        request_answer_error(request, 400, "bad_question", "name tasks: ?tasks=ONE,OTHER");
}

/* ---- what is done to them ---- */

/* The answer to what was done is the task as it is now. */
static void answer_with(struct http_request *request, const struct task_store *store, const char *id, int status)
{
    struct err err = {0};
    json_t *json = task_answer_one(store, id, &err);
    if (json)
        request_answer_json(request, status, json);
    else
        refuse_task(request, err.code, &err);
}

void answer_tasks_post(struct http_request *request)
{
    struct task_store store;
    char id[TASK_ID_SIZE];
    struct err err = {0};
    json_error_t where;
    json_t *json = request->is_json ? json_loadb(request->body.data ? request->body.data : "", request->body.len,
                                                 JSON_REJECT_DUPLICATES, &where)
                                    : NULL;
    if (!json) {
        request_answer_error(request, 400, "body",
                             "expected a task as a JSON object, and Content-Type: application/json");
        return;
    }
    int code = task_store_open(&store, &err);
    if (code == 0)
        code = task_create(&store, json, id, &err);
    if (code < 0)
        refuse_task(request, code, &err);
    else
        answer_with(request, &store, id, 201);
    json_decref(json);
}

static json_t *command_json(const json_t *spec)
{
    _cleanup_(buf_done) struct buf command = BUF_INIT;
    task_command(&command, spec, NULL);
    return text_json(command.data);
}

/* The same rules, and nothing is made: for forms, which say what is wrong while they are filled in. */
void answer_task_check(struct http_request *request)
{
    struct err err = {0};
    json_t *whole = NULL, *json = request_json(request);
    if (!json)
        return;
    int code = task_spec_check_new(json, &whole, &err);
    if (code < 0)
        refuse_task(request, code, &err);
    else
        request_answer_json(request, 200, json_pack("{s:O, s:o}", "task", whole, "command", command_json(whole)));
    json_decref(whole);
    json_decref(json);
}

void answer_task_ways(struct http_request *request)
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
    request_answer_json(request, 200, json_pack("{s:o}", "ways", list));
}

static int remove_soon(const struct task_store *store, const char *id, struct err *err)
{
    return task_remove(store, id, false, err);
}

void answer_task_do(struct http_request *request)
{
    static const struct {
        const char *name;
        int (*act)(const struct task_store *store, const char *id, struct err *err);
    } rows[] = {{"queue", task_queue}, {"cancel", task_cancel}, {"rerun", task_rerun}, {"rm", remove_soon}};
    struct task_store store;
    char id[TASK_ID_SIZE];
    struct err err = {0};
    size_t i = 0;
    while (strcmp(rows[i].name, request->route->asks) != 0)
        i++;
    int code = task_of_request(request, &store, id, &err);
    if (code == 0)
        code = rows[i].act(&store, id, &err);
    if (code == 0 && rows[i].act != remove_soon)
        code = task_runner_wake(&store, &err);
    if (code < 0)
        refuse_task(request, code, &err);
    else if (rows[i].act == remove_soon)
        request_answer_nothing(request);
    else
        answer_with(request, &store, id, 200);
}

/* ---- what is in its directory ---- */

static bool task_dir(struct http_request *request, char ret_dir[PATH_MAX + TASK_ID_SIZE])
{
    struct task_store store;
    char id[TASK_ID_SIZE];
    struct err err = {0};
    int code = task_of_request(request, &store, id, &err);
    if (code < 0)
        refuse_task(request, code, &err);
    else
        snprintf(ret_dir, PATH_MAX + TASK_ID_SIZE, "%s/%s", store.dir, id);
    return code == 0;
}

void answer_task_outputs(struct http_request *request)
{
    char dir[PATH_MAX + TASK_ID_SIZE];
    if (task_dir(request, dir))
        outputs_answer_list(request, dir);
}

void answer_task_output(struct http_request *request)
{
    char dir[PATH_MAX + TASK_ID_SIZE], path[PATH_MOST];
    if (!task_dir(request, dir))
        return;
    snprintf(path, sizeof path, "%.*s", SPAN_ARG(request->parts[1]));
    if (file_is_output(path))
        tree_answer_file(request, dir, path, "task");
    else
        request_answer_error(request, 404, "unknown",
                             "a task has files/NAME and runs/NAME; api/tasks/ID/output lists them");
}

/* ---- files ---- */

static void drop_upload(struct http_request *request)
{
    struct task_upload *upload = request->extra;
    if (upload->fd >= 0)
        task_upload_end(upload, false, NULL); /* it was broken off */
    free(upload);
}

static int end_upload(struct http_request *request)
{
    struct task_upload *upload = request->extra;
    struct err err = {0};
    int code = task_upload_end(upload, true, &err);
    upload->fd = -1;
    if (code < 0)
        refuse_task(request, code, &err);
    else
        request_answer_nothing(request);
    return 0;
}

/* Of a body that is to be refused: whoever sends it would not read the answer before its end. */
static int take_nothing(struct http_request *request, const void *bytes, size_t size)
{
    (void)size;
    if (!bytes)
        request_answer_error(request, request->refusal.status, request->refusal_kind, "%s", request->refusal_text);
    return 0;
}

/* So many bytes of the body are still to come. Very many are not waited for. */
static void refuse_file(struct http_request *request, uint64_t left, int code, const struct err *err)
{
    const struct refusal *row = refusal_of(code);
    if (!left || left > DROP_MOST) {
        request->close = left > 0;
        refuse_task(request, code, err);
        return;
    }
    request->refusal.status = row->status;
    request->refusal_kind = row->kind;
    snprintf(request->refusal_text, sizeof request->refusal_text, "%.*s", (int)sizeof request->refusal_text - 1,
             err->text);
    request->take_body = take_nothing;
}

static int take_upload(struct http_request *request, const void *bytes, size_t size)
{
    struct task_upload *upload = request->extra;
    struct err err = {0};
    if (!bytes)
        return end_upload(request);
    uint64_t left = request->body_size - upload->bytes;
    int code = task_upload_write(upload, bytes, size, &err);
    if (code == 0)
        return 0;
    task_upload_end(upload, false, NULL);
    upload->fd = -1;
    refuse_file(request, left, code, &err);
    return 0;
}

void answer_task_file(struct http_request *request)
{
    struct task_store store;
    char id[TASK_ID_SIZE], name[TASK_ID_SIZE * 2];
    struct err err = {0};
    struct task_upload *upload = malloc(sizeof *upload);
    snprintf(name, sizeof name, "%.*s", SPAN_ARG(request->parts[1]));
    int code = upload ? task_of_request(request, &store, id, &err) : err_set(&err, -ENOMEM, "out of memory");
    if (code == 0)
        code = task_upload_begin(&store, id, name, upload, &err);
    if (code == 0 && request->body_size > upload->most) {
        task_upload_end(upload, false, NULL);
        code = err_set(&err, -EFBIG, "the files of a task may take as much as its limits.disk_bytes");
    }
    if (code < 0) {
        free(upload);
        refuse_file(request, request->body_size, code, &err);
        return;
    }
    request->extra = upload;
    request->done = drop_upload;
    request->take_body = take_upload;
    if (!request->body_size)
        end_upload(request);
}

/* ---- tasks that changed, as server-sent events: `task` with what a list says of it, `removed` with its id ---- */

enum { CHANGES_QUIET_LOOKS = 50, CHANGES_AT_ONCE = 64 };

struct changes {
    struct task_store store;
    struct http_request *request;
    off_t seen; /* of .changed */
    unsigned quiet;
    struct buf text;
    lws_sorted_usec_list_t timer;
};

/* false: for want of open files or memory nothing is known of it now. */
static bool changes_put_task(struct changes *changes, const char *id)
{
    struct err err = {0};
    json_t *head = task_answer_head(&changes->store, id, &err);
    const char *event = head ? "task" : "removed";
    if (!head && (err.code == -EMFILE || err.code == -ENFILE || err.code == -ENOMEM))
        return false;
    if (!head)
        head = json_pack("{s:s}", "id", id);
    _cleanup_(freep) char *line = json_dumps(head, JSON_COMPACT);
    if (line)
        buf_printf(&changes->text, "event: %s\ndata: %s\n\n", event, line);
    json_decref(head);
    return line;
}

/* The lines that have come since, each task once. */
static void changes_read(struct changes *changes)
{
    char path[PATH_MAX + 16], lines[CHANGES_AT_ONCE * TASK_ID_SIZE + 1], *rest = lines;
    struct stat st;
    snprintf(path, sizeof path, "%s/.changed", changes->store.dir);
    _cleanup_(closep) int fd = file_open_own(AT_FDCWD, path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    if (st.st_size < changes->seen)
        changes->seen = 0; /* it was begun anew */
    ssize_t got = pread(fd, lines, sizeof lines - 1, changes->seen);
    lines[got > 0 ? got : 0] = 0;
    char *end = strrchr(lines, '\n');
    if (!end)
        return;
    end[1] = 0;
    for (char *line; (line = strsep(&rest, "\n")) && rest; changes->seen += rest - line)
        if (task_id_is(line) && !strstr(rest, line) /* its last line will do */ && !changes_put_task(changes, line))
            return; /* it is the first one of the next look */
}

static void changes_on_look(lws_sorted_usec_list_t *timer)
{
    struct changes *changes = lws_container_of(timer, struct changes, timer);
    struct http_request *request = changes->request;
    if (!changes->text.len) /* who does not read gets no more */
        changes_read(changes);
    changes->quiet = changes->text.len ? 0 : changes->quiet + 1;
    if (changes->quiet > CHANGES_QUIET_LOOKS) {
        buf_puts(&changes->text, ": \n\n");
        changes->quiet = 0;
    }
    lws_sul_schedule(request->server->context, 0, &changes->timer, changes_on_look, CHANGES_LOOK_MS * LWS_US_PER_MS);
    if (changes->text.len)
        request_more(request);
}

static ssize_t changes_more(struct http_request *request, unsigned char *room, size_t size)
{
    struct changes *changes = request->extra;
    if (!request_is_let_in(request))
        return -1;
    size_t len = changes->text.len < size ? changes->text.len : size;
    if (len) {
        memcpy(room, changes->text.data, len);
        buf_drop(&changes->text, len);
        lws_set_timeout(request->wsi, PENDING_TIMEOUT_HTTP_CONTENT, CHANGES_SECONDS);
    }
    return (ssize_t)len;
}

static void changes_done(struct http_request *request)
{
    struct changes *changes = request->extra;
    lws_sul_schedule(request->server->context, 0, &changes->timer, NULL, LWS_SET_TIMER_USEC_CANCEL);
    buf_done(&changes->text);
    free(changes);
}

void answer_task_events(struct http_request *request)
{
    static const struct reply reply = {.status = 200, .type = "text/event-stream", .cache = "no-store"};
    char path[PATH_MAX + 16];
    struct stat st;
    struct err err = {0};
    struct changes *changes = calloc(1, sizeof *changes);
    if (!changes || task_store_open(&changes->store, &err) < 0) {
        free(changes);
        request_answer_error(request, 500, "failed", "%s", *err.text ? err.text : "out of memory");
        return;
    }
    snprintf(path, sizeof path, "%s/.changed", changes->store.dir);
    changes->seen = stat(path, &st) == 0 ? st.st_size : 0;
    changes->request = request;
    buf_puts(&changes->text, ": \n\n"); /* so that who asks sees at once that it is heard */
    request->extra = changes;
    request->done = changes_done;
    lws_http_mark_sse(request->wsi);
    lws_sul_schedule(request->server->context, 0, &changes->timer, changes_on_look, CHANGES_LOOK_MS * LWS_US_PER_MS);
    request_answer_more(request, &reply, UINT64_MAX, changes_more);
}
