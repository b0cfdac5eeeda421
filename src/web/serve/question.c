/* SPDX-License-Identifier: Apache-2.0 */
#include "web/serve/serve.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "web/serve/child.h"

enum { AT_ONCE = 3, QUEUE_MOST = 128, KEPT_MOST = 512, ANSWER_MOST = 64 << 20 };
#define KEPT_BYTES ((size_t)128 << 20)

enum state { QUEUED, RUNNING, ANSWERED };

struct question {
    UT_hash_handle hh; /* in the order of use: the first is the one that was not used for longest */
    char *key;         /* the words, each with a NUL behind it, and an empty one */
    size_t key_len;
    char *jobdir;
    struct questions *all;
    enum state state;
    struct http_request *asking;
    struct question *next_queued;
    uint32_t fresh_ms, limit_s;
    int good_status;
    bool once, own, may_be_empty;
    char *environment;
    bool alone; /* it is ended, and not in the table any more */
    struct child *child;
    int64_t view_id;                  /* of a question to scry-view; 0: none */
    uint64_t made_ns, took_ns, stamp; /* stamp 0: nothing says whether the answer is still good */
    /* the answer */
    int status;
    const char *kind;
    struct blob *blob;
    char tag[BLOB_TAG], text[512];
};

struct questions {
    struct server *server;
    struct question *table, *queue;
    unsigned running, queued;
    size_t bytes;
    uint64_t asked;
};

static void next_run(struct questions *all);

struct questions *questions_new(struct server *server)
{
    struct questions *all = calloc(1, sizeof *all);
    if (all)
        all->server = server;
    return all;
}

static void question_free(struct question *question)
{
    blob_unref(question->blob);
    free(question->environment);
    free(question->jobdir);
    free(question->key);
    free(question);
}

static void question_drop(struct question *question)
{
    HASH_DEL(question->all->table, question);
    question->all->bytes -= question->blob ? question->blob->size : 0;
    question_free(question);
}

void questions_free(struct questions *all)
{
    struct question *question, *next;
    if (!all)
        return;
    HASH_ITER(hh, all->table, question, next)
    {
        question_drop(question);
    }
    free(all);
}

/* ---- what an answer depends on ---- */

/* What changes while a job goes on, and once more when it is over. 0: nothing is known of it. */
static uint64_t stamp_of(const char *jobdir)
{
    static const char *const names[] = {"job.json", "spool/records.jsonl", "report.txt", "trace", "stats", "parts"};
    uint64_t stamp = 1;
    char path[PATH_MAX + 32];
    struct stat info;
    for (size_t i = 0; jobdir && i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", jobdir, names[i]);
        if (stat(path, &info) < 0)
            continue;
        uint64_t facts[] = {i, (uint64_t)info.st_ino, (uint64_t)info.st_size, (uint64_t)info.st_mtim.tv_sec,
                            (uint64_t)info.st_mtim.tv_nsec};
        stamp = sum_add(stamp, facts, sizeof facts);
    }
    return jobdir ? stamp | 1 : 0;
}

static bool is_good(const struct question *question)
{
    if (question->state != ANSWERED)
        return true;
    if (clock_now_ns() - question->made_ns < question->fresh_ms * UINT64_C(1000000))
        return true;
    return question->blob && question->stamp && question->stamp == stamp_of(question->jobdir);
}

/* ---- answers ---- */

void answer_give(struct http_request *request, const struct answer *answer)
{
    if (answer->status == 204) {
        request_answer_nothing(request);
        return;
    }
    if (!answer->blob) {
        if (answer->status == 503)
            request->refusal.retry = "1";
        request_answer_error(request, answer->status, answer->kind, "%s", answer->text);
        return;
    }
    request_answer_tagged(request, answer->status, answer->tag, blob_ref(answer->blob));
}

static void question_give(struct question *question, struct http_request *request)
{
    answer_fn *fn = request->then ? request->then : answer_give;
    const struct answer answer = {question->status, question->kind, question->text,
                                  question->blob,   question->tag,  question->took_ns};
    request->then = NULL;
    fn(request, &answer);
}

static void question_forget(struct http_request *request);

static void give_all(struct question *question)
{
    for (struct http_request *request; (request = question->asking);) {
        question_forget(request);
        question_give(question, request);
    }
}

static void forget_old(struct questions *all)
{
    struct question *question, *next;
    HASH_ITER(hh, all->table, question, next)
    {
        if (all->bytes <= KEPT_BYTES && HASH_COUNT(all->table) <= KEPT_MOST)
            return;
        if (question->state == ANSWERED)
            question_drop(question);
    }
}

