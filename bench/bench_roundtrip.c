/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The round trip of a small request through libomis and the monitor, beside the same bytes bounced between two
 * processes over a unix socket, all on one processor. Goals: at most 1.5 times the echo, and at most 6 us more.
 *
 *     bench_roundtrip [PAIRS [ROUNDS]]      pairs of measurements, interleaved; rounds in each
 *
 * Printed are medians over the pairs and, in brackets, 95 % intervals of the medians (by order statistics), and a
 * calibration loop, so that runs on different days can be compared. It uses a monitor of its own in a directory of its
 * own; scry-monitor is found beside the program or by SCRY_LIBEXEC.
 */
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <omis.h>

/* The frames of the request below and of its reply: 12 bytes of header, then flags and text, or the encoded reply. */
static char request[] = ": print(12345)";
enum { REQUEST_BYTES = 12 + 4 + sizeof request - 1, REPLY_BYTES = 12 + 44, MOST_PAIRS = 1000 };

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void fail(const char *what)
{
    fprintf(stderr, "bench_roundtrip: %s\n", what);
    exit(1);
}

static double measure_calibration(void)
{
    uint64_t state = 88172645463325252u;
    double start = now_us();
    for (int i = 0; i < 1000000; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        __asm__ volatile("" : "+r"(state));
    }
    return now_us() - start;
}

/* ---- the floor ---- */

static pid_t start_echo(int *ret_fd)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        fail("no socket pair");
    pid_t pid = fork();
    if (pid < 0)
        fail("cannot fork");
    if (pid == 0) {
        char bytes[REPLY_BYTES] = {0};
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        while (recv(ends[1], bytes, REQUEST_BYTES, MSG_WAITALL) == REQUEST_BYTES)
            if (send(ends[1], bytes, REPLY_BYTES, 0) != REPLY_BYTES)
                break;
        _exit(0);
    }
    close(ends[1]);
    *ret_fd = ends[0];
    return pid;
}

static double measure_echo(int fd, int rounds)
{
    char bytes[REPLY_BYTES > REQUEST_BYTES ? REPLY_BYTES : REQUEST_BYTES] = {0};
    double start = now_us();
    for (int i = 0; i < rounds; i++)
        if (send(fd, bytes, REQUEST_BYTES, 0) != REQUEST_BYTES ||
            recv(fd, bytes, REPLY_BYTES, MSG_WAITALL) != REPLY_BYTES)
            fail("the echo broke");
    return (now_us() - start) / rounds;
}

/* ---- the monitor ---- */

static double measure_requests(int rounds)
{
    double start = now_us();
    for (int i = 0; i < rounds; i++) {
        Omis_reply reply = omis_request(request, NULL, NULL, 0);
        if (reply[0]->status != OMIS_OK || !reply[1] || reply[1]->status != OMIS_OK)
            fail(reply[0]->result ? reply[0]->result : "a request failed");
        omis_reply_free(reply);
    }
    return (now_us() - start) / rounds;
}

static void on_error(Omis_reply reply)
{
    fprintf(stderr, "bench_roundtrip: %s\n", reply[0]->result);
    omis_reply_free(reply);
}

/* ---- statistics ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct estimate {
    double median, low, high;
};

/* The interval: ranks n/2 -+ 1.96 sqrt(n)/2 of the sorted values. */
static struct estimate estimate(const double *values, int count)
{
    double sorted[MOST_PAIRS];
    memcpy(sorted, values, (size_t)count * sizeof *values);
    qsort(sorted, (size_t)count, sizeof *sorted, compare);
    double half = 0.98 * sqrt(count);
    int low = (int)floor(count / 2.0 - half), high = (int)ceil(count / 2.0 + half);
    return (struct estimate){
        .median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2,
        .low = sorted[low > 0 ? low : 0],
        .high = sorted[high < count ? high : count - 1],
    };
}

static void print_line(const char *what, const double *values, int count, const char *unit)
{
    struct estimate value = estimate(values, count);
    printf("%-24s %8.2f [%.2f .. %.2f] %s\n", what, value.median, value.low, value.high, unit);
}

static void pin_to_one_processor(void)
{
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--)
        if (CPU_ISSET(cpu, &all)) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            if (sched_setaffinity(0, sizeof one, &one) < 0)
                fail("cannot pin to one processor");
            return;
        }
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/scry-bench-XXXXXX", option[] = "--omis-stop-at-finalize";
    char *arguments[] = {argv[0], option, NULL}, **tool_argv = arguments;
    int tool_argc = 2, pairs = argc > 1 ? atoi(argv[1]) : 41, rounds = argc > 2 ? atoi(argv[2]) : 2000;
    if (pairs < 20 || pairs > MOST_PAIRS || rounds < 1)
        fail("usage: bench_roundtrip [PAIRS (20 to 1000) [ROUNDS]]");
    pin_to_one_processor(); /* the echo's process and the monitor inherit it */
    if (!mkdtemp(dir))
        fail("cannot make a directory in /tmp");
    setenv("SCRY_RUNTIME_DIR", dir, 1);
    unsetenv("SCRY_CONNECT");
    int fd;
    pid_t echo = start_echo(&fd);
    if (omis_init(&tool_argc, &tool_argv, on_error, NULL) != OMIS_OK)
        return 1;
    static double floor_us[MOST_PAIRS], request_us[MOST_PAIRS], ratio[MOST_PAIRS], more_us[MOST_PAIRS];
    static double calibration_us[MOST_PAIRS];
    measure_echo(fd, rounds / 4 + 1);
    measure_requests(rounds / 4 + 1);
    for (int i = 0; i < pairs; i++) {
        calibration_us[i] = measure_calibration();
        floor_us[i] = measure_echo(fd, rounds);
        request_us[i] = measure_requests(rounds);
        ratio[i] = request_us[i] / floor_us[i];
        more_us[i] = request_us[i] - floor_us[i];
    }
    omis_finalize();
    close(fd);
    waitpid(echo, NULL, 0);
    print_line("calibration loop", calibration_us, pairs, "us");
    print_line("echo", floor_us, pairs, "us");
    print_line("request", request_us, pairs, "us");
    print_line("request / echo", ratio, pairs, "(goal: 1.5)");
    print_line("request - echo", more_us, pairs, "us (goal: 6)");
    /* the monitor ends by itself and removes its socket and its pid file; these are left */
    static const char *const left[] = {"monitor.log", "starter.lock"};
    char path[64];
    for (int tries = 0; tries < 200 && rmdir(dir) < 0; tries++) {
        for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
            snprintf(path, sizeof path, "%s/%s", dir, left[i]);
            unlink(path);
        }
        usleep(10000);
    }
    return 0;
}
