/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small debugger: breakpoints on functions, stacks, registers and memory.
 *
 *     breakpoints -b FUNCTION... PROGRAM [ARGUMENT...]      starts the program
 *     breakpoints -b FUNCTION... -p PID                     attaches to a process
 *
 * At a breakpoint the whole process stands; what is typed then (or comes by a pipe) says how to go on:
 *
 *     bt               the stack of the thread that reached the breakpoint
 *     threads          all threads and where they are
 *     regs             its integer registers
 *     mem ADDRESS N    N bytes of memory
 *     break FUNCTION   one more breakpoint
 *     c                go on (also an empty line); at the end of the input it goes on without breakpoints
 *     q                leave it alone, and end
 *
 * How it works: a breakpoint is a conditional request, `thread_reached_addr : thread_stop`. The action list runs while
 * the thread is held, so it stops before the instruction at the address. When this program ends, in whatever way, the
 * monitor takes the breakpoints out and lets the process go on.
 */
#include "tool.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *process;
static char thread[64]; /* which reached a breakpoint; "": none */
static bool ended;

/* ---- looking ---- */

static void print_frames(struct omis_reader *reader)
{
    enum { PC, MEMBERS = 2 }; /* of each frame: pc, frame address */
    const struct omis_value *frames = omis_item(omis_reader_values(reader), 1);
    for (size_t i = 0; i < omis_count(frames) / MEMBERS; i++) {
        uint64_t pc = omis_unsigned(omis_item(frames, i * MEMBERS + PC));
        printf("  #%zu %#" PRIx64 " %s\n", i, pc,
               symbols_name(i ? pc - 1 : pc)); /* a return address is behind its call */
    }
}

static void print_threads(void)
{
    struct omis_reader *reader = tool_ask(": thread_get_backtrace([%s], 1)", process);
    do { /* one result for each thread */
        const struct omis_value *frames = omis_item(omis_reader_values(reader), 1);
        printf("  %s in %s\n", omis_reader_object(reader, 0), symbols_name(omis_unsigned(omis_item(frames, 0))));
    } while (omis_reader_next(reader));
    omis_reader_free(reader);
}

static void print_registers(void)
{
    static const char *const names[] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
                                        "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip"};
    struct omis_reader *reader = tool_ask(": thread_read_int_regs([%s], 0, 17)", thread);
    const struct omis_value *values = omis_item(omis_reader_values(reader), 0);
    for (size_t i = 0; i < 17; i++)
        printf("  %-3s %016" PRIx64 "%c", names[i], omis_unsigned(omis_item(values, i)), i % 3 == 2 ? '\n' : ' ');
    putchar('\n');
    omis_reader_free(reader);
}

static void print_memory(const char *arguments)
{
    uint64_t address;
    unsigned count;
    if (sscanf(arguments, "%" SCNi64 " %u", (int64_t *)&address, &count) != 2 || count > 4096) {
        puts("  mem ADDRESS COUNT, at most 4096 bytes");
        return;
    }
    struct omis_reader *reader = /* a wrong address is no reason to end */
        tool_try(": proc_read_memory_bin([%s], %" PRIu64 ", %u, %u, 1)", process, address, count, count);
    if (omis_reader_error(reader))
        printf("  %s\n", omis_reader_error(reader));
    size_t length;
    const char *bytes = omis_text(omis_item(omis_reader_values(reader), 0), &length);
    for (size_t i = 0; i < length; i++)
        printf("%s%02x%s", i % 16 ? " " : "  ", (unsigned char)bytes[i], i % 16 == 15 || i + 1 == length ? "\n" : "");
    omis_reader_free(reader);
}

/* ---- breakpoints ---- */

static void on_reached(struct omis_reader *reader, void *function)
{
    if (omis_reader_find(reader, 2)) /* print([$thread]): how many values, and their list */
        snprintf(thread, sizeof thread, "%s", omis_text(omis_item(omis_item(omis_reader_values(reader), 1), 0), NULL));
    printf("%s reached %s\n", thread, (const char *)function);
}