static void question_fail(struct question *question, int status, const char *kind, const char *text)
{
    question->status = status;
    question->kind = kind;
    snprintf(question->text, sizeof question->text, "%s", text);
}

/* The first line of what the command says is wrong, without its name. */
static void fail_as_said(struct question *question, const char *said)
{
    const char *colon = strstr(said, ": ");
    char text[512];
    if (strncmp(said, "scry", 4) == 0 && colon)
        said = colon + 2;
    snprintf(text, sizeof text, "%.*s", (int)strcspn(said, "\n"), said);
    question_fail(question, 422, "failed",
                  *text ? text : "the command that should answer has failed; its own call says why");
}

static void question_finish(struct question *question)
{
    struct questions *all = question->all;
    question->state = ANSWERED;
    question->made_ns = clock_now_ns();
    if (question->alone) {
        question_free(question);
        next_run(all);
        return;
    }
    if (question->blob) {
        blob_tag(question->blob, question->tag);
        all->bytes += question->blob->size;
    }
    give_all(question);
    forget_old(all);
    next_run(all);
}

/* ---- who answers ---- */

static void on_command(struct child *child)
{
    struct question *question = child->spec.ctx;
    bool said = child->out.bytes.len && !child->out.bytes.failed;
    question->child = NULL;
    question->took_ns = clock_now_ns() - child->begun_ns;
    question->all->running--;
    question->status = 200;
    if (child->end == CHILD_TOO_LONG)
        question_fail(question, 504, "too_long", "the answer took too long");
    else if (child->end == CHILD_TOO_LARGE)
        question_fail(question, 422, "too_large", "the answer would be too large; use the command itself");
    else if (child->end == CHILD_SIGNALLED)
        question_fail(question, 422, "limits",
                      "the answer takes more memory or time than the server allows; use the command itself");
    else if (!said && !child->exit_status && (question->once || question->may_be_empty))
        question->status = 204;
    else if (!said || (child->exit_status && child->exit_status != question->good_status))
        fail_as_said(question, child->error.bytes.data ? child->error.bytes.data : "");
    else if (!(question->blob = blob_new(&child->out.bytes)))
        question_fail(question, 503, "memory", "out of memory; try again later");
    question_finish(question);
}

static bool run_command(struct question *question)
{
    struct questions *all = question->all;
    char *argv[QUESTION_WORDS + 2] = {question->own ? (char *)"/proc/self/exe" : all->server->program};
    size_t count = 1;
    for (char *word = question->key; *word; word += strlen(word) + 1)
        argv[count++] = word;
    question->stamp = stamp_of(question->jobdir);
    question->child = child_start(all->server, &(struct child_spec){.argv = argv,
                                                                    .environment = question->environment,
                                                                    .limit_s = question->limit_s,
                                                                    .output_most = ANSWER_MOST,
                                                                    .ended = on_command,
                                                                    .ctx = question});
    question->state = question->child ? RUNNING : question->state;
    all->running += question->child != NULL;
    return question->child;
}

static void on_view(void *ctx, const char *kind, const char *text, struct buf *bytes)
{
    static const struct {
        const char *kind;
        int status;
    } known[] = {{"bad_question", 400}, {"not_found", 404}, {"no_trace", 404}, {"out_of_memory", 503}};
    struct question *question = ctx;
    int status = 422;
    for (size_t i = 0; kind && i < sizeof known / sizeof *known; i++)
        if (strcmp(kind, known[i].kind) == 0)
            status = known[i].status;
    question->status = 200;
    if (kind)
        question_fail(question, status, kind, text);
    else if (!(question->blob = blob_new(bytes)))
        question_fail(question, 503, "memory", "out of memory; try again later");
    question_finish(question);
}

static void run_view(struct question *question, json_t *view)
{
    int code = viewer_ask(question->all->server->viewers, question->jobdir, view, on_view, question);
    if (code == 0) {
        question->state = RUNNING;
        question->view_id = json_integer_value(json_object_get(view, "id"));
        return;
    }
    question_fail(question, code == -EINVAL ? 400 : 503, code == -EINVAL ? "bad_question" : "busy",
                  code == -EINVAL ? "the question is too long"
                                  : "too much is asked of this job at once; try again in a second");
    question_finish(question);
}

static void next_run(struct questions *all)
{
    while (all->queue && all->running < (unsigned)AT_ONCE + all->queue->once) {
        struct question *question = all->queue;
        all->queue = question->next_queued;
        all->queued--;
        if (run_command(question))
            continue;
        question->state = ANSWERED;
        question->made_ns = 0;
        question_fail(question, 503, "memory", "no more processes or open files; try again later");
        give_all(question);
    }
}

