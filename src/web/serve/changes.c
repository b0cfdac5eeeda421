/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks that changed, as server-sent events: `task` with what a list says of it, `removed` with its id. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "shm/waits.h"
#include "task/answer.h"
#include "web/serve/routes.h"

enum { QUIET_LOOKS = 50, AT_ONCE = 64 };

struct changes {
    struct task_store store;
    struct visit *visit;
    off_t seen; /* of .changed */
    unsigned quiet;
    struct buf text;
    lws_sorted_usec_list_t timer;
};

/* false: for want of open files or memory nothing is known of it now. */
static bool put_task(struct changes *changes, const char *id)
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
static void read_changes(struct changes *changes)
{
    char path[PATH_MAX + 16], lines[AT_ONCE * TASK_ID_SIZE + 1], *rest = lines;
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
        if (task_id_is(line) && !strstr(rest, line) /* its last line will do */ && !put_task(changes, line))
            return; /* it is the first one of the next look */
}

static void on_look(lws_sorted_usec_list_t *timer)
{
    struct changes *changes = lws_container_of(timer, struct changes, timer);
    struct visit *visit = changes->visit;
    if (!changes->text.len) /* who does not read gets no more */
        read_changes(changes);
    changes->quiet = changes->text.len ? 0 : changes->quiet + 1;
    if (changes->quiet > QUIET_LOOKS) {
        buf_puts(&changes->text, ": \n\n");
        changes->quiet = 0;
    }
    lws_sul_schedule(visit->server->context, 0, &changes->timer, on_look, CHANGES_LOOK_MS * LWS_US_PER_MS);
    if (changes->text.len)
        visit_more(visit);
}

static ssize_t more(struct visit *visit, unsigned char *room, size_t size)
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

static void done(struct visit *visit)
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
    visit->done = done;
    lws_http_mark_sse(visit->wsi);
    lws_sul_schedule(visit->server->context, 0, &changes->timer, on_look, CHANGES_LOOK_MS * LWS_US_PER_MS);
    visit_answer_more(visit, &reply, UINT64_MAX, more);
}