static void set_breakpoint(char *function)
{
    uint64_t address = symbols_address(function);
    if (!address) {
        printf("there is no function %s in the program and its libraries\n", function);
        return;
    }
    tool_on(on_reached, strdup(function),
            "thread_reached_addr([%s], %" PRIu64 ") : thread_stop([$proc]) print([$thread])", process, address);
    printf("breakpoint at %s, %#" PRIx64 "\n", function, address);
}

/* One command; false: the process is to go on. */
static bool obey(char *line)
{
    char *rest = line + strcspn(line, " ");
    if (*rest)
        *rest++ = 0;
    if (strcmp(line, "bt") == 0) {
        struct omis_reader *reader = tool_ask(": thread_get_backtrace([%s], 0)", thread);
        print_frames(reader);
        omis_reader_free(reader);
    } else if (strcmp(line, "threads") == 0) {
        print_threads();
    } else if (strcmp(line, "regs") == 0) {
        print_registers();
    } else if (strcmp(line, "mem") == 0) {
        print_memory(rest);
    } else if (strcmp(line, "break") == 0) {
        set_breakpoint(rest);
    } else if (strcmp(line, "q") == 0) {
        ended = true;
        return false;
    } else if (*line && strcmp(line, "c") != 0) {
        puts("  bt, threads, regs, mem ADDRESS COUNT, break FUNCTION, c (go on), q (leave it alone)");
    } else {
        return false;
    }
    return true;
}

static void talk(void)
{
    char line[256];
    symbols_load(process); /* libraries have come since */
    do {
        if (isatty(STDIN_FILENO))
            fputs("(break) ", stdout);
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin)) {
            ended = true; /* nobody is there who could say how to go on */
            return;
        }
        line[strcspn(line, "\n")] = 0;
    } while (obey(line));
}

static void on_end(struct omis_reader *reader, void *param)
{
    (void)reader, (void)param;
    puts("the process has ended");
    ended = true;
}

/* ---- the process ---- */

/* Stopped before its first instruction. It reads and writes what this program does. */
static const char *start_program(char **argv)
{
    char arguments[4096] = "", path[4096], *found = realpath(argv[0], path);
    if (!found)
        tool_fail("%s: there is no such file", argv[0]);
    for (size_t i = 1, used = 0; argv[i] && used < sizeof arguments; i++)
        used +=
            (size_t)snprintf(arguments + used, sizeof arguments - used, "%s%s", i > 1 ? ", " : "", tool_quote(argv[i]));
    const char *node = tool_ask_text(": node_attach2(\"\")");
    return tool_ask_text(": proc_create([%s], %s, [%s], [], [\"/dev/null\", \"/proc/%d/fd/1\", \"/proc/%d/fd/2\"])",
                         node, tool_quote(path), arguments, getpid(), getpid());
}

int main(int argc, char **argv)
{
    char *functions[16];
    int count = 0, pid = 0, option;
    tool_start("breakpoints", &argc, &argv, NULL);
    while ((option = getopt(argc, argv, "+b:p:")) != -1)
        if (option == 'b' && count < 16)
            functions[count++] = optarg;
        else if (option == 'p')
            pid = atoi(optarg);
        else
            tool_fail("usage: breakpoints -b FUNCTION... PROGRAM [ARGUMENT...], or -p PID for the program");
    if (!count || (!pid && !argv[optind]))
        tool_fail("usage: breakpoints -b FUNCTION... PROGRAM [ARGUMENT...], or -p PID for the program");
    process = pid ? tool_ask_text(": proc_attach3([], %d, \"\")", pid) : start_program(argv + optind);
    symbols_load(process);
    for (int i = 0; i < count; i++)
        set_breakpoint(functions[i]);
    tool_on(on_end, NULL, "proc_has_terminated([%s]) : print([$proc])", process);
    if (!pid)
        omis_reader_free(tool_ask(": thread_continue([%s])", process));
    while (!ended) {
        tool_wait(-1);
        if (!*thread || ended)
            continue;
        talk();
        *thread = 0;
        if (!ended)
            omis_reader_free(tool_ask(": thread_continue([%s])", process));
    }
    return omis_finalize() == OMIS_OK ? 0 : 1;
}
