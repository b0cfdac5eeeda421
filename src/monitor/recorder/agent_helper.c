/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs scry-symbols (symbols/client/helper.h) in the background: what it is asked goes to its standard input, its
 * answers come through the loop. At most HELPERS at once; a job that takes too long is ended.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/process.h"
#include "monitor/recorder/agent.h"
#include "shm/waits.h"
#include "symbols/client/client.h"
#include "monitor/engine/monitor.h"

enum { HELPERS = 2, READ_SIZE = 65536 };

struct helper_job {
    struct agents *agents;
    struct helper_job *next, *previous;
    char **argv;
    struct buf input;
    size_t written, answers_wanted, answers;
    helper_fn *fn;
    void *ctx;
    bool at_once;      /* not one of the HELPERS: somebody waits for the answer */
    uint64_t limit_ns; /* how long it may take */
    uint64_t began_ns;
    pid_t pid; /* 0: waits for its turn */
    int in, out;
    struct loop_source *in_source, *out_source, *limit, *failed;
    struct helper_reader reader;
};

static void start_waiting(struct agents *agents);

static void close_input(struct helper_job *job)
{
    loop_remove(job->in_source);
    job->in_source = NULL;
    if (job->in >= 0)
        close(job->in);
    job->in = -1;
}

static void free_job(struct helper_job *job)
{
    struct agents *agents = job->agents;
    close_input(job);
    loop_remove(job->out_source);
    loop_remove(job->limit);
    loop_remove(job->failed);
    if (job->out >= 0)
        close(job->out);
    if (job->pid > 0)
        log_debug("helper pid=%d state=ended what=%s answers=%zu ms=%llu", job->pid, job->argv[1], job->answers,
                  (unsigned long long)(clock_now_ns() - job->began_ns) / 1000000);
    if (job->pid > 0) { /* it has said all it had to say, or nobody listens */
        kill(job->pid, SIGKILL);
        child_reap(job->pid);
        agents->helpers_running -= !job->at_once;
    }
    if (job->previous)
        job->previous->next = job->next;
    else
        agents->helpers = job->next;
    if (job->next)
        job->next->previous = job->previous;
    helper_reader_done(&job->reader);
    buf_done(&job->input);
    for (char **arg = job->argv; arg && *arg; arg++)
        free(*arg);
    free(job->argv);
    free(job);
}

static void job_finish(struct helper_job *job)
{
    struct agents *agents = job->agents;
    helper_fn *fn = job->fn;
    void *ctx = job->ctx;
    free_job(job);
    fn(ctx, NULL);
    start_waiting(agents);
}

static void too_long(void *ctx)
{
    struct helper_job *job = ctx;
    job->agents->helpers_failed++;
    log_warning("scry-symbols took too long and was ended");
    job_finish(job);
}

static void cannot_start(void *ctx)
{
    struct helper_job *job = ctx;
    job->failed = NULL; /* has removed itself */
    job_finish(job);
}

static void write_input(void *ctx, int fd, uint32_t events)
{
    struct helper_job *job = ctx;
    ssize_t put = write(fd, job->input.data + job->written, job->input.len - job->written);
    if (put > 0)
        job->written += (size_t)put;
    else if (put == 0 || (errno != EAGAIN && errno != EINTR) || (events & EPOLLERR))
        job->written = job->input.len;
    if (job->written == job->input.len)
        close_input(job);
}

static void read_output(void *ctx, int fd, uint32_t events)
{
    struct helper_job *job = ctx;
    struct helper_answer answer;
    struct err err = {0};
    char bytes[READ_SIZE];
    ssize_t got = read(fd, bytes, sizeof bytes);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0)
        helper_feed(&job->reader, bytes, (size_t)got);
    int code;
    while ((code = helper_next(&job->reader, &answer, &err)) > 0) {
        job->answers++;
        job->fn(job->ctx, &answer);
    }
    if (job->answers_wanted && job->answers >= job->answers_wanted)
        close_input(job); /* indexes in its memory have been opened: it may go */
    if (code < 0) {
        job->agents->helpers_failed++;
        log_warning("scry-symbols: %s", err.text);
    }
    if (got <= 0 || code < 0)
        job_finish(job);
    (void)events;
}

