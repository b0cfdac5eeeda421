/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper scry-symbols for services that look at variables: the requests; and a run that waits for the answer, for
 * services that need it at once. It waits at most CT_HELPER_NS, because the monitor does nothing else meanwhile.
 */
#include "service/ct/helper.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/waits.h"
#include "symbols/client/helper_client.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/process.h"
#include "monitor/tracing/tracing.h"
#include "symbols/client/helper.h"
#include "symbols/index/index.h"

enum { OUTPUT_LIMIT = 16 << 20, REGISTERS = 17 };

int ct_helper_run(const char *job, const struct buf *request, struct helper_reader *ret_reader, struct err *err)
{
    return helper_process_run(job, request, CT_HELPER_NS, OUTPUT_LIMIT, ret_reader, err);
}

/* ---- requests ---- */

static void number_line(struct buf *request, const char *word, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    helper_line(request, word, text, NULL);
}

int ct_request_begin(struct buf *request, const struct process *process, unsigned depth, struct ct_range *ret_agent,
                     struct err *err)
{
    struct module *modules;
    size_t count;
    int code = modules_read(process->pid, &modules, &count, err);
    if (code < 0)
        return code;
    number_line(request, "pid", (uint64_t)process->pid);
    number_line(request, "depth", depth);
    struct ct_range agent = {0};
    for (size_t i = 0; i < count; i++) {
        char bias[24];
        bool is_agent = module_is_agent(&modules[i]);
        snprintf(bias, sizeof bias, "0x%llx", (unsigned long long)modules[i].bias);
        if (modules[i].key[0])
            helper_line(request, "module", modules[i].path, bias,
                        modules[i].is_program ? "program"
                        : is_agent            ? "agent"
                                              : NULL,
                        NULL);
        if (is_agent)
            agent = (struct ct_range){modules[i].start, modules[i].end};
    }
    if (ret_agent)
        *ret_agent = agent;
    free(modules);
    return 0;
}

/* The registers of the innermost frame, by DWARF numbers. */
static void registers_text(const struct user_regs_struct *regs, char text[REGISTERS][32])
{
    const unsigned long long values[REGISTERS] = {regs->rax, regs->rdx, regs->rcx, regs->rbx, regs->rsi, regs->rdi,
                                                  regs->rbp, regs->rsp, regs->r8,  regs->r9,  regs->r10, regs->r11,
                                                  regs->r12, regs->r13, regs->r14, regs->r15, regs->rip};
    for (int i = 0; i < REGISTERS; i++)
        snprintf(text[i], 32, "%d=0x%llx", i, values[i]);
}

int ct_request_frames(struct buf *request, struct thread *thread, struct tracer_frame **ret_frames, size_t *ret_count,
                      struct err *err)
{
    struct tracer *tracer = thread->object.monitor->tracer;
    struct user_regs_struct regs;
    char r[REGISTERS][32], pc[24], cfa[24];
    int code = tracer_backtrace(tracer, thread->tid, CT_FRAMES, ret_frames, ret_count, err);
    if (code == 0 && (code = tracer_get_regs(tracer, thread->tid, &regs)) < 0) {
        free(*ret_frames);
        err_errno(err, code, "cannot read the registers of thread %d", thread->tid);
    }
    if (code < 0)
        return code;
    registers_text(&regs, r);
    for (size_t i = 0; i < *ret_count; i++) {
        snprintf(pc, sizeof pc, "0x%llx", (unsigned long long)(*ret_frames)[i].pc);
        snprintf(cfa, sizeof cfa, "0x%llx", (unsigned long long)(*ret_frames)[i].cfa);
        if (i == 0)
            helper_line(request, "frame", pc, cfa, r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10],
                        r[11], r[12], r[13], r[14], r[15], r[16], NULL);
        else
            helper_line(request, "frame", pc, cfa, NULL);
    }
    return 0;
}

/* ---- threads under inspection ---- */

int ct_threads_stop(struct thread *const *threads, size_t count, struct err *err)
{
    struct process *process = threads[0]->process;
    pid_t *tids = calloc(count, sizeof *tids);
    if (!tids)
        return err_set(err, -ENOMEM, "out of memory");
    size_t running = 0;
    int code = tracing_seize(process, err);
    for (size_t i = 0; i < count; i++)
        if (!threads[i]->stopped)
            tids[running++] = threads[i]->tid;
    if (code == 0 && running && (code = tracer_stop(process->object.monitor->tracer, tids, running, NULL)) < 0) {
        tracer_continue(process->object.monitor->tracer, tids, running, NULL);
        err_errno(err, code, "process %d cannot be stopped for a moment", process->pid);
    }
    free(tids);
    return code;
}

void ct_threads_continue(struct thread *const *threads, size_t count)
{
    struct process *process = threads[0]->process;
    struct tracer *tracer = process->object.monitor->tracer;
    for (size_t i = 0; tracer && i < count; i++)
        if (!threads[i]->stopped)
            tracer_continue(tracer, &threads[i]->tid, 1, NULL);
    tracing_unsettle(process);
}
