/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a record of the observer costs scry run: processor time for reading it, keeping it in the model, and giving it
 * to the process that writes. The floor is only reading the same bytes and finding the ends of lines.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "bench.h"
#include "job/observe/observer.h"
#include "job/record/writer.h"

enum { RECORDS = 20000, PAIRS = 20 };

static double cpu_ns(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return 1e9 * (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e3 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* As many lines of logs and scripts, half of each. */
static void make_lines(struct buf *out)
{
    char text[64];
    for (int i = 0; i < RECORDS; i++) {
        snprintf(text, sizeof text, "step %d of the solver: residual 1.25e-07", i);
        json_t *record =
            i % 2 ? record_json(RECORD(log, .file = "/home/user/job/solver.log", .pattern = "warning",
                                       .level = "warning", .text = text, .line = i + 1))
                  : record_json(RECORD(script_line,
                                       .at = {4711, "bash", "/home/user/job/run.sh", i, "main", "solve --step \"$i\""},
                                       .how = "trap", .time = i / 20000.0));
        channel_put_take(out, record);
    }
}

/* A child that writes them; *ret_fd is the other end. */
static pid_t start_writer(const struct buf *lines, int *ret_fd)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        for (size_t done = 0; done < lines->len;) {
            ssize_t sent = send(ends[1], lines->data + done, lines->len - done, MSG_NOSIGNAL);
            if (sent <= 0)
                break;
            done += (size_t)sent;
        }
        _exit(0);
    }
    close(ends[1]);
    *ret_fd = ends[0];
    return pid;
}

static void count_line(size_t *lines, const char *bytes, size_t len)
{
    for (const char *at = bytes; (at = memchr(at, '\n', len - (size_t)(at - bytes))); at++)
        ++*lines;
}

static double floor_ns(const struct buf *lines)
{
    static char bytes[64 << 10];
    int fd;
    size_t count = 0;
    double before = cpu_ns();
    pid_t pid = start_writer(lines, &fd);
    for (ssize_t got; (got = recv(fd, bytes, sizeof bytes, 0)) > 0;)
        count_line(&count, bytes, (size_t)got);
    double used = cpu_ns() - before;
    close(fd);
    waitpid(pid, NULL, 0);
    if (count != RECORDS)
        exit(1);
    return used / RECORDS;
}

static double run_ns(const struct buf *lines, double *ret_seconds)
{
    char dir[] = "/tmp/bench-records-XXXXXX", spool[64], command[64];
    struct recorder recorder = {.started = true, .start_ns = clock_now_ns()};
    const struct observe_source *const none[] = {NULL};
    struct observer_link link = {.fd = -1, .starts = OBSERVER_STARTS, .recorder = &recorder, .sources = none};
    if (!mkdtemp(dir) || job_model_init(&recorder.model, 0) < 0)
        exit(1);
    snprintf(spool, sizeof spool, "%s/spool", dir);
    mkdir(spool, 0700);
    if (writer_start(&recorder.writer, dir, "bench", UINT64_C(1) << 40) < 0)
        exit(1);
    double before = cpu_ns();
    uint64_t start = clock_now_ns();
    link.pid = start_writer(lines, &link.fd);
    while (link.fd >= 0) {
        struct pollfd input = {.fd = link.fd, .events = POLLIN};
        poll(&input, 1, -1);
        observer_handle(&link);
        writer_push(&recorder.writer);
    }
    double used = cpu_ns() - before;
    *ret_seconds = (double)(clock_now_ns() - start) / 1e9;
    writer_wait(&recorder.writer);
    if (writer_lost(&recorder.writer) || recorder.model.records < RECORDS)
        fprintf(stderr, "%llu records lost, %llu seen\n", (unsigned long long)writer_lost(&recorder.writer),
                (unsigned long long)recorder.model.records);
    writer_end(&recorder.writer);
    job_model_done(&recorder.model);
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command) == 0 ? used / RECORDS : -1;
}

int main(void)
{
    struct buf lines = BUF_INIT;
    make_lines(&lines);
    double sum = 0, least = 0, floors = 0;
    for (int i = 0; i < PAIRS; i++) {
        double seconds, floor = floor_ns(&lines), all = run_ns(&lines, &seconds);
        printf("%6.0f ns a record, floor %4.0f ns, %.0f records a second\n", all, floor, RECORDS / seconds);
        sum += all;
        floors += floor;
        least = i == 0 || all < least ? all : least;
    }
    printf("mean %.0f ns (least %.0f), floor %.0f ns: %.1f times; 20000 a second take %.1f %% of a processor\n",
           sum / PAIRS, least, floors / PAIRS, sum / floors, sum / PAIRS * 20000 / 1e9 * 100);
    buf_done(&lines);
    return 0;
}
