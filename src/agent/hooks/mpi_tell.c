/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hooks/mpi.h"

#include "agent/hooks/hooks.h"
#include "agent/hooks/connect.h"
#include "shm/mpi_told.h"

/* Of them all only a part is looked at: the rest is not even cleared. */
static void frame_fill(struct capture_frame *frame, uint64_t site, const struct mpi_told *told)
{
    for (unsigned i = 0; i < sizeof frame->gpr / sizeof *frame->gpr; i++)
        frame->gpr[i] = 0;
    frame->gpr[MPI_TOLD_REGISTER] = (uint64_t)told;
    frame->gpr[7] = (uint64_t)told;
    frame->gpr[16] = site;
    frame->has_xmm = false;
    frame->has_result = true; /* there are no moves to be learnt, see moves.h */
    frame->result = told->flags & MPI_TOLD_SAYS;
}

/* ---- what is written ---- */

struct written {
    uint64_t packet_seq, bytes;
};

/* In a child of fork of which nobody has taken notice the block is the parent's: it is not there. */
static struct written written_now(const struct agent_thread *self)
{
    return (struct written){self->packet_seq, agent_hot.area && self->block ? record_written(self) : 0};
}

static void written_since(struct agent_thread *self, struct written before)
{
    struct written now = written_now(self);
    self->mpi_bytes += now.packet_seq == before.packet_seq ? now.bytes - before.bytes : now.bytes;
}

/* ---- messages ---- */

/* They stand behind all calls that have begun, those that wait for --min-time included: these are written now. */
static void messages_put(struct agent_thread *self, const struct mpi_messages *messages, uint64_t sp)
{
    enum guard guard = thread_guard(self, sp - 8);
    bool good =
        guard != GUARD_STUCK && (in_stack(self, sp) || (guard == GUARD_OUTER && stack_switch(self, guard, sp, true)));
    if (good && self->waiting && guard == GUARD_OUTER)
        hooks_flush_waiting(self, guard);
    for (uint32_t i = 0; i < messages->count; i++)
        if (good) {
            const struct record_message record = mpi_message_record(&messages->list[i]);
            record_put(self, guard, RECORD_MESSAGE, messages->list[i].time, &record, sizeof record, NULL, 0);
        } else {
            record_discarded(self, false);
        }
    if (guard != GUARD_STUCK)
        thread_unguard(self, guard);
}

void mpi_long_messages(const struct mpi_messages *messages)
{
    struct agent_thread *self = &agent_self;
    struct area *area = agent_hot.area;
    if (messages->count && area && atomic_load_explicit(&area->on, memory_order_relaxed) &&
        atomic_load_explicit(&area->messages, memory_order_relaxed) && !self->off &&
        (self->block || thread_attach(self)))
        messages_put(self, messages, (uint64_t)__builtin_frame_address(0));
}

/* ---- calls ---- */

void mpi_long_begins(uint32_t call, uint64_t site, struct mpi_told *told, const struct mpi_messages *messages)
{
    struct capture_frame frame;
    struct written before = written_now(&agent_self);
    frame_fill(&frame, mpi_function_entry(call), told);
    hook_enter(mpi_function(call), site, &frame, 1);
    mpi_long_messages(messages);
    written_since(&agent_self, before);
    mpi_short_learn(call);
}

void mpi_long_ends(uint32_t call, uint64_t site, struct mpi_told *told, const struct mpi_messages *messages)
{
    struct capture_frame frame;
    struct written before = written_now(&agent_self);
    frame_fill(&frame, mpi_function_exit(call), told);
    mpi_long_messages(messages);
    hook_leave(mpi_function(call), site, &frame, 1);
    written_since(&agent_self, before);
}

/* ---- telling begins ---- */

/* A monitor that made the area after this report has put everything in place before it let us go. */
bool agent_mpi_tell(bool on)
{
    if (on)
        fork_noticed();
    if (on && !agent_hot.area)
        agent_connect(CONNECT_MPI);
    struct area *area = agent_hot.area;
    if (!area)
        return false;
    if (!on || atomic_exchange(&area->mpi, 1))
        return true;
    modules_announce(area);
    return true;
}
