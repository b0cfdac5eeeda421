/* SPDX-License-Identifier: Apache-2.0 */
#include "web/serve/question.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/spawn.h"

enum {
    AT_ONCE = 3,
    QUEUE_MOST = 128,
    KEPT_MOST = 512,
    WORDS_MOST = 16,
    ANSWER_MOST = 64 << 20,
    ERROR_MOST = 4 << 10,
    REAP_MS = 5,
};
#define KEPT_BYTES ((size_t)128 << 20)
#define MEMORY_BYTES ((rlim_t)6 << 30) /* address space of a child */

enum state { QUEUED, RUNNING, ANSWERED };

struct question;
struct pipe {
    struct question *question; /* NULL: it is not wanted any more */
    struct buf bytes;
    size_t most;
    bool open;
};

struct question {
    UT_hash_handle hh; /* in the order of use: the first is the one that was not used for longest */
    char *key;         /* the words, each with a NUL behind it, and an empty one */
    size_t key_len;
    char *jobdir;
    struct questions *all;
    enum state state;
    struct visit *asking;
    struct question *next_queued;
    uint32_t fresh_ms, limit_s;
    bool status_is_answer, over, too_large, too_long;
    bool alone; /* it is ended, and not in the table any more */
    pid_t pid;
    struct pipe out, error;
    lws_sorted_usec_list_t timer;
    uint64_t begun_ns, made_ns, stamp;
    /* the answer */
    int status;
    const char *kind;
    struct blob *blob;
    char tag[24], text[512];
};

struct questions {
    struct server *server;
    struct question *table, *queue;
    unsigned running, queued;
    size_t bytes;
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
    buf_done(&question->out.bytes);
    buf_done(&question->error.bytes);
    free(question->jobdir);
    free(question->key);
    free(question);
}

static void drop(struct question *question)
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
        if (question->state == RUNNING) {
            kill(-question->pid, SIGKILL);
            waitpid(question->pid, NULL, 0);
        }
        drop(question);
    }
    free(all);
}

/* ---- what an answer depends on ---- */

