/* SPDX-License-Identifier: Apache-2.0 */
/* scry-symbols: everything that needs elfutils, in a process of its own that may take its time, and may fail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/system/sanitized.h"
#include "base/system/own_memory.h"
#include "symbols/helper/jobs.h"
#include "symbols/helper/stacks.h"
#include "symbols/helper/variable.h"

#define GIGABYTE ((rlim_t)1 << 30)

/* Damaged debug information can send a reader round in circles: the process then ends unheard. */
void helper_guard(unsigned long long bytes)
{
    unsigned long long more_s = bytes >> 24;
    alarm(60 + (unsigned)(more_s < 3600 ? more_s : 3600));
}

/* When memory gets short for the job, this goes first. */
static void volunteer(void)
{
    FILE *file = fopen("/proc/self/oom_score_adj", "we");
    if (file) {
        fputs("1000", file);
        fclose(file);
    }
}

/* Half of the machine's memory, but at least what big debug information needs: mapped files count, too. */
static rlim_t memory_limit(void)
{
    struct sysinfo info;
    rlim_t least = 4 * GIGABYTE, half = sysinfo(&info) == 0 ? (rlim_t)info.totalram * info.mem_unit / 2 : 0;
    return half > least ? half : least;
}

static void limit_memory(void)
{
    struct rlimit limit;
    if (!SANITIZED && getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur > memory_limit()) {
        limit.rlim_cur = memory_limit();
        setrlimit(RLIMIT_DATA, &limit);
    }
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none); /* nobody wants a core of this */
}

static int variable(void)
{
    return variable_main(stdin, stdout) < 0;
}

static int compile(void)
{
    return helper_compile(stdin, stdout);
}

static int stacks(void)
{
    return stacks_main(stdin, stdout) < 0;
}

static const struct {
    const char *name, *arguments, *what;
    int (*run)(void);
} jobs[] = {
    {"index", " FILE...", "builds the symbol indexes of files that have none", NULL},
    {"compile", "", "compiles what to record of functions; the request comes on standard input", compile},
    {"variable", "", "reads or writes a variable of a process; likewise", variable},
    {"stacks", "", "says where all threads of processes are; likewise", stacks},
};

static int usage(FILE *to)
{
    fprintf(to, "scry-symbols does the parts of scry's work that need debug information; scry starts it by itself.\n");
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        fprintf(to, "  scry-symbols %s%s\n        %s\n", jobs[i].name, jobs[i].arguments, jobs[i].what);
    return to == stdout ? 0 : 2;
}

static int run(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return usage(stdout);
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("scry-symbols " SCRY_VERSION);
        return 0;
    }
    unsetenv("DEBUGINFOD_URLS"); /* nothing is fetched from the network */
    volunteer();
    limit_memory();
    helper_guard(0);
    if (argc >= 3 && strcmp(argv[1], jobs[0].name) == 0)
        return helper_index(argv + 2, argc - 2, stdin, stdout);
    for (size_t i = 1; argc == 2 && i < sizeof jobs / sizeof *jobs; i++)
        if (strcmp(argv[1], jobs[i].name) == 0)
            return jobs[i].run();
    return usage(stderr);
}

int main(int argc, char **argv)
{
    return stack_run(run, argc, argv);
}
