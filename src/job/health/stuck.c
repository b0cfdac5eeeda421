/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/judge.h"

#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/pause.h"
#include "job/places/deadlocks.h"
#include "job/places/fifos.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

enum { PROCESSES_MOST = 256, ASKED_MOST = 2 };

struct question {
    size_t count;
    pid_t pids[PROCESSES_MOST];
    pid_t last; /* the process that did something last; 0: it has ended, or is not asked for */
};

struct answer {
    bool deadlock;
    bool later;              /* nobody is told while it runs: it may have a purpose */
    char text[STUCK_TEXT];   /* "": it is not stuck */
    char where[STUCK_WHERE]; /* as in struct stuck */
};

void stuck_put_where(char ret_where[STUCK_WHERE], pid_t pid)
{
    struct deadlock_thread thread = {.tid = pid};
    deadlock_threads_tell(&thread, 1, pid);
    if (thread.text.len && !thread.text.failed)
        memcpy(ret_where, thread.text.data, text_fit(thread.text.data, thread.text.len, STUCK_WHERE - 1));
    deadlock_threads_done(&thread, 1);
}

/* An ask_fn: in a thread of its own. */
static void stuck_find(const void *data, void *ret_answer)
{
    const struct question *question = data;
    struct answer *answer = ret_answer;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct deadlock *locks = NULL;
    size_t count = deadlocks_find(&locks, question->pids, question->count);
    answer->deadlock = count > 0;
    if (count)
        deadlocks_line(&text, &locks[0]);
    else
        fifos_line(&text, question->pids, question->count);
    pid_t pid;
    enum awaited awaited = text.len ? AWAITED_NOTHING : awaited_put(&text, question->pids, question->count, &pid);
    answer->later = awaited == AWAITED_TERMINAL || awaited == AWAITED_CONNECTION;
    if (awaited == AWAITED_OTHER)
        buf_clear(&text);
    if (text.len && !text.failed)
        memcpy(answer->text, text.data, text_fit(text.data, text.len, STUCK_TEXT - 1));
    deadlocks_free(locks, count);
    if ((!*answer->text || answer->later) && question->last)
        stuck_put_where(answer->where, question->last);
}

/* Of too many it is not asked: each is looked at, and those that have the other ends of its pipes. */
static struct ask *ask_begin(const struct processes *processes, bool again)
{
    struct question question = {0};
    for (const struct process_health *process = processes->all; process; process = process->hh.next) {
        if (process->ended)
            continue;
        if (question.count == PROCESSES_MOST)
            return NULL;
        question.pids[question.count++] = process->pid;
        if (again && process->pid == processes->motion.pid)
            question.last = process->pid;
    }
    return question.count ? ask_start(stuck_find, &question, sizeof question, sizeof(struct answer)) : NULL;
}

static void stuck_take(struct stuck *stuck, const struct look *look)
{
    struct answer answer;
    if (!stuck->ask || !ask_take(stuck->ask, 0, &answer))
        return;
    stuck->ask = NULL;
    memcpy(stuck->where, answer.where, sizeof stuck->where);
    stuck->changed |= strcmp(stuck->standing, answer.text) != 0;
    memcpy(stuck->standing, answer.text, sizeof stuck->standing);
    stuck->deadlock = answer.deadlock;
    if (stuck->said || !*answer.text)
        return;
    if (answer.later || (!answer.deadlock && stuck->asked < ASKED_MOST)) {
        memcpy(stuck->pending, answer.text, sizeof stuck->pending);
        return;
    }
    stuck->said = true;
    look->say(look->ctx, NOTE(stuck, .deadlock = answer.deadlock, .text = answer.text));
}

void stuck_look(struct stuck *stuck, const struct look *look, const struct stall *stall,
                const struct processes *processes)
{
    static const uint64_t after_ms[ASKED_MOST] = {STUCK_DEADLOCK_MS, STUCK_FIFO_MS};
    if (stall->moved_ns != stuck->moved_ns) { /* it goes on */
        stuck_done(stuck);
        *stuck = (struct stuck){.moved_ns = stall->moved_ns, .changed = stuck->changed || *stuck->standing};
        return;
    }
    stuck_take(stuck, look);
    if (stuck->ask || stuck->said || stuck->asked == ASKED_MOST ||
        look->now_ns - stall->moved_ns < time_hasten(after_ms[stuck->asked]) * WAITS_NS_PER_MS)
        return;
    stuck->ask = ask_begin(processes, ++stuck->asked == ASKED_MOST);
}

void stuck_ended(struct stuck *stuck, const struct look *look, const struct stall *stall)
{
    if (stuck->said || !*stuck->pending || stall->moved_ns != stuck->moved_ns)
        return;
    stuck->said = true;
    look->say(look->ctx, NOTE(stuck, .deadlock = false, .text = stuck->pending));
}

void stuck_done(struct stuck *stuck)
{
    ask_drop(stuck->ask);
    stuck->ask = NULL;
}
