/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory the job has, if pages that its processes share count once: their proportional set sizes (PSS, proc(5)).
 *
 * To read one, the kernel walks all page tables of a process, 10 to 100 ms for a GB of small pages, and keeps the process
 * from changing its mappings meanwhile. So it is read only where something may be shared, at peaks of the sum of resident
 * sizes and now and then, of no process for which it takes long, and in all for a thousandth of the time. It is read in a
 * thread, since a process that hangs in the kernel may hold whoever reads it, but at no lower priority: that thread
 * must not lose its processor while it holds the process up.
 */
#include "job/health/processes.h"

#include "base/system/clock.h"
#include "shm/waits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MEMORY_LEAST = 16 << 20, MEMORY_LISTED = 1024, ROOT_ROOM = 128 };
#define MEMORY_SHARE 1000 /* one part of so many of the time */
#define FIRST_NS_PER_BYTE 0.02
#define LEAST_NS_PER_BYTE 0.002 /* huge pages are quick, and may become small ones */

struct memory_question {
    char root[ROOT_ROOM];
    double ns_per_byte;
    struct memory_record record; /* of what is not in the list */
    size_t count;
    struct memory_process {
        pid_t pid;
        uint64_t rss;
    } list[MEMORY_LISTED];
};

struct memory_answer {
    struct memory_record record;
    uint64_t took_ns, read_bytes;
    pid_t slow; /* took too long; 0: none did */
};

bool memory_is_due(const struct memory *memory, uint64_t now_ns, uint64_t rss, uint64_t largest)
{
    uint64_t others = rss - largest; /* no more than that can be counted twice */
    if (others < MEMORY_LEAST || others < rss / 20 || now_ns < memory->paid_ns)
        return false;
    return rss > memory->peak_rss + memory->peak_rss / 10 || now_ns >= memory->read_ns + MEMORY_AGAIN_NS;
}

void memory_pay(struct memory *memory, uint64_t now_ns, uint64_t took_ns, uint64_t read_bytes)
{
    uint64_t saved_ns = MEMORY_CREDIT_NS * MEMORY_SHARE, since_ns = now_ns > saved_ns ? now_ns - saved_ns : 0;
    if (memory->paid_ns < since_ns)
        memory->paid_ns = since_ns;
    memory->paid_ns += took_ns * MEMORY_SHARE;
    double ns_per_byte = read_bytes ? (double)took_ns / (double)read_bytes : 0;
    if (read_bytes >= MEMORY_LEAST)
        memory->ns_per_byte = ns_per_byte > LEAST_NS_PER_BYTE ? ns_per_byte : LEAST_NS_PER_BYTE;
}

/* An ask_fn. */
static void memory_read(const void *question_, void *ret_answer)
{
    const struct memory_question *question = question_;
    struct memory_answer *answer = ret_answer;
    answer->record = question->record;
    for (size_t i = 0; i < question->count; i++) {
        const struct memory_process *process = &question->list[i];
        char text[2048];
        uint64_t expected_ns = (uint64_t)((double)process->rss * question->ns_per_byte), begin_ns = clock_now_ns(),
                 cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        int code = answer->slow || expected_ns > MEMORY_ONE_NS || answer->took_ns + expected_ns > MEMORY_ALL_NS
                       ? -ETIME
                       : look_read(question->root, text, sizeof text, "/proc/%d/smaps_rollup", (int)process->pid);
        uint64_t took_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
        answer->took_ns += took_ns;
        int64_t rss = code < 0 ? -1 : look_find(text, "Rss"), pss = code < 0 ? -1 : look_find(text, "Pss");
        if (code == -ENOENT || code == -ESRCH)
            continue; /* it has ended */
        bool known = rss >= 0 && pss >= 0 && rss < INT64_MAX / 1024 && pss <= rss;
        answer->record.rss += known ? (uint64_t)rss * 1024 : process->rss;
        answer->record.pss += known ? (uint64_t)pss * 1024 : process->rss;
        answer->record.processes++;
        answer->record.unread += !known;
        answer->read_bytes += known ? (uint64_t)rss * 1024 : 0;
        if (took_ns > MEMORY_ONE_NS || clock_now_ns() - begin_ns > MEMORY_WAIT_NS)
            answer->slow = process->pid;
    }
}

static void memory_ask(struct memory *memory, const struct processes *processes, const struct look *look)
{
    struct memory_question question = {.ns_per_byte =
                                           memory->ns_per_byte > 0 ? memory->ns_per_byte : FIRST_NS_PER_BYTE};
    snprintf(question.root, sizeof question.root, "%s", look->root);
    for (const struct process_health *process = processes->all; process; process = process->hh.next) {
        if (!process->rss)
            continue;
        if (process->slow || question.count == MEMORY_LISTED) {
            question.record.rss += process->rss;
            question.record.pss += process->rss;
            question.record.processes++;
            question.record.unread++;
        } else {
            question.list[question.count++] = (struct memory_process){process->pid, process->rss};
        }
    }
    memory->ask = ask_start(memory_read, &question, sizeof question, sizeof(struct memory_answer));
}

static bool memory_take(struct memory *memory, struct processes *processes, const struct look *look, int wait_ms,
                        struct memory_record *ret_record)
{
    struct memory_answer answer;
    if (!ask_take(memory->ask, wait_ms, &answer))
        return false;
    memory->ask = NULL;
    memory_pay(memory, look->now_ns, answer.took_ns, answer.read_bytes);
    memory->read_ns = look->now_ns;
    struct process_health *process;
    HASH_FIND_INT(processes->all, &answer.slow, process);
    if (process)
        process->slow = true;
    if (answer.record.rss > memory->peak_rss)
        memory->peak_rss = answer.record.rss;
    *ret_record = answer.record;
    return answer.record.processes > 0;
}

bool memory_look(struct memory *memory, struct processes *processes, const struct look *look, int wait_ms,
                 struct memory_record *ret_record)
{
    uint64_t rss = 0, largest = 0;
    if (memory->ask)
        return memory_take(memory, processes, look, wait_ms, ret_record);
    for (const struct process_health *process = processes->all; process; process = process->hh.next) {
        rss += process->rss;
        largest = process->rss > largest ? process->rss : largest;
    }
    if (memory_is_due(memory, look->now_ns, rss, largest))
        memory_ask(memory, processes, look);
    return false;
}
