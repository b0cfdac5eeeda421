/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of Python programs: their stacks as Python has them, read from memory (symbols/python/python.h). */
#include <errno.h>

#include "lang/put.h"
#include "lang/results.h"
#include "monitor/engine/call.h"
#include "service/omis/service.h"
#include "symbols/python/python.h"

static void put_stack(struct buf *text, const struct python_program *program, const struct python_stacks *stacks)
{
    const struct python_thread *thread = stacks->count ? &stacks->threads[0] : NULL;
    const size_t count = thread ? thread->count : 0;
    char version[PYTHON_VERSION_SIZE] = "";
    if (program->version)
        python_version(version, program->version);
    PUT(text, version, count);
    put_list(text);
    for (size_t i = 0; i < count; i++)
        PUT(text, thread->frames[i].function, thread->frames[i].file, thread->frames[i].line, thread->frames[i].entry);
    put_end(text);
}

static int get_python_stack(struct scry_call *call, size_t index, struct buf *text, struct err *err)
{
    struct thread *thread = call_thread(call, index);
    const pid_t pid = thread->process->pid;
    const struct python_memory memory = python_memory_of(&pid);
    const size_t depth = (size_t)call_integer(call, 1);
    struct python_program program;
    struct python_stacks stacks = {0};
    int code = python_find(&program, pid);
    if (code == 0)
        code = python_read(&stacks, &program, &memory, thread->tid, depth);
    if (code == -ESRCH || code == -EACCES || code == -ENOMEM)
        err_errno(err, code, "the Python stack of thread %d", thread->tid);
    else
        code = 0; /* there is none, or it is not understood */
    put_stack(text, &program, &stacks);
    python_stacks_done(&stacks);
    return code;
}

static void thread_get_python_stack(struct scry_call *call)
{
    if (call_check_range(call, 1, 1, PYTHON_FRAMES))
        call_each(call, get_python_stack);
}

const struct scry_service scry_thread_services[] = {
    {"scry_thread_get_python_stack", SCRY_INFORMATION, "token<t>* thread_list, integer depth -> " PYTHON_STACK_RESULT,
     SCRY_OPTIONAL, thread_get_python_stack,
     "Where threads of Python programs (CPython 3.9 to 3.14) are, innermost frame first, at most 200. Nothing is "
     "stopped "
     "for it. No frames: it is not in Python, or not understood. line -1: unknown. entry 1: C called Python there."},
    SERVICE_END,
};
