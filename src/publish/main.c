/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry-publisher: sends a job directory to a broker (publish/publisher.h). Started by `scry run` and `scry publish`,
 * which write its settings to its standard input: nobody sees a password in the list of processes.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/system/log.h"
#include "base/system/process.h"
#include "base/system/own_memory.h"
#include "publish/publisher.h"

enum { DATA_BYTES = 160 << 20 };

/* What a batch system or a terminal sends to all processes is meant for the job. The publisher ends by itself. */
static void ignore_signals(void)
{
    static const int signals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2,
                                  SIGXCPU, SIGALRM, SIGTSTP, SIGTTIN, SIGTTOU};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_IGN);
}

/* A password and the job's key are in its memory. And whoever can write to the job's topics can make it need memory, which
 * is taken from what the job may use: then it fails, or is ended, before the job is. */
static void protect(void)
{
    static const char most[] = "1000";
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, most, sizeof most - 1) < 0)
        log_debug("oom_score_adj stays as it is");
    if (fd >= 0)
        close(fd);
    setrlimit(RLIMIT_CORE, &(struct rlimit){1, 1}); /* with 0, cores still go to programs that take them (core(5)) */
    if (!SANITIZED)
        setrlimit(RLIMIT_DATA, &(struct rlimit){DATA_BYTES, DATA_BYTES});
}

static void say_result(const struct publisher *publisher)
{
    char shown[1024];
    broker_url_show(&publisher->url, shown, sizeof shown);
    if (publisher->status == 0)
        fprintf(stderr, "scry: published %llu records and %zu files\n", (unsigned long long)publisher->published,
                publisher->file_count);
    else
        log_error("%s is not, or not all, published at %s: %s", publisher->job, shown, publisher->why);
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    struct publisher *publisher = calloc(1, sizeof *publisher);
    struct err err = {0};
    signal(SIGPIPE, SIG_IGN);
    log_open("scry-publisher", 0);
    protect();
    if (!publisher)
        return 1;
    publisher->channel = STDIN_FILENO;
    publisher->watch_fd = -1;
    int code = channel_begin(publisher, &err);
    if (code == 0 && publisher->alone) {
        publisher->channel = -1;
    } else if (code == 0) {
        prctl(PR_SET_NAME, PUBLISHER_PROCESS_NAME);
        ignore_signals();
    }
    if (code < 0) {
        log_error("%s", err.text);
        snprintf(publisher->why, sizeof publisher->why, "%.255s", err.text);
        channel_tell(publisher);
    } else {
        publisher_run(publisher);
        if (publisher->alone)
            say_result(publisher);
    }
    int status = publisher->status;
    buf_done(&publisher->in);
    explicit_bzero(&publisher->url, sizeof publisher->url);
    free(publisher);
    status = code < 0 ? 1 : status;
    link_leave(status);
    return status;
}