/* ---- asking ---- */

static struct question *question_new(struct questions *all, const struct question_spec *spec, const struct buf *key)
{
    struct question *question = calloc(1, sizeof *question);
    if (!question)
        return NULL;
    question->key = malloc(key->len);
    question->jobdir = spec->jobdir ? strdup(spec->jobdir) : NULL;
    question->environment = spec->environment ? strdup(spec->environment) : NULL;
    if (!question->key || (spec->jobdir && !question->jobdir) || (spec->environment && !question->environment)) {
        question_free(question);
        return NULL;
    }
    memcpy(question->key, key->data, key->len);
    question->key_len = key->len;
    question->all = all;
    question->fresh_ms = spec->fresh_ms;
    question->limit_s = spec->limit_s;
    question->good_status = spec->good_status;
    question->once = spec->once;
    question->own = spec->own;
    question->may_be_empty = spec->may_be_empty;
    HASH_ADD_KEYPTR(hh, all->table, question->key, question->key_len, question);
    if (spec->view) {
        question->state = RUNNING;
        return question;
    }
    struct question **last = &all->queue;
    while (*last && (!spec->once || (*last)->once)) /* what changes something waits for no reports */
        last = &(*last)->next_queued;
    question->next_queued = *last;
    *last = question;
    all->queued++;
    return question;
}

static void wait_for(struct question *question, struct http_request *request)
{
    request->before_asking = &question->asking;
    request->next_asking = question->asking;
    if (request->next_asking)
        request->next_asking->before_asking = &request->next_asking;
    question->asking = request;
    request->question = question;
    request->forget = question_forget;
}

static void key_of(struct questions *all, const struct question_spec *spec, struct buf *key)
{
    for (size_t i = 0; !spec->view && spec->argv[i]; i++) {
        key->failed |= i == QUESTION_WORDS;
        buf_append(key, spec->argv[i], strlen(spec->argv[i]) + 1);
    }
    buf_putc(key, '\0');
    if (spec->environment)
        buf_puts(key, spec->environment);
    if (spec->once)
        buf_printf(key, "%" PRIu64, ++all->asked);
    if (!spec->view)
        return;
    _cleanup_(freep) char *text = json_dumps(spec->view, JSON_COMPACT | JSON_SORT_KEYS);
    buf_puts(key, spec->jobdir);
    buf_putc(key, '\0');
    buf_puts(key, text ? text : "");
    key->failed |= !text;
}

void question_ask(struct questions *all, struct http_request *request, const struct question_spec *spec)
{
    _cleanup_(buf_done) struct buf key = BUF_INIT;
    struct question *question = NULL;
    bool made = false;
    key_of(all, spec, &key);
    if (!key.failed)
        HASH_FIND(hh, all->table, key.data, key.len, question);
    if (question && !is_good(question)) {
        question_drop(question);
        question = NULL;
    }
    if (question && question->state == ANSWERED) {
        HASH_DEL(all->table, question); /* it goes to the end, as the one that was used last */
        HASH_ADD_KEYPTR(hh, all->table, question->key, question->key_len, question);
        question_give(question, request);
        return;
    }
    if (!question && !key.failed && all->queued < QUEUE_MOST) {
        question = question_new(all, spec, &key);
        made = true;
    }
    if (!question) {
        request->refusal.retry = "1";
        request_answer_error(request, 503, "busy", "too much is asked at once; try again in a second");
        return;
    }
    wait_for(question, request);
    if (made && spec->view)
        run_view(question, spec->view);
    else
        next_run(all);
}

/* Nobody waits for it any more. */
static void give_up(struct question *question)
{
    struct question **at = &question->all->queue;
    if (question->once)
        return;
    if (question->state == RUNNING) {
        HASH_DEL(question->all->table, question);
        question->alone = true;
        if (question->child)
            child_kill(question->child);
        else if (question->view_id)
            viewer_forget(question->all->server->viewers, question->jobdir, question->view_id);
        return;
    }
    while (*at != question)
        at = &(*at)->next_queued;
    *at = question->next_queued;
    question->all->queued--;
    question_drop(question);
}

/* The request is gone. */
static void question_forget(struct http_request *request)
{
    struct question *question = request->question;
    if (!question)
        return;
    request->question = NULL;
    request->forget = NULL;
    *request->before_asking = request->next_asking;
    if (request->next_asking)
        request->next_asking->before_asking = request->before_asking;
    if (!question->asking && question->state != ANSWERED)
        give_up(question);
}