static void stamp_add(uint64_t *stamp, const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        *stamp = (*stamp ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
}

/* What changes while a job goes on, and once more when it is over. 0: nothing is known of it. */
static uint64_t stamp_of(const char *jobdir)
{
    static const char *const names[] = {"job.json", "spool/records.jsonl", "report.txt", "trace", "stats", "parts"};
    uint64_t stamp = UINT64_C(14695981039346656037);
    char path[PATH_MAX + 32];
    struct stat info;
    for (size_t i = 0; jobdir && i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", jobdir, names[i]);
        if (stat(path, &info) < 0)
            continue;
        uint64_t facts[] = {i, (uint64_t)info.st_ino, (uint64_t)info.st_size, (uint64_t)info.st_mtim.tv_sec,
                            (uint64_t)info.st_mtim.tv_nsec};
        stamp_add(&stamp, facts, sizeof facts);
    }
    return jobdir ? stamp : 0;
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

static void give(struct question *question, struct visit *visit)
{
    if (!question->blob) {
        if (question->status == 503)
            visit->refusal.retry = "1";
        visit_answer_error(visit, question->status, question->kind, "%s", question->text);
        return;
    }
    struct reply reply = {
        .status = question->status, .type = "application/json", .etag = question->tag, .cache = "private, no-cache"};
    if (foreign_has_tag(span_str(visit->tags), question->tag)) {
        reply.status = 304;
        visit_answer_bytes(visit, &reply, NULL, 0);
    } else {
        visit_answer(visit, &reply, blob_ref(question->blob));
    }
}

static void give_all(struct question *question)
{
    for (struct visit *visit; (visit = question->asking);) {
        question_forget(visit);
        give(question, visit);
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
            drop(question);
    }
}

static void fail(struct question *question, int status, const char *kind, const char *text)
{
    question->status = status;
    question->kind = kind;
    snprintf(question->text, sizeof question->text, "%s", text);
}

/* The first line of what the command says is wrong, without its name. */
static void fail_as_said(struct question *question)
{
    const char *said = question->error.bytes.data ? question->error.bytes.data : "", *colon = strstr(said, ": ");
    if (strncmp(said, "scry", 4) == 0 && colon)
        said = colon + 2;
    int len = (int)strcspn(said, "\n");
    char text[512];
    snprintf(text, sizeof text, "%.*s", len, said);
    fail(question, 422, "failed", *text ? text : "the command that should answer has failed; its own call says why");
}

static void finish(struct question *question, int wait_status)
{
    struct questions *all = question->all;
    if (question->alone) {
        all->running--;
        question_free(question);
        next_run(all);
        return;
    }
    bool said = question->out.bytes.len && !question->out.bytes.failed;
    question->state = ANSWERED;
    question->made_ns = clock_now_ns();
    all->running--;
    question->status = 200;
    if (question->too_long)
        fail(question, 504, "too_long", "the answer took too long");
    else if (question->too_large)
        fail(question, 422, "too_large", "the answer would be too large; use the command itself");
    else if (WIFSIGNALED(wait_status))
        fail(question, 422, "limits",
             "the answer takes more memory or time than the server allows; use the command itself");
    else if (WEXITSTATUS(wait_status) == 127 || question->out.bytes.failed)
        fail(question, 503, "memory", "out of memory; try again later");
    else if (!said || (WEXITSTATUS(wait_status) && !question->status_is_answer))
        fail_as_said(question);
    else if (!(question->blob = blob_new(&question->out.bytes)))
        fail(question, 503, "memory", "out of memory; try again later");
    buf_done(&question->out.bytes);
    buf_done(&question->error.bytes);
    if (question->blob) {
        uint64_t sum = UINT64_C(14695981039346656037);
        stamp_add(&sum, question->blob->bytes, question->blob->size);
        snprintf(question->tag, sizeof question->tag, "\"%016" PRIx64 "\"", sum);
        all->bytes += question->blob->size;
    }
    give_all(question);
    forget_old(all);
    next_run(all);
}

/* ---- children ---- */

static void reap(lws_sorted_usec_list_t *timer)
{
    struct question *question = lws_container_of(timer, struct question, timer);
    bool closed = !question->out.open && !question->error.open;
    int status = 0;
    if (!question->over && clock_now_ns() - question->begun_ns > question->limit_s * (uint64_t)NS_PER_SECOND) {
        question->over = question->too_long = true;
        kill(-question->pid, SIGKILL);
    }
    if (closed && waitpid(question->pid, &status, WNOHANG) == question->pid) {
        finish(question, status);
        return;
    }
    lws_sul_schedule(question->all->server->context, 0, &question->timer, reap,
                     (closed ? REAP_MS : 250) * LWS_US_PER_MS);
}

static void end_child(struct question *question)
{
    if (!question->over)
        kill(-question->pid, SIGKILL);
    question->over = true;
}

int on_child(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
    struct pipe *pipe = lws_get_opaque_user_data(wsi);
    if (reason == LWS_CALLBACK_RAW_CLOSE_FILE && pipe) {
        struct question *question = pipe->question;
        pipe->open = false;
        lws_set_opaque_user_data(wsi, NULL);
        if (!question->all->server->over && !question->out.open && !question->error.open)
            lws_sul_schedule(question->all->server->context, 0, &question->timer, reap, 1);
        return 0;
    }
    if (reason != LWS_CALLBACK_RAW_RX_FILE)
        return 0;
    char *room = buf_reserve(&pipe->bytes, 64 << 10);
    ssize_t got = room ? read(lws_get_socket_fd(wsi), room, 64 << 10) : -1;
    if (got < 0 && room && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got <= 0) {
        if (!room)
            end_child(pipe->question);
        return -1;
    }
    pipe->bytes.len += (size_t)got;
    if (pipe->bytes.len > pipe->most) {
        if (pipe == &pipe->question->error) {
            pipe->bytes.len = pipe->most;
        } else {
            pipe->question->too_large = true;
            end_child(pipe->question);
        }
    }
    return 0;
}

static void limit(pid_t pid, uint32_t seconds)
{
    const struct {
        __rlimit_resource_t what;
        rlim_t most;
    } limits[] = {{RLIMIT_AS, MEMORY_BYTES}, {RLIMIT_CPU, seconds}, {RLIMIT_CORE, 0}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        prlimit(pid, limits[i].what, &(struct rlimit){limits[i].most, limits[i].most}, NULL);
}

static bool listen_to(struct question *question, struct pipe *pipe, int fd, size_t most)
{
    pipe->question = question;
    pipe->most = most;
    pipe->open = server_watch(question->all->server, fd, "child", pipe) != NULL;
    return pipe->open;
}

static bool run(struct question *question)
{
    struct server *server = question->all->server;
    char *argv[WORDS_MOST + 2] = {server->program};
    int out[2], error[2];
    size_t count = 1;
    for (char *word = question->key; *word && count <= WORDS_MOST; word += strlen(word) + 1)
        argv[count++] = word;
    if (pipe2(out, O_CLOEXEC) < 0)
        return false;
    if (pipe2(error, O_CLOEXEC) < 0) {
        close(out[0]);
        close(out[1]);
        return false;
    }
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(error[0], F_SETFL, O_NONBLOCK);
    int code = spawn_program(&(struct spawn){.path = server->program,
                                             .argv = argv,
                                             .in = SPAWN_NULL,
                                             .out = out[1],
                                             .error = error[1],
                                             .group = SPAWN_OWN_GROUP},
                             &question->pid);
    close(out[1]);
    close(error[1]);
    if (code < 0) {
        close(out[0]);
        close(error[0]);
        return false;
    }
    limit(question->pid, question->limit_s);
    question->begun_ns = clock_now_ns();
    question->stamp = stamp_of(question->jobdir);
    question->state = RUNNING;
    question->all->running++;
    bool heard = listen_to(question, &question->out, out[0], ANSWER_MOST);
    if (!listen_to(question, &question->error, error[0], ERROR_MOST) || !heard)
        end_child(question);
    lws_sul_schedule(server->context, 0, &question->timer, reap, 250 * LWS_US_PER_MS);
    return true;
}

static void next_run(struct questions *all)
{
    while (all->running < AT_ONCE && all->queue) {
        struct question *question = all->queue;
        all->queue = question->next_queued;
        all->queued--;
        if (run(question))
            continue;
        question->state = ANSWERED;
        question->made_ns = 0;
        fail(question, 503, "memory", "no more processes or open files; try again later");
        give_all(question);
    }
}

/* ---- asking ---- */

static struct question *make(struct questions *all, const struct question_spec *spec, const struct buf *key)
{
    struct question *question = calloc(1, sizeof *question);
    if (!question)
        return NULL;
    question->key = malloc(key->len);
    question->jobdir = spec->jobdir ? strdup(spec->jobdir) : NULL;
    if (!question->key || (spec->jobdir && !question->jobdir)) {
        question_free(question);
        return NULL;
    }
    memcpy(question->key, key->data, key->len);
    question->key_len = key->len;
    question->all = all;
    question->fresh_ms = spec->fresh_ms;
    question->limit_s = spec->limit_s;
    question->status_is_answer = spec->status_is_answer;
    HASH_ADD_KEYPTR(hh, all->table, question->key, question->key_len, question);
    struct question **last = &all->queue;
    while (*last)
        last = &(*last)->next_queued;
    *last = question;
    all->queued++;
    return question;
}

void question_ask(struct questions *all, struct visit *visit, const struct question_spec *spec)
{
    _cleanup_(buf_done) struct buf key = BUF_INIT;
    struct question *question = NULL;
    for (size_t i = 0; spec->argv[i]; i++)
        buf_append(&key, spec->argv[i], strlen(spec->argv[i]) + 1);
    buf_putc(&key, '\0');
    if (!key.failed)
        HASH_FIND(hh, all->table, key.data, key.len, question);
    if (question && !is_good(question)) {
        drop(question);
        question = NULL;
    }
    if (question && question->state == ANSWERED) {
        HASH_DEL(all->table, question); /* it goes to the end, as the one that was used last */
        HASH_ADD_KEYPTR(hh, all->table, question->key, question->key_len, question);
        give(question, visit);
        return;
    }
    if (!question && !key.failed && all->queued < QUEUE_MOST)
        question = make(all, spec, &key);
    if (!question) {
        visit->refusal.retry = "1";
        visit_answer_error(visit, 503, "busy", "too much is asked at once; try again in a second");
        return;
    }
    visit->before_asking = &question->asking;
    visit->next_asking = question->asking;
    if (visit->next_asking)
        visit->next_asking->before_asking = &visit->next_asking;
    question->asking = visit;
    visit->question = question;
    next_run(all);
}

/* Nobody waits for it any more. */
static void give_up(struct question *question)
{
    struct question **at = &question->all->queue;
    if (question->state == RUNNING) {
        HASH_DEL(question->all->table, question);
        question->alone = true;
        end_child(question);
        return;
    }
    while (*at != question)
        at = &(*at)->next_queued;
    *at = question->next_queued;
    question->all->queued--;
    drop(question);
}

void question_forget(struct visit *visit)
{
    struct question *question = visit->question;
    if (!question)
        return;
    visit->question = NULL;
    *visit->before_asking = visit->next_asking;
    if (visit->next_asking)
        visit->next_asking->before_asking = visit->before_asking;
    if (!question->asking && question->state != ANSWERED)
        give_up(question);
}
