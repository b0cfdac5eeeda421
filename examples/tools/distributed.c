/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A distributed tool: one master and a slave for each process, which together are one tool to the monitors.
 *
 *     distributed [-s SECONDS] [HOST:]PID...
 *
 * Prints a table of all the processes once a second, until they have ended or the time is over.
 *
 * How it works (specification 7.1.3): the master gets a tool identifier from omis_init and hands it to its slaves, each
 * of which calls omis_init with it, on a connection of its own. They share everything that belongs to the tool: what
 * one attached is attached for all, and a request that one defined can be enabled by another. The slaves report by a
 * user-defined event, which the master waits for. Nothing else connects them, so the slave of a process on another
 * host runs there: the master attaches that node, and starts the slave by ssh (this program must be at the same path
 * there). The slave connects to the monitor of that node, which knows the tool, and its requests go to the master's.
 */
#include "tool.h"

#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 64 };

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- a slave ---- */

static bool over;

static void on_end(struct omis_reader *reader, void *param)
{
    (void)reader, (void)param;
    over = true;
}

/* distributed --slave TOOL_ID EVENT INDEX NODE PID: tells the master of one process, ten times a second, and when it
 * ends. */
static int be_slave(char **argv)
{
    /* bits of proc_get_info's flags: program and arguments, state, processor time, memory */
    enum { ARGV = 1 << 1, STATE = 1 << 10, CPU = 1 << 11, RESIDENT = 1 << 15 };
    const char *event = argv[1], *index = argv[2];
    const char *process = tool_ask_text(": proc_attach3([%s], %s, \"\")", argv[3], argv[4]);
    tool_on(on_end, NULL, "proc_has_terminated([%s]) : print([$proc])", process);
    while (!over) {
        struct omis_reader *reader = tool_try(": proc_get_info([%s], %d)", process, ARGV | STATE | CPU | RESIDENT);
        const struct omis_value *values = omis_reader_values(reader);
        const char *program = omis_text(omis_item(omis_item(values, 0), 0), NULL);
        if (omis_count(values) >= 4) /* else it ends just now */
            omis_reader_free(tool_ask(": user_event_raise(%s, [%s, %s, %" PRId64 ", %.17g, %" PRId64 "], 0)", event,
                                      index, tool_quote(program), omis_integer(omis_item(values, 1)),
                                      omis_floating(omis_item(values, 2)), omis_integer(omis_item(values, 3))));
        omis_reader_free(reader);
        tool_wait(100);
    }
    omis_reader_free(tool_ask(": user_event_raise(%s, [%s], 0)", event, index));
    return omis_finalize() == OMIS_OK ? 0 : 1;
}

/* ---- the master ---- */

struct row {
    const char *host, *pid; /* host "": this one */
    const char *node;       /* its token */
    pid_t slave;
    char program[64];
    int64_t state, resident;
    double cpu_s, shown_cpu_s; /* now, and when the table was printed last */
    bool known, ended;
};

static struct row rows[PROCESSES];
static size_t row_count, ended_count;

/* What a slave told: print([$par1, ...]) of its user event. */
static void on_report(struct omis_reader *reader, void *param)
{
    enum { INDEX, PROGRAM, STATE, CPU, RESIDENT, MEMBERS };
    (void)param;
    omis_reader_find(reader, 1);
    const struct omis_value *values = omis_item(omis_reader_values(reader), 1);
    size_t index = (size_t)omis_unsigned(omis_item(values, INDEX));
    if (index >= row_count || rows[index].ended)
        return;
    struct row *row = &rows[index];
    if (omis_count(values) < MEMBERS) {
        row->ended = true;
        ended_count++;
        return;
    }
    const char *program = omis_text(omis_item(values, PROGRAM), NULL), *slash = strrchr(program, '/');
    snprintf(row->program, sizeof row->program, "%s", slash ? slash + 1 : program);
    row->state = omis_integer(omis_item(values, STATE));
    row->cpu_s = omis_floating(omis_item(values, CPU));
    row->resident = omis_integer(omis_item(values, RESIDENT));
    if (!row->known)
        row->shown_cpu_s = row->cpu_s;
    row->known = true;
}

