/* SPDX-License-Identifier: Apache-2.0 */
#include "job/run/said_stack.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The colon in "[node7:", where a line of that node begins; NULL: it does not. They leave domains away. */
static const char *take_node(const char *line, const char *host)
{
    size_t len = strcspn(host, ".");
    return *line == '[' && strncmp(line + 1, host, len) == 0 && line[1 + len] == ':' ? line + 1 + len : NULL;
}

/* "[node7:26537] [ 1] " *inout_at comes behind it. */
static bool take_head(const char **inout_at, const char *host, pid_t pid, int *ret_number)
{
    const char *colon = take_node(*inout_at, host);
    int its, used = 0;
    if (!colon || sscanf(colon, ":%d] [%d] %n", &its, ret_number, &used) != 2 || !used || its != pid)
        return false;
    *inout_at = colon + used;
    return true;
}

/* As backtrace_symbols(3) has it: "MODULE(SYMBOL+0x12)[0x7f..]", "MODULE(+0x1175)[0x56..]", of glibc and of musl "MODULE() [0x40..]". */
static bool take_frame(struct said_frame *ret_frame, const char *at)
{
    const char *address = strrchr(at, '['), *end = address, *open, *plus;
    int used = 0;
    *ret_frame = (struct said_frame){.address = 0};
    if (!address || sscanf(address, "[0x%" SCNx64 "]%n", &ret_frame->address, &used) != 1 || !used)
        return false;
    while (end > at && end[-1] == ' ')
        end--;
    open = end;
    if (end > at && end[-1] == ')')
        while (open > at && *open != '(')
            open--;
    if (open == at || (size_t)(open - at) >= sizeof ret_frame->module)
        return false;
    memcpy(ret_frame->module, at, (size_t)(open - at));
    plus = open;
    while (plus < end && *plus != '+')
        plus++;
    if (plus == end)
        return true;
    if (plus > open + 1)
        snprintf(ret_frame->symbol, sizeof ret_frame->symbol, "%.*s", (int)(plus - open - 1), open + 1);
    else
        ret_frame->based = true;
    ret_frame->bias = ret_frame->based ? ret_frame->address - strtoull(plus + 1, NULL, 16) : 0;
    return true;
}

struct said_stack {
    struct said_frame *frames;
    size_t count;
    const char *host;
    pid_t pid, tid; /* tid: the thread of it whose stack UCX is about to print; 0: none is */
    bool inside;    /* of that */
    int next;       /* the number of its next line */
};

/* "[node7:853  :0:853] Caught signal 11", "==== backtrace (tid:    853) ====", " 4  ./prog(+0x1175) [0x55df59cd9175]". Whose a line is its head does
 * not say: where one is missing, or another comes between, nothing of it is believed. Whether it is one of these. */
static bool take_ucx(struct said_stack *stack, const char *line)
{
    static const char own[] = "libucs.so";
    const char *colon = take_node(line, stack->host);
    int pid, tid, number, used = 0;
    if (colon && sscanf(colon, ":%d :%*d:%d] Caught signal %n", &pid, &tid, &used) == 2 && used) {
        stack->tid = pid == stack->pid ? tid : stack->tid;
        return true;
    }
    if (sscanf(line, "==== backtrace (tid: %d) ===%n", &tid, &used) == 1 && used) {
        stack->inside = stack->tid && tid == stack->tid;
        stack->count = stack->inside ? 0 : stack->count;
        stack->next = 0;
        return true;
    }
    if (!stack->inside)
        return false;
    if (sscanf(line, " %d %n", &number, &used) != 1 || !used || number != stack->next ||
        !take_frame(&stack->frames[stack->count], line + used)) {
        stack->inside = false;
        stack->count = strncmp(line, "====", 4) == 0 ? stack->count : 0;
        return true;
    }
    stack->next++;
    const char *slash = strrchr(stack->frames[stack->count].module, '/');
    bool handler = strncmp(slash ? slash + 1 : "", own, sizeof own - 1) == 0;
    stack->count = handler ? 0 : stack->count + 1;
    if (stack->count == SAID_FRAMES)
        stack->inside = false;
    return true;
}

size_t said_stack_parse(const char *text, size_t len, const char *host, pid_t pid,
                        struct said_frame ret_frames[SAID_FRAMES])
{
    enum { LINE_MOST = PATH_MAX + 512 };
    struct said_stack stack = {.frames = ret_frames, .host = host, .pid = pid};
    for (const char *line = text, *next; line < text + len; line = next) {
        char copy[LINE_MOST];
        struct said_frame frame;
        int number;
        const char *newline = memchr(line, '\n', (size_t)(text + len - line)), *at = copy;
        next = newline ? newline + 1 : text + len;
        size_t size = (size_t)((newline ? newline : next) - line);
        if (size >= sizeof copy)
            continue;
        memcpy(copy, line, size);
        copy[size] = '\0';
        if (take_ucx(&stack, copy) || !take_head(&at, host, pid, &number) || !take_frame(&frame, at))
            continue;
        if (number == 0)
            stack.count = 0;
        if ((size_t)number == stack.count && stack.count < SAID_FRAMES)
            ret_frames[stack.count++] = frame;
    }
    if (stack.count) /* what the kernel has the handler return to */
        memmove(ret_frames, ret_frames + 1, --stack.count * sizeof *ret_frames);
    return stack.count;
}
