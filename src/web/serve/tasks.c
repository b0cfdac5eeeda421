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

static void refuse_task(struct visit *visit, int code, const struct err *err)
{
    const struct refusal *row = refusal_of(code);
    visit_answer_error(visit, row->status, row->kind, "%s", err->text);
}

/* The id in the path, of a task that is there. */
static int task_of_visit(const struct visit *visit, struct task_store *ret_store, char ret_id[TASK_ID_SIZE],
                         struct err *err)
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

static void ask_scry(struct visit *visit, const char *const *argv)
{
    question_ask(visit->server->questions, visit,
                 &(struct question_spec){.argv = argv, .limit_s = TASKS_LIMIT_SECONDS});
}

void answer_tasks(struct visit *visit)
{
    static const char *const argv[] = {"task", "ls", "--all", "--json", NULL};
    ask_scry(visit, argv);
}

void answer_task(struct visit *visit)
{
    struct task_store store;
    char id[TASK_ID_SIZE];
    struct err err = {0};
    int code = task_of_visit(visit, &store, id, &err);
    if (code < 0) {
        refuse_task(visit, code, &err);
        return;
    }
    const char *argv[] = {"task", "show", "--json", id, NULL};
    ask_scry(visit, argv);
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
        ask_scry(visit, argv);
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
        refuse_task(visit, err.code, &err);
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
        refuse_task(visit, code, &err);
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
        refuse_task(visit, code, &err);
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
    int code = task_of_visit(visit, &store, id, &err);
    if (code == 0)
        code = rows[i].act(&store, id, &err);
    if (code == 0 && rows[i].act != remove_soon)
        code = task_runner_wake(&store, &err);
    if (code < 0)
        refuse_task(visit, code, &err);
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
    int code = task_of_visit(visit, &store, id, &err);
    if (code < 0)
        refuse_task(visit, code, &err);
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
        refuse_task(visit, code, &err);
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
        refuse_task(visit, code, err);
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
    int code = upload ? task_of_visit(visit, &store, id, &err) : err_set(&err, -ENOMEM, "out of memory");
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

/* ---- tasks that changed, as server-sent events: `task` with what a list says of it, `removed` with its id ---- */

enum { CHANGES_QUIET_LOOKS = 50, CHANGES_AT_ONCE = 64 };

struct changes {
    struct task_store store;
    struct visit *visit;
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
    struct visit *visit = changes->visit;
    if (!changes->text.len) /* who does not read gets no more */
        changes_read(changes);
    changes->quiet = changes->text.len ? 0 : changes->quiet + 1;
    if (changes->quiet > CHANGES_QUIET_LOOKS) {
        buf_puts(&changes->text, ": \n\n");
        changes->quiet = 0;
    }
    lws_sul_schedule(visit->server->context, 0, &changes->timer, changes_on_look, CHANGES_LOOK_MS * LWS_US_PER_MS);
    if (changes->text.len)
        visit_more(visit);
}

static ssize_t changes_more(struct visit *visit, unsigned char *room, size_t size)
{
    struct changes *changes = visit->extra;
    if (!visit_is_let_in(visit))
        return -1;
    size_t len = changes->text.len < size ? changes->text.len : size;
    if (len) {
        memcpy(room, changes->text.data, len);
        buf_drop(&changes->text, len);
        lws_set_timeout(visit->wsi, PENDING_TIMEOUT_HTTP_CONTENT, CHANGES_SECONDS);
    }
    return (ssize_t)len;
}

static void changes_done(struct visit *visit)
{
    struct changes *changes = visit->extra;
    lws_sul_schedule(visit->server->context, 0, &changes->timer, NULL, LWS_SET_TIMER_USEC_CANCEL);
    buf_done(&changes->text);
    free(changes);
}

void answer_task_events(struct visit *visit)
{
    static const struct reply reply = {.status = 200, .type = "text/event-stream", .cache = "no-store"};
    char path[PATH_MAX + 16];
    struct stat st;
    struct err err = {0};
    struct changes *changes = calloc(1, sizeof *changes);
    if (!changes || task_store_open(&changes->store, &err) < 0) {
        free(changes);
        visit_answer_error(visit, 500, "failed", "%s", *err.text ? err.text : "out of memory");
        return;
    }
    snprintf(path, sizeof path, "%s/.changed", changes->store.dir);
    changes->seen = stat(path, &st) == 0 ? st.st_size : 0;
    changes->visit = visit;
    buf_puts(&changes->text, ": \n\n"); /* so that who asks sees at once that it is heard */
    visit->extra = changes;
    visit->done = changes_done;
    lws_http_mark_sse(visit->wsi);
    lws_sul_schedule(visit->server->context, 0, &changes->timer, changes_on_look, CHANGES_LOOK_MS * LWS_US_PER_MS);
    visit_answer_more(visit, &reply, UINT64_MAX, changes_more);
}