static const char *program_path(void)
{
    static char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    return len > 0 ? path : "distributed";
}

/* "n3:4711" or "4711" */
static void take_row(char *word)
{
    struct row *row = &rows[row_count++];
    char *colon = strrchr(word, ':');
    row->host = colon ? word : "";
    row->pid = colon ? colon + 1 : word;
    if (colon)
        *colon = '\0';
    row->node = tool_ask_text(": node_attach2(%s)", tool_quote(row->host));
}

static void start_slave(int tool_id, const char *event, size_t index)
{
    char id[16], number[16];
    struct row *row = &rows[index];
    snprintf(id, sizeof id, "%d", tool_id);
    snprintf(number, sizeof number, "%zu", index);
    row->slave = fork();
    if (row->slave == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* a slave without its master is of no use */
        if (*row->host)
            execlp("ssh", "ssh", "-n", "-oBatchMode=yes", row->host, program_path(), "--slave", id, event, number,
                   row->node, row->pid, (char *)NULL);
        else
            execl("/proc/self/exe", "distributed", "--slave", id, event, number, row->node, row->pid, (char *)NULL);
        _exit(127);
    }
}

/* A slave that could not do its work has said why. */
static void bury_slaves(void)
{
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        for (size_t i = 0; i < row_count; i++)
            if (rows[i].slave == pid && !rows[i].ended) {
                rows[i].ended = true;
                ended_count++;
            }
}

static void print_table(double seconds)
{
    static const char *const states[] = {"runs", "waits", "stopped", "ended", "stopped"};
    printf("\n%-8s    pid  program           state     cpu  memory\n", "host");
    for (size_t i = 0; i < row_count; i++) {
        struct row *row = &rows[i];
        size_t state = row->state >= 0 && row->state < 5 ? (size_t)row->state : 1;
        if (row->ended || !row->known)
            printf("%-8s%7s  %-16s  %s\n", row->host, row->pid, row->program,
                   row->ended && row->known ? "ended"
                   : row->ended             ? "cannot be watched"
                                            : "not yet seen");
        else
            printf("%-8s%7s  %-16s  %-7s %4.0f%%  %.1f MB\n", row->host, row->pid, row->program, states[state],
                   100 * (row->cpu_s - row->shown_cpu_s) / seconds, (double)row->resident / 1e6);
        row->shown_cpu_s = row->cpu_s;
    }
}

int main(int argc, char **argv)
{
    bool slave = argc == 7 && strcmp(argv[1], "--slave") == 0;
    int tool_id = slave ? atoi(argv[2]) : 0, option;
    double seconds = 1e9;
    tool_start("distributed", &argc, &argv, &tool_id);
    if (slave)
        return be_slave(argv + 2);
    while ((option = getopt(argc, argv, "s:")) != -1)
        seconds = option == 's' ? atof(optarg) : 0;
    if (optind >= argc || argc - optind > PROCESSES || !(seconds > 0))
        tool_fail("usage: distributed [-s SECONDS] [HOST:]PID..., at most %d", PROCESSES);
    const char *event = tool_ask_text(": user_event_create()");
    tool_on(on_report, NULL, "user_event_has_been_raised([%s]) : print([$par1, $par2, $par3, $par4, $par5])", event);
    for (; optind < argc; optind++) {
        take_row(argv[optind]);
        start_slave(tool_id, event, row_count - 1);
    }
    double begin = now_s(), shown = begin;
    while (ended_count < row_count && now_s() < begin + seconds) {
        double now = now_s();
        tool_wait((int)(1000 * (shown + 1 > now ? shown + 1 - now : 0)) + 1);
        bury_slaves();
        if (now_s() >= shown + 1) {
            print_table(now_s() - shown);
            shown = now_s();
        }
    }
    print_table(now_s() - shown);
    return omis_finalize() == OMIS_OK ? 0 : 1;
}
