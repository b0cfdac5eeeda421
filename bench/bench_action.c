/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an action at a breakpoint costs the program, all the way through monitor and tool, beside gdb in the same run:
 *
 *     a print action      thread_reached_addr : print(...), each hit a reply to this tool
 *     lowered actions     thread_reached_addr : pa_counter_add(...), counted where it happens
 *     gdb, commands       a breakpoint with "silent", a printf, and "continue"
 *     gdb, condition      a breakpoint whose condition is never true
 *
 *     bench_action [ROUNDS [HITS]]
 *
 * The program is this one, started again: it calls a small function HITS times and says how long that took. Printed are
 * medians of microseconds a hit with the lowest and highest round, and the ratios (goals: 3 and 10). The monitor is one
 * of its own.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <omis.h>

#include "bench.h"

enum { MOST_ROUNDS = 100 };

/* ---- the program that runs into it ---- */

/* The tracer keeps copies of instructions in the unused end of a code segment. Nearly every program has room there (on
 * average half a page); this small one ends just before its page does, and would be stepped in place, with two stops a
 * hit. */
__asm__(".pushsection .text\n.skip 512, 0x90\n.popsection");

volatile long bench_hits;

void bench_hit(long value);

__attribute__((noinline)) void bench_hit(long value)
{
    bench_hits += value;
}

/* Says where the function is, waits for a line, calls it, and says how long that took. */
static int target(long hits)
{
    char line[16];
    printf("%p\n", (void *)bench_hit);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 1;
    double start = bench_now_us();
    for (long i = 0; i < hits; i++)
        bench_hit(1);
    printf("%.3f\n", (bench_now_us() - start) / (double)hits);
    return bench_hits == hits ? 0 : 1;
}

/* ---- rounds with scry ---- */

struct program {
    pid_t pid;
    FILE *to, *from;
    char address[64];
};

