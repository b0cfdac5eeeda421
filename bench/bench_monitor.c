/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the monitor's work costs, each beside a floor that does the least that could be done, in the same run:
 *
 *     20000 print actions in one request     beside memcpy of as many bytes as go in and out (goal: about 100 ms)
 *     proc_get_info([], ...) of 1000 processes, ten common members
 *                                            beside reading their /proc/PID/stat alone (goal: about 50 ms)
 *     memory of the monitor with one attached process, and its wake-ups in a second without requests
 *
 *     bench_monitor [ROUNDS]
 *
 * Printed are medians and, in brackets, the lowest and the highest of the rounds. It uses a monitor of its own.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <omis.h>

#include "bench.h"

enum { PRINTS = 20000, PROCESSES = 1000, MOST_ROUNDS = 200 };
/* node, local_id, scheduling_state, total_time, priority, system_time, memory_size, resident_size, minor and major
 * faults */
enum { TEN_MEMBERS = 0x00cff00 };

static double request_ms(char *text)
{
    double start = (bench_now_us() / 1e3);
    Omis_reply reply = omis_request(text, NULL, NULL, 0);
    double took = (bench_now_us() / 1e3) - start;
    if (!reply || reply[0]->status != OMIS_OK) {
        fprintf(stderr, "bench_monitor: %.60s: %s\n", text, reply && reply[0]->result ? reply[0]->result : "no reply");
        exit(1);
    }
    omis_reply_free(reply);
    return took;
}

/* ---- print actions ---- */

static void bench_prints(int rounds)
{
    size_t size = PRINTS * 16 + 8;
    char *text = malloc(size), *copy = malloc(size);
    double took[MOST_ROUNDS], floor[MOST_ROUNDS];
    size_t len = (size_t)snprintf(text, size, ":");
    for (int i = 0; i < PRINTS; i++)
        len += (size_t)snprintf(text + len, size - len, " print([%d])", i);
    for (int i = 0; i < rounds; i++) {
        double start = (bench_now_us() / 1e3);
        memcpy(copy, text, len);
        __asm__ volatile("" : : "r"(copy) : "memory");
        memcpy(text, copy, len);
        floor[i] = (bench_now_us() / 1e3) - start;
        took[i] = request_ms(text);
    }
    double a = bench_report("20000 print actions in one request", took, rounds, "ms (goal: about 100)");
    double b = bench_report("  the floor: the request copied twice", floor, rounds, "ms");
    printf("%-42s %9.0f\n", "  ratio", a / b);
    free(text);
    free(copy);
}

/* ---- information on many processes ---- */

static pid_t children[PROCESSES];

static void start_children(void)
{
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] < 0)
            bench_fail("bench_monitor", "cannot fork 1000 processes");
        if (children[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                pause();
        }
    }
}

static void end_children(void)
{
    for (int i = 0; i < PROCESSES; i++)
        kill(children[i], SIGKILL);
    for (int i = 0; i < PROCESSES; i++)
        waitpid(children[i], NULL, 0);
}

static double read_stats_ms(void)
{
    char path[64], bytes[1024];
    double start = (bench_now_us() / 1e3);
    for (int i = 0; i < PROCESSES; i++) {
        snprintf(path, sizeof path, "/proc/%d/stat", children[i]);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, bytes, sizeof bytes) <= 0)
            bench_fail("bench_monitor", "cannot read /proc/PID/stat");
        close(fd);
    }
    return (bench_now_us() / 1e3) - start;
}

static void attach_children(void)
{
    size_t size = PROCESSES * 48 + 64;
    char *text = malloc(size);
    size_t len = (size_t)snprintf(text, size, ": node_attach2(\"\");");
    for (int i = 0; i < PROCESSES; i++)
        len += (size_t)snprintf(text + len, size - len, " proc_attach3([], %d, \"\")", children[i]);
    printf("%-42s %9.2f ms\n", "attaching to 1000 processes", request_ms(text));
    free(text);
}

static void bench_info(int rounds)
{
    double took[MOST_ROUNDS], floor[MOST_ROUNDS];
    char text[64];
    snprintf(text, sizeof text, ": proc_get_info([], %d)", TEN_MEMBERS);
    for (int i = 0; i < rounds; i++) {
        floor[i] = read_stats_ms();
        took[i] = request_ms(text);
    }
    double a = bench_report("proc_get_info of 1000 processes, 10 members", took, rounds, "ms (goal: about 50)");
    double b = bench_report("  the floor: their /proc/PID/stat read", floor, rounds, "ms");
    printf("%-42s %9.2f\n", "  ratio", a / b);
}

/* ---- memory and wake-ups ---- */

static long status_number(pid_t pid, const char *name)
{
    char path[64], line[256];
    long number = -1;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            number = strtol(line + strlen(name), NULL, 10);
    if (file)
        fclose(file);
    return number;
}

static pid_t monitor_pid(const char *dir)
{
    char path[256];
    long pid = -1;
    snprintf(path, sizeof path, "%s/monitor.pid", dir);
    FILE *file = fopen(path, "re");
    if (!file || fscanf(file, "%ld", &pid) != 1)
        bench_fail("bench_monitor", "the monitor has no pid file");
    fclose(file);
    return (pid_t)pid;
}

static void bench_rest(const char *dir)
{
    pid_t monitor = monitor_pid(dir), child = fork();
    char text[128];
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    snprintf(text, sizeof text, ": node_attach2(\"\"); proc_attach3([], %d, \"\")", child);
    request_ms(text);
    long before = status_number(monitor, "voluntary_ctxt_switches:");
    struct timespec second = {.tv_sec = 1};
    nanosleep(&second, NULL);
    long after = status_number(monitor, "voluntary_ctxt_switches:");
    printf("%-42s %9.2f MB (goal: 12)\n", "the monitor's memory, one attached process",
           (double)status_number(monitor, "VmRSS:") / 1024);
    printf("%-42s %9ld (goal: 1, the sampler's)\n", "wake-ups in a second without requests", after - before);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/scry-bench-XXXXXX";
    int rounds = argc > 1 ? atoi(argv[1]) : 21;
    if (rounds < 1 || rounds > MOST_ROUNDS)
        bench_fail("bench_monitor", "ROUNDS must be from 1 to 200");
    if (!mkdtemp(dir) || setenv("SCRY_RUNTIME_DIR", dir, 1) < 0)
        bench_fail("bench_monitor", "cannot make a directory in /tmp");
    char option[] = "--omis-stop-at-finalize";
    char *arguments[] = {argv[0], option, NULL}, **vector = arguments;
    int count = 2;
    if (omis_init(&count, &vector, NULL, NULL) != OMIS_OK)
        bench_fail("bench_monitor", "cannot connect to a monitor");
    bench_rest(dir);
    bench_prints(rounds);
    start_children();
    attach_children();
    bench_info(rounds);
    pid_t monitor = monitor_pid(dir);
    omis_finalize();
    end_children();
    while (kill(monitor, 0) == 0) /* --omis-stop-at-finalize: it ends by itself */
        usleep(1000);
    bench_remove_runtime(dir);
    return 0;
}