static int job_spawn(struct helper_job *job)
{
    struct agents *agents = job->agents;
    struct helper_process process;
    struct err err = {0};
    int code = helper_process_start(&process, job->argv, &err);
    if (code == -ENOENT && !agents->helper_missing)
        log_warning("functions have no names: %s", err.text);
    agents->helper_missing = code == -ENOENT;
    if (code < 0)
        return code;
    job->pid = process.pid;
    job->began_ns = clock_now_ns();
    agents->helpers_started++;
    log_debug("helper pid=%d state=started what=%s files=%zu", job->pid, job->argv[1], job->answers_wanted);
    job->in = process.input;
    job->out = process.output;
    agents->helpers_running += !job->at_once;
    return 0;
}

static void start_job(struct helper_job *job)
{
    struct loop *loop = job->agents->monitor->loop;
    int code = job_spawn(job);
    if (code == 0) {
        if (job->input.len)
            job->in_source = loop_add_fd(loop, job->in, EPOLLOUT, write_input, job);
        job->out_source = loop_add_fd(loop, job->out, EPOLLIN, read_output, job);
        job->limit = loop_add_timer(loop, job->limit_ns, 0, too_long, job);
        if (!job->out_source || (job->input.len && !job->in_source))
            code = -ENOMEM;
    }
    if (code < 0)
        job->failed = loop_add_deferred(loop, cannot_start, job);
}

static void start_waiting(struct agents *agents)
{
    while (agents->helpers_running < HELPERS) {
        struct helper_job *oldest = NULL;
        for (struct helper_job *job = agents->helpers; job; job = job->next)
            if (!job->pid && !job->failed)
                oldest = job; /* new ones are put in front */
        if (!oldest)
            return;
        start_job(oldest);
    }
}

/* A job that is in the list and has not begun. NULL: out of memory; the input is gone in any case. */
static struct helper_job *new_job(struct agents *agents, const char *what, const char *const *files, size_t file_count,
                                  struct buf *input_take, helper_fn *fn, void *ctx)
{
    struct helper_job *job = calloc(1, sizeof *job);
    char **argv = calloc(file_count + 3, sizeof *argv);
    bool whole = job && argv && (argv[0] = strdup("scry-symbols")) && (argv[1] = strdup(what));
    for (size_t i = 0; whole && i < file_count; i++)
        whole = (argv[2 + i] = strdup(files[i])) != NULL;
    if (!whole || (input_take && input_take->failed)) {
        for (char **arg = argv; arg && *arg; arg++)
            free(*arg);
        free(argv);
        free(job);
        if (input_take)
            buf_done(input_take);
        return NULL;
    }
    *job = (struct helper_job){.agents = agents, .argv = argv, .fn = fn, .ctx = ctx, .in = -1, .out = -1};
    job->answers_wanted = file_count;
    job->limit_ns = HELPER_TIME_NS;
    if (input_take) {
        job->input = *input_take;
        *input_take = BUF_INIT;
    }
    job->next = agents->helpers;
    if (job->next)
        job->next->previous = job;
    agents->helpers = job;
    return job;
}

struct helper_job *helper_start(struct agents *agents, const char *what, const char *const *files, size_t file_count,
                                struct buf *input_take, helper_fn *fn, void *ctx)
{
    struct helper_job *job = new_job(agents, what, files, file_count, input_take, fn, ctx);
    if (job)
        start_waiting(agents);
    return job;
}

struct helper_job *helper_start_at_once(struct agents *agents, const char *what, struct buf *input_take,
                                        uint64_t limit_ns, helper_fn *fn, void *ctx)
{
    struct helper_job *job = new_job(agents, what, NULL, 0, input_take, fn, ctx);
    if (job) {
        job->at_once = true;
        job->limit_ns = limit_ns;
        start_job(job);
    }
    return job;
}

void helper_cancel(struct helper_job *job)
{
    if (!job)
        return;
    struct agents *agents = job->agents;
    free_job(job);
    start_waiting(agents);
}

unsigned helpers_waiting(const struct agents *agents)
{
    unsigned count = 0;
    for (const struct helper_job *job = agents->helpers; job; job = job->next)
        count += !job->pid;
    return count;
}

void helpers_free(struct agents *agents)
{
    while (agents->helpers) {
        helper_fn *fn = agents->helpers->fn;
        void *ctx = agents->helpers->ctx;
        free_job(agents->helpers);
        fn(ctx, NULL);
    }
}