static void program_start(struct program *program, const char *self, const char *hits)
{
    int in[2], out[2];
    if (pipe(in) < 0 || pipe(out) < 0)
        bench_fail("bench_action", "no pipe");
    program->pid = fork();
    if (program->pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        close(in[1]);
        close(out[0]);
        execl(self, self, "--target", hits, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    program->to = fdopen(in[1], "w");
    program->from = fdopen(out[0], "r");
    if (!fgets(program->address, sizeof program->address, program->from))
        bench_fail("bench_action", "the target does not start");
    program->address[strcspn(program->address, "\n")] = 0;
}

static void program_go(struct program *program)
{
    fputs("go\n", program->to);
    fflush(program->to);
}

static double program_end(struct program *program)
{
    char line[64] = "";
    int status;
    if (!fgets(line, sizeof line, program->from))
        bench_fail("bench_action", "the target did not finish");
    fclose(program->to);
    fclose(program->from);
    if (waitpid(program->pid, &status, 0) < 0 || status != 0)
        bench_fail("bench_action", "the target did not end as it should");
    return strtod(line, NULL);
}

static Omis_reply ask(char *text, void (*callback)(Omis_reply, void *), void *param, Omis_flags flags)
{
    Omis_reply reply = omis_request(text, callback, param, callback ? flags | OMIS_WAIT_FOR_FIRST_REPLY : flags);
    if (!reply || reply[0]->status >= OMIS_FIRST_ERROR || (reply[1] && reply[1]->status >= OMIS_FIRST_ERROR)) {
        fprintf(stderr, "bench_action: %s: %s\n", text,
                reply && reply[1] && reply[1]->result ? reply[1]->result
                : reply && reply[0]->result           ? reply[0]->result
                                                      : "no reply");
        exit(1);
    }
    return reply;
}

static void count_hit(Omis_reply reply, void *param)
{
    if (reply[0]->status == OMIS_CSR_TRIGGERED)
        ++*(long *)param;
    omis_reply_free(reply);
}

/* One round; returns microseconds a hit. `counter`: the token of a counter to lower to, or NULL to print. */
static double scry_round(const char *self, const char *hits, const char *counter)
{
    struct program program;
    char text[256];
    long seen = 0;
    program_start(&program, self, hits);
    snprintf(text, sizeof text, ": proc_attach3([], %d, \"\")", program.pid);
    omis_reply_free(ask(text, NULL, NULL, 0));
    if (counter)
        snprintf(text, sizeof text, "thread_reached_addr([], %s) : pa_counter_add([%s], 1)", program.address, counter);
    else
        snprintf(text, sizeof text, "thread_reached_addr([], %s) : print([$thread])", program.address);
    Omis_reply reply = ask(text, count_hit, &seen, counter ? OMIS_DONT_RETURN_OK : 0);
    snprintf(text, sizeof text, ": csr_enable([%s])", reply[0]->result);
    omis_reply_free(reply);
    omis_reply_free(ask(text, NULL, NULL, 0));
    program_go(&program);
    while (!counter && seen < atol(hits)) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(omis_fd(), &set);
        select(omis_fd() + 1, &set, NULL, NULL, NULL);
        omis_handler();
    }
    double took = program_end(&program);
    if (counter) {
        snprintf(text, sizeof text, ": pa_counter_read([%s]) pa_counter_reset([%s])", counter, counter);
        reply = ask(text, NULL, NULL, 0);
        if (atol(reply[1]->result) != atol(hits))
            bench_fail("bench_action", "hits were lost");
        omis_reply_free(reply);
    }
    char delete[] = ": csr_delete([])";
    omis_reply_free(ask(delete, NULL, NULL, 0));
    omis_handler();
    return took;
}

/* ---- rounds with gdb ---- */

static double gdb_round(const char *dir, const char *self, const char *hits, const char *script)
{
    char command[8192], line[256], path[128];
    double took = -1;
    snprintf(path, sizeof path, "%s/gdb", dir);
    FILE *file = fopen(path, "w");
    if (!file)
        bench_fail("bench_action", "cannot write gdb's script");
    fprintf(file, "set debuginfod enabled off\nset pagination off\nset args --target %s < %s.in\n%s\nrun\n", hits, path,
            script);
    fclose(file);
    snprintf(command, sizeof command, "echo go > %s.in && gdb -nx -batch -x %s %s 2>&1; rm -f %s %s.in", path, path,
             self, path, path);
    FILE *output = popen(command, "r");
    while (output && fgets(line, sizeof line, output)) {
        char *end;
        double number = strtod(line, &end);
        if (end != line && *end == '\n' && strchr(line, '.'))
            took = number;
    }
    if (!output || pclose(output) != 0 || took < 0)
        bench_fail("bench_action", "gdb did not run the target to its end");
    return took;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--target") == 0)
        return target(atol(argv[2]));
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    const char *hits = argc > 2 ? argv[2] : "2000";
    if (rounds < 1 || rounds > MOST_ROUNDS || atol(hits) < 1)
        bench_fail("bench_action", "ROUNDS must be from 1 to 100, HITS positive");
    char dir[] = "/tmp/scry-bench-XXXXXX", self[4096];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len < 0 || !mkdtemp(dir) || setenv("SCRY_RUNTIME_DIR", dir, 1) < 0)
        bench_fail("bench_action", "cannot make a directory in /tmp");
    self[len] = 0;
    char option[] = "--omis-stop-at-finalize", *arguments[] = {argv[0], option, NULL}, **vector = arguments;
    int count = 2;
    if (omis_init(&count, &vector, NULL, NULL) != OMIS_OK)
        bench_fail("bench_action", "cannot connect to a monitor");
    char create[] = ": pa_counter_create()";
    Omis_reply counter = ask(create, NULL, NULL, 0);
    double print[MOST_ROUNDS], lowered[MOST_ROUNDS], commands[MOST_ROUNDS], condition[MOST_ROUNDS];
    for (int i = 0; i < rounds; i++) {
        print[i] = scry_round(self, hits, NULL);
        commands[i] =
            gdb_round(dir, self, hits, "break bench_hit\ncommands\nsilent\nprintf \"%d\\n\", value\ncontinue\nend");
        lowered[i] = scry_round(self, hits, counter[1]->result);
        condition[i] = gdb_round(dir, self, hits, "break bench_hit if value == 2");
    }
    omis_reply_free(counter);
    omis_finalize();
    double a = bench_report("scry, print action", print, rounds, "us a hit"),
           b = bench_report("gdb, commands", commands, rounds, "us a hit");
    double c = bench_report("scry, lowered actions", lowered, rounds, "us a hit"),
           d = bench_report("gdb, condition", condition, rounds, "us a hit");
    printf("gdb commands / print action        %8.1f (goal: 3)\n", b / a);
    printf("gdb condition / lowered actions    %8.1f (goal: 10)\n", d / c);
    bench_remove_runtime(dir);
    return 0;
}
