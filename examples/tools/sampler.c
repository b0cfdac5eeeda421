/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where does the time go? Looks at the stacks of a process again and again, and counts.
 *
 *     sampler [-r HZ] [-s SECONDS] [-f] PID
 *
 * Looks HZ times a second (default 50) for SECONDS (default 5) or until the process ends, and prints for each function
 * in how many of the samples it was, as the innermost one (self) and anywhere on the stack (total). Threads that wait
 * are left out: a sample of them says nothing about time spent. With -f: whole stacks, one a line with its count, as
 * flame graph programs read them.
 *
 * How it works: one request with two actions, thread_get_info for what the threads do and thread_get_backtrace for
 * their stacks; a thread stands while its stack is read, some 0.1 ms. Nothing has to be compiled into the process.
 */
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STACK_LIMIT = 8192, FRAMES = 64, FUNCTIONS = 4096, STACKS = 4096, SHOWN = 15 };
static const double RELOAD_SECONDS = 0.2; /* some addresses never have a name */

struct function {
    const char *name;
    unsigned long self, total, last; /* last: the stack that counted it, so that recursion counts once */
};

static struct function functions[FUNCTIONS];
static struct {
    char *text;
    unsigned long count;
} stacks[STACKS];
static size_t function_count, stack_count;
static unsigned long samples, rounds;
static bool ended;
static bool unknown; /* an address has no name: the process has loaded something, or executes another program */

static struct function *find_function(const char *name)
{
    for (size_t i = 0; i < function_count; i++)
        if (strcmp(functions[i].name, name) == 0)
            return &functions[i];
    if (function_count == FUNCTIONS)
        return &functions[0];
    functions[function_count].name = name;
    return &functions[function_count++];
}

static void count_stack(const char *text)
{
    for (size_t i = 0; i < stack_count; i++)
        if (strcmp(stacks[i].text, text) == 0) {
            stacks[i].count++;
            return;
        }
    if (stack_count < STACKS) {
        stacks[stack_count].text = strdup(text);
        stacks[stack_count++].count = 1;
    }
}

/* frames: pc and frame address of each, the innermost first */
static void take_stack(const struct omis_value *frames)
{
    char text[STACK_LIMIT] = "";
    size_t used = 0, count = omis_count(frames) / 2;
    if (!count) /* it was just beginning or ending */
        return;
    samples++;
    for (size_t i = count; i-- > 0;) {
        uint64_t pc = omis_unsigned(omis_item(frames, 2 * i));
        const char *name = symbols_name(i ? pc - 1 : pc);
        unknown |= strcmp(name, "?") == 0;
        struct function *function = find_function(name);
        function->total += function->last != samples;
        function->last = samples;
        function->self += i == 0;
        if (used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i + 1 < count ? ";" : "", function->name);
    }
    count_stack(text);
}

/* Both actions answer for the same threads, each by its token. A result may stand for several threads. */
static void take_samples(const char *process)
{
    enum { RUNS = 0, STATE = 256 }; /* scheduling_state is bit 8 of thread_get_info's flags; 0: runs or could */
    static char waiting[1 << 16];
    struct omis_reader *reader =
        tool_try(": thread_get_info([%s], %d) thread_get_backtrace([%s], %d)", process, STATE, process, FRAMES);
    size_t used = 0;
    const char *thread;
    if (omis_reader_status(reader) == OMIS_UNKNOWN_OBJECT || !omis_reader_object(reader, 0)) {
        ended = true; /* a moment ago */
        omis_reader_free(reader);
        return;
    }
    rounds++;
    waiting[0] = 0;
    do {
        if (omis_reader_action(reader) == 1 && omis_integer(omis_item(omis_reader_values(reader), 0)) != RUNS)
            for (size_t i = 0; (thread = omis_reader_object(reader, i)) && used + 64 < sizeof waiting; i++)
                used += (size_t)sprintf(waiting + used, "%.60s,", thread);
        if (omis_reader_action(reader) == 2)
            for (size_t i = 0; (thread = omis_reader_object(reader, i)); i++) {
                char token[64];
                snprintf(token, sizeof token, "%.60s,", thread);
                if (!strstr(waiting, token))
                    take_stack(omis_item(omis_reader_values(reader), 1));
            }
    } while (omis_reader_next(reader));
    omis_reader_free(reader);
}

static int by_self(const void *a, const void *b)
{
    const struct function *left = a, *right = b;
    if (left->self != right->self)
        return left->self < right->self ? 1 : -1;
    return (left->total < right->total) - (left->total > right->total);
}

static void print_table(void)
{
    if (!samples) {
        printf("no thread was running in %lu rounds\n", rounds);
        return;
    }
    qsort(functions, function_count, sizeof *functions, by_self);
    printf("%lu samples of running threads in %lu rounds\n   self  total  function\n", samples, rounds);
    for (size_t i = 0; i < function_count && i < SHOWN; i++)
        printf("%6.1f%% %5.1f%%  %s\n", 100.0 * (double)functions[i].self / (double)samples,
               100.0 * (double)functions[i].total / (double)samples, functions[i].name);
    if (function_count > SHOWN)
        printf("                and %zu more\n", function_count - SHOWN);
}

static void on_end(struct omis_reader *reader, void *param)
{
    (void)reader, (void)param;
    ended = true;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    double hz = 50, seconds = 5;
    bool folded = false;
    int option;
    tool_start("sampler", &argc, &argv, NULL);
    while ((option = getopt(argc, argv, "r:s:f")) != -1)
        if (option == 'r')
            hz = atof(optarg);
        else if (option == 's')
            seconds = atof(optarg);
        else
            folded = option == 'f';
    if (optind + 1 != argc || hz <= 0 || hz > 1000 || seconds <= 0)
        tool_fail("usage: sampler [-r HZ] [-s SECONDS] [-f] PID");
    const char *process = tool_ask_text(": proc_attach3([], %d, \"\")", atoi(argv[optind]));
    symbols_load(process);
    tool_on(on_end, NULL, "proc_has_terminated([%s]) : print([$proc])", process);
    double begin = now_s(), next = begin, loaded = begin;
    while (!ended && next < begin + seconds) {
        double wait = next - now_s();
        if (wait > 0) {
            tool_wait((int)(wait * 1000) + 1);
            continue;
        }
        if (unknown && loaded + RELOAD_SECONDS < now_s()) {
            symbols_load(process);
            loaded = now_s();
            unknown = false;
        }
        take_samples(process);
        if (rounds == 1)
            fprintf(stderr, "sampler: %g samples a second at %s, for %g s\n", hz, argv[optind], seconds);
        next += 1 / hz;
    }
    for (size_t i = 0; folded && i < stack_count; i++)
        printf("%s %lu\n", stacks[i].text, stacks[i].count);
    if (!folded)
        print_table();
    return omis_finalize() == OMIS_OK ? 0 : 1;
}
