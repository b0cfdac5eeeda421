/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/system/file.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "jobdir/record/dir.h"
#include "shm/waits.h"
#include "web/view/ask.h"
#include "web/view/picture.h"
#include "web/view/lane.h"

struct waiting {
    struct asked asked;
    const struct question *question;
};

/* The questions that came and are not answered. */
struct desk {
    struct view view;
    struct buf input;
    struct waiting *list;
    size_t count;
    bool ended;                   /* of the input */
    bool too_long;                /* the line that comes is passed over */
    unsigned known;               /* what has been read, of enum view_needs */
    bool saved;                   /* for the next time, or need not be; */
    size_t saved_count;           /* with so many answers about the whole */
    uint64_t keep_bytes;          /* of what is saved of all jobs */
    bool slow;                    /* a question is being answered that takes long: */
    int64_t slow_id;              /* this one; */
    bool given_up;                /* and nobody waits for it any more: it has its answer */
    bool nested;                  /* and another one meanwhile */
    bool asked;                   /* a question has come since the job was looked at */
    uint64_t looked_ns, stale_ns; /* when that was; from when on what was read of a running job is too old */
};

/* ---- out ---- */

static void line_print(const struct buf *text)
{
    for (size_t at = 0; at < text->len;) {
        ssize_t done = write(STDOUT_FILENO, text->data + at, text->len - at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            exit(EXIT_FAILURE); /* nobody reads it any more */
        at += (size_t)done;
    }
}

static void line_refuse(int64_t id, const struct err *err)
{
    struct buf out = BUF_INIT;
    asked_refuse(id, err, &out);
    line_print(&out);
    buf_done(&out);
}

/* ---- in ---- */

static void drop_waiting(struct desk *desk, size_t at)
{
    desk->count--;
    memmove(&desk->list[at], &desk->list[at + 1], (desk->count - at) * sizeof *desk->list);
}

/* If it waits, or is being answered. */
static void desk_forget(struct desk *desk, int64_t id)
{
    struct err err = {0};
    bool is = desk->slow && desk->slow_id == id && !desk->given_up;
    if (is)
        desk->given_up = true;
    for (size_t i = 0; i < desk->count && !is; i++)
        if (desk->list[i].asked.id == id) {
            is = true;
            asked_done(&desk->list[i].asked);
            drop_waiting(desk, i);
        }
    answer_forget(NULL, NULL, NULL, &err);
    if (is)
        line_refuse(id, &err);
}

static void take_line(struct desk *desk, const char *line, size_t size)
{
    struct waiting *waiting = &desk->list[desk->count];
    struct err err = {0};
    bool good = asked_parse(&waiting->asked, &waiting->question, line, size, &err) == 0;
    if (good && waiting->question->answer != answer_forget) {
        desk->count++;
        desk->asked = true;
        return;
    }
    int64_t id = waiting->asked.id;
    asked_done(&waiting->asked);
    if (good)
        desk_forget(desk, id);
    else
        line_refuse(id, &err);
}

static void take_lines(struct desk *desk)
{
    struct err err = {0};
    for (;;) {
        char *end = desk->input.len ? memchr(desk->input.data, '\n', desk->input.len) : NULL;
        size_t size = end ? (size_t)(end - desk->input.data) : desk->input.len;
        if (!end && (size < VIEW_LINE || desk->ended) && (!size || !desk->ended))
            return;
        if (end && desk->count == VIEW_PENDING)
            return; /* until others are answered */
        bool whole = end || desk->ended;
        if (!desk->too_long && size > VIEW_LINE - 1) {
            err_set(&err, -EINVAL, "a question has at most %d bytes", VIEW_LINE - 1);
            line_refuse(0, &err);
        } else if (!desk->too_long && size) {
            take_line(desk, desk->input.data, size);
        }
        desk->too_long = !whole;
        buf_drop(&desk->input, size + (end != NULL));
    }
}

/* Reads what there is; waits so long for it. */
static void read_input(struct desk *desk, int timeout_ms)
{
    if (desk->ended || desk->count == VIEW_PENDING || !wait_fd(STDIN_FILENO, POLLIN, timeout_ms))
        return;
    char *room = buf_reserve(&desk->input, VIEW_LINE);
    ssize_t got = room ? read(STDIN_FILENO, room, VIEW_LINE) : -1;
    if (got < 0 && errno == EINTR)
        return;
    desk->ended = got <= 0;
    desk->input.len += got > 0 ? (size_t)got : 0;
    take_lines(desk);
}

/* ---- answers ---- */

/* The first question whose needs are met, taken out of the list. While one is being answered that takes long, others
 * wait that do, too. */
static bool take_ready(struct desk *desk, struct waiting *ret_waiting)
{
    for (size_t i = 0; i < desk->count; i++) {
        struct waiting *waiting = &desk->list[i];
        bool whole = whole_find(&desk->view, waiting->question, &waiting->asked);
        if (!whole && ((waiting->question->needs & ~desk->known) || (desk->slow && waiting->question->slow)))
            continue;
        *ret_waiting = *waiting;
        drop_waiting(desk, i);
        return true;
    }
    return false;
}

static void desk_answer(struct desk *desk)
{
    struct waiting waiting;
    while (take_ready(desk, &waiting)) {
        struct buf out = BUF_INIT;
        bool begins = waiting.question->slow && !desk->slow;
        if (begins) {
            desk->slow = true;
            desk->slow_id = waiting.asked.id;
            desk->given_up = false;
        }
        asked_answer(&desk->view, waiting.question, &waiting.asked, &out);
        desk->slow &= !begins;
        if (!begins || !desk->given_up)
            line_print(&out);
        buf_done(&out);
        asked_done(&waiting.asked);
    }
}

static void desk_between(void *ctx, double share)
{
    (void)share;
    struct desk *desk = ctx;
    read_input(desk, 0);
    desk_answer(desk);
}

static bool between_reads(void *ctx)
{
    struct desk *desk = ctx;
    if (desk->nested) /* in a quick question, which ends anyway */
        return true;
    desk->nested = true;
    desk_between(desk, 0);
    desk->nested = false;
    return !desk->slow || !desk->given_up;
}

/* What was read in one go of a running job is read again, when it is asked for, after ten times as long. */
static void desk_took(struct desk *desk, uint64_t since_ns)
{
    uint64_t now = clock_now_ns(), most = 10 * (now - since_ns);
    most = most < VIEW_LOOK_NS ? VIEW_LOOK_NS : most;
    desk->stale_ns = now + most > desk->stale_ns ? now + most : desk->stale_ns;
}

static void load_functions(struct desk *desk)
{
    uint64_t began = clock_now_ns();
    if (view_load_functions(&desk->view, desk_between, desk, &desk->view.functions_err) < 0)
        view_note(&desk->view, desk->view.functions_err.text);
    desk->known |= NEEDS_FUNCTIONS;
    desk_took(desk, began);
}

static void load_messages(struct desk *desk)
{
    struct view *view = &desk->view;
    struct err err = {0};
    uint64_t began = clock_now_ns();
    if (view_load_messages(view, desk_between, desk, &err) < 0)
        view_note(view, err.text);
    view->messages_done = true;
    desk->known |= NEEDS_MESSAGES | NEEDS_TIMES;
    desk_took(desk, began);
}

/* Of a running job what is there now counts. */
static bool work_on_calls(struct desk *desk)
{
    struct err err = {0};
    int code = pass_work(&desk->view, &err);
    if (code < 0)
        view_note(&desk->view, err.text);
    if (code <= 0)
        desk->known |= NEEDS_CALLS;
    return code > 0;
}

static int open_job(struct desk *desk, const char *path, struct err *err)
{
    int code = view_open(&desk->view, path, err);
    desk->known = desk->view.timeline.host_count > 1 ? 0 : NEEDS_TIMES;
    desk->saved = desk->view.complete;
    desk->saved_count = whole_count(&desk->view);
    if (desk->saved)
        desk->known = NEEDS_CALLS | NEEDS_TIMES | NEEDS_MESSAGES;
    desk->view.between = between_reads;
    desk->view.between_ctx = desk;
    desk->looked_ns = clock_now_ns();
    desk->stale_ns = 0;
    return code;
}

/* A question has come: what is known of a job that runs is brought up to now. */
static int look_again(struct desk *desk, struct err *err)
{
    uint64_t now = clock_now_ns();
    bool look = desk->view.running && desk->asked && now - desk->looked_ns >= VIEW_LOOK_NS;
    desk->asked = false;
    if (!look)
        return 0;
    desk->looked_ns = now;
    if (view_has_changed(&desk->view)) {
        char path[PATH_MAX];
        memcpy(path, desk->view.job, sizeof path);
        view_close(&desk->view);
        return open_job(desk, path, err);
    }
    desk->known &= ~(unsigned)NEEDS_CALLS;
    if (now > desk->stale_ns)
        desk->known &= ~(unsigned)(NEEDS_FUNCTIONS | NEEDS_MESSAGES);
    return 0;
}

/* All is known, and nobody waits. */
static void desk_save(struct desk *desk)
{
    saved_write(&desk->view, desk->keep_bytes);
    desk->saved = true;
    desk->saved_count = whole_count(&desk->view);
}

/* Does a part of what has to be done. False: there is nothing to do now. */
static bool desk_work(struct desk *desk)
{
    unsigned wanted = 0;
    for (size_t i = 0; i < desk->count; i++)
        wanted |= desk->list[i].question->needs & ~desk->known;
    if (wanted & NEEDS_FUNCTIONS)
        load_functions(desk);
    else if (!(desk->known & NEEDS_TIMES) || (wanted & NEEDS_MESSAGES))
        load_messages(desk);
    else if (!(desk->known & NEEDS_CALLS) && work_on_calls(desk))
        return true;
    else if (!(desk->known & NEEDS_MESSAGES))
        load_messages(desk);
    else if (!desk->count && (!desk->saved || desk->saved_count < whole_count(&desk->view)))
        desk_save(desk);
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    struct desk desk = {0};
    struct err err = {0};
    if (argc < 2 || argc > 3) {
        fputs("usage: scry-view JOBDIR [BYTES]\nAnswers questions about a job directory, one JSON object a line; scry "
              "serve "
              "starts it. BYTES: what it keeps of all jobs' pictures.\n",
              stderr);
        return 2;
    }
    signal(SIGXFSZ, SIG_IGN); /* a limit of files (ulimit -f) is for the cache as a full disk: nothing is kept */
    desk.keep_bytes = argc == 3 ? strtoull(argv[2], NULL, 10) : CACHE_MOST_BYTES;
    picture_files_clean(desk.keep_bytes); /* it may be less than it was */
    desk.list = calloc(VIEW_PENDING + 1, sizeof *desk.list);
    if (!desk.list || open_job(&desk, argv[1], &err) < 0) {
        log_error("%s", desk.list ? err.text : "out of memory");
        return EXIT_FAILURE;
    }
    int code = 0;
    while (code == 0 && (!desk.ended || desk.count)) {
        code = look_again(&desk, &err);
        if (code < 0)
            break;
        desk_answer(&desk);
        bool more = desk_work(&desk);
        take_lines(&desk);
        read_input(&desk, more || desk.count ? 0 : -1);
    }
    if (code < 0)
        log_error("%s", err.text);
    view_close(&desk.view);
    free(desk.list);
    buf_done(&desk.input);
    return code < 0 ? EXIT_FAILURE : 0;
}
