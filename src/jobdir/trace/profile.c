/* SPDX-License-Identifier: Apache-2.0 */
/* Feeding a profile. The way of a record that nothing new comes with is short; all else is in profile_rows.c. */
#include "jobdir/trace/profile.h"

#include <errno.h>
#include <stdlib.h>

#include "jobdir/trace/profile_internal.h"

int profile_new(struct profile **ret_profile, size_t limit)
{
    struct profile *profile = calloc(1, sizeof *profile);
    if (!profile)
        return -ENOMEM;
    profile->limit = limit ? limit : PROFILE_LIMIT;
    *ret_profile = profile;
    return 0;
}

static void stack_free(struct profile *profile, struct stack *stack)
{
    if (profile->last == stack)
        profile->last = NULL;
    HASH_DEL(profile->stacks, stack);
    profile->frames -= stack->room;
    profile->stacks_count--;
    free(stack->frames);
    free(stack->spent);
    free(stack);
}

static void thread_drop(struct profile *profile, struct profile_thread *thread)
{
    for (struct stack *stack = thread->stacks, *next; stack; stack = next) {
        next = stack->next;
        stack_free(profile, stack);
    }
    thread->stacks = NULL;
}

void profile_free(struct profile *profile)
{
    if (!profile)
        return;
    struct profile_thread *thread, *next;
    HASH_ITER(hh, profile->threads, thread, next)
    {
        HASH_DEL(profile->threads, thread);
        thread_drop(profile, thread);
        profile_thread_free(NULL, thread);
    }
    if (profile->others)
        thread_drop(profile, profile->others);
    profile_thread_free(NULL, profile->others);
    free(profile);
}

/* ---- threads and stacks ---- */

static struct profile_thread *others_thread(struct profile *profile)
{
    if (!profile->others)
        profile->others = profile_thread_new(profile, PROFILE_OTHERS);
    return profile->others;
}

/* Ended threads go into the one of the others, so that living ones have room. */
static void make_room(struct profile *profile)
{
    if (!others_thread(profile))
        return;
    struct profile_thread *thread, *next;
    HASH_ITER(hh, profile->threads, thread, next)
    {
        if (thread->ended) {
            profile_thread_merge(profile, thread);
            HASH_DEL(profile->threads, thread);
            profile_thread_free(profile, thread);
        }
    }
}

static bool is_full(const struct profile *profile)
{
    size_t share = PROFILE_SHARE * profile->limit;
    return HASH_COUNT(profile->threads) >= profile->limit || profile->rows >= share || profile->nodes >= share;
}

static struct profile_thread *thread_of(struct profile *profile, uint32_t number)
{
    struct profile_thread *thread;
    HASH_FIND(hh, profile->threads, &number, sizeof number, thread);
    if (thread) {
        thread->ended = false;
        return thread;
    }
    if (is_full(profile))
        make_room(profile);
    if (is_full(profile) || !(thread = profile_thread_new(profile, number)))
        return others_thread(profile);
    HASH_ADD(hh, profile->threads, number, sizeof thread->number, thread);
    return thread;
}

static void free_empty_of(struct profile *profile, struct profile_thread *thread)
{
    for (struct stack **at = &thread->stacks; *at;) {
        struct stack *stack = *at;
        if (stack->depth > 1 || stack->beyond) {
            at = &stack->next;
            continue;
        }
        *at = stack->next;
        stack_free(profile, stack);
    }
}

/* Stacks that nothing runs on: coroutines that ended. */
static void free_empty_stacks(struct profile *profile)
{
    struct profile_thread *thread, *next;
    HASH_ITER(hh, profile->threads, thread, next)
    free_empty_of(profile, thread);
    if (profile->others)
        free_empty_of(profile, profile->others);
}

static bool stack_grow(struct profile *profile, struct stack *stack)
{
    size_t room = stack->room ? stack->room * 2 : 32;
    if (room > PROFILE_DEPTH || profile->frames + room > PROFILE_FRAMES)
        return false;
    struct frame_spent *spent = profile->spends ? realloc(stack->spent, room * sizeof *spent) : NULL;
    if (profile->spends && !spent)
        return false;
    stack->spent = spent;
    struct frame *frames = realloc(stack->frames, room * sizeof *frames);
    if (!frames)
        return false;
    profile->frames += room - stack->room;
    stack->frames = frames;
    stack->room = room;
    return true;
}

static struct stack *stack_new(struct profile *profile, uint64_t key)
{
    if (profile->stacks_count >= profile->limit)
        free_empty_stacks(profile);
    struct profile_thread *thread = thread_of(profile, (uint32_t)(key >> 32));
    struct stack *stack = calloc(1, sizeof *stack);
    if (!thread || !stack || profile->stacks_count >= profile->limit || !stack_grow(profile, stack)) {
        free(stack ? stack->spent : NULL);
        free(stack);
        return NULL;
    }
    stack->key = key;
    stack->thread = thread;
    stack->frames[0] = (struct frame){.row = PROFILE_ROOT_ROW};
    if (stack->spent)
        stack->spent[0] = (struct frame_spent){.begin = {0}};
    stack->depth = 1;
    stack->next = thread->stacks;
    thread->stacks = stack;
    HASH_ADD(hh, profile->stacks, key, sizeof stack->key, stack);
    profile->stacks_count++;
    return stack;
}

static struct stack *stack_find_slow(struct profile *profile, uint64_t key, bool make)
{
    struct stack *stack;
    HASH_FIND(hh, profile->stacks, &key, sizeof key, stack);
    if (!stack && make)
        stack = stack_new(profile, key);
    if (stack)
        profile->last = stack;
    return stack;
}

static inline struct stack *stack_find(struct profile *profile, uint32_t thread, uint32_t number, bool make)
{
    uint64_t key = (uint64_t)thread << 32 | number;
    return profile->last && profile->last->key == key ? profile->last : stack_find_slow(profile, key, make);
}

/* ---- calls ---- */

static void __attribute__((noinline))
find_place(struct profile *profile, struct profile_thread *thread, const struct frame *caller, uint32_t function,
           uint32_t *ret_row, uint32_t *ret_node)
{
    uint32_t context = thread->nodes[caller->node].context;
    *ret_row = profile_row_of(profile, thread, function);
    *ret_node = profile_node_of(profile, thread, context, caller->row, *ret_row);
    thread->nodes[context].last = *ret_node;
}

void profile_enter(struct profile *profile, uint32_t thread_number, uint32_t stack_number, uint32_t function,
                   uint64_t time)
{
    struct stack *stack = stack_find(profile, thread_number, stack_number, true);
    if (!stack)
        return;
    if (stack->beyond || (stack->depth == stack->room && !stack_grow(profile, stack))) {
        stack->beyond++;
        return;
    }
    struct profile_thread *thread = stack->thread;
    struct frame *frame = &stack->frames[stack->depth++];
    uint32_t context = thread->nodes[frame[-1].node].context;
    uint32_t node = thread->nodes[context].last, row = thread->nodes[node].row;
    if (thread->nodes[node].function != function || node < 2 || context == 1)
        find_place(profile, thread, frame - 1, function, &row, &node);
    *frame = (struct frame){node, row, time, 0, thread->rows[row].total, thread->nodes[node].total};
    if (stack->spent && thread->spent)
        stack->spent[stack->depth - 1] = (struct frame_spent){profile->now, {0}, thread->spent[row].total};
    thread->latest = time;
    thread->nodes[node].calls++;
    thread->nodes[node].active++;
    thread->rows[row].calls++;
    thread->rows[row].active++;
}

void profile_spent_now(struct profile *profile, const struct profile_spent *until_now)
{
    profile->spends = true;
    profile->now = *until_now;
}

static struct profile_spent spent_between(const struct profile_spent *from, const struct profile_spent *to)
{
    return (struct profile_spent){to->waiting - from->waiting, to->preempted - from->preempted,
                                  to->unknown - from->unknown};
}

/* What of the span was not spent in the calls inside. */
static struct profile_spent spent_outside(const struct profile_spent *inner, const struct profile_spent *span)
{
    return (struct profile_spent){profile_span(inner->waiting, span->waiting),
                                  profile_span(inner->preempted, span->preempted),
                                  profile_span(inner->unknown, span->unknown)};
}

/* The call that has just been taken off the stack. */
static void leave_spent(const struct profile *profile, struct stack *stack, uint32_t row_number, bool timed)
{
    struct frame_spent *frame = &stack->spent[stack->depth];
    struct row_spent *row = &stack->thread->spent[row_number];
    if (!timed) {
        profile_spent_add(&frame[-1].inner, &frame->inner);
        return;
    }
    struct profile_spent span = spent_between(&frame->begin, &profile->now);
    struct profile_spent self = spent_outside(&frame->inner, &span);
    profile_spent_add(&frame[-1].inner, &span);
    profile_spent_add(&row->self, &self);
    row->total = frame->row_total;
    profile_spent_add(&row->total, &span);
}

/* Ends the innermost call. */
static inline void stack_leave(const struct profile *profile, struct stack *stack, uint64_t time, bool timed)
{
    struct profile_thread *thread = stack->thread;
    struct frame *frame = &stack->frames[--stack->depth];
    struct row *row = &thread->rows[frame->row];
    struct node *node = &thread->nodes[frame->node];
    row->active--;
    node->active--;
    if (stack->spent && thread->spent)
        leave_spent(profile, stack, frame->row, timed);
    if (!timed) {
        frame[-1].inner += frame->inner;
        return;
    }
    uint64_t span = profile_span(frame->time, time);
    frame[-1].inner += span;
    row->sum += span;
    row->self += profile_span(frame->inner, span);
    row->min = span < row->min ? span : row->min;
    row->max = span > row->max ? span : row->max;
    row->total = frame->row_total + span;
    node->total = frame->node_total + span;
    thread->latest = time;
}

void profile_leave(struct profile *profile, uint32_t thread_number, uint32_t stack_number, uint64_t time)
{
    struct stack *stack = stack_find(profile, thread_number, stack_number, false);
    if (!stack)
        return;
    if (stack->beyond)
        stack->beyond--;
    else if (stack->depth > 1)
        stack_leave(profile, stack, time, true);
}

/* Takes the calls that were too deep to be kept off the count. */
static uint32_t skip_beyond(struct stack *stack, uint32_t count)
{
    uint64_t beyond = stack->beyond < count ? stack->beyond : count;
    stack->beyond -= beyond;
    return count - (uint32_t)beyond;
}

void profile_unwind(struct profile *profile, uint32_t thread, uint32_t stack_number, uint32_t count, uint64_t time)
{
    struct stack *stack = stack_find(profile, thread, stack_number, false);
    if (!stack)
        return;
    for (count = skip_beyond(stack, count); count && stack->depth > 1; count--) {
        stack->thread->rows[stack->frames[stack->depth - 1].row].unwound++;
        stack_leave(profile, stack, time, true);
    }
}

void profile_lost(struct profile *profile, uint32_t thread, uint32_t stack_number, uint32_t count)
{
    struct stack *stack = stack_find(profile, thread, stack_number, false);
    if (!stack)
        return;
    for (count = skip_beyond(stack, count); count && stack->depth > 1; count--)
        stack_leave(profile, stack, 0, false);
}

void profile_leave_of(struct profile *profile, uint32_t thread, uint32_t stack_number, uint32_t function,
                      uint64_t entry_time, uint64_t time)
{
    struct stack *stack = stack_find(profile, thread, stack_number, true);
    if (!stack)
        return;
    /* Entry times grow from frame to frame: those inside the call are later. */
    size_t depth = stack->depth;
    while (depth > 1 && stack->frames[depth - 1].time > entry_time)
        depth--;
    bool ours = false; /* several may have begun in the same tick */
    for (size_t at = depth; at > 1 && !ours && stack->frames[at - 1].time == entry_time; at--) {
        uint32_t known = stack->thread->rows[stack->frames[at - 1].row].function;
        ours = known == function || known == PROFILE_OTHERS;
        depth = ours ? at : depth;
    }
    while (stack->depth > depth)
        stack_leave(profile, stack, 0, false);
    stack->beyond = 0;
    if (!ours) {
        profile_enter(profile, thread, stack_number, function, entry_time);
        if (stack->depth == depth)
            return; /* too deep */
        /* What was counted as called by the one around was called by this one, as far as it fits. */
        struct frame *entered = &stack->frames[depth];
        uint64_t span = profile_span(entry_time, time), inner = entered[-1].inner;
        entered->inner = inner < span ? inner : span;
        entered[-1].inner -= entered->inner;
        if (stack->spent) /* when it began is not in the trace, so what was spent until then is not known */
            stack->spent[depth].begin.unknown -= span;
    }
    stack_leave(profile, stack, time, true);
}

void profile_thread_ended(struct profile *profile, uint32_t number, uint64_t time)
{
    struct profile_thread *own;
    HASH_FIND(hh, profile->threads, &number, sizeof number, own);
    struct profile_thread *thread = own ? own : profile->others;
    if (!thread)
        return;
    for (struct stack *stack = thread->stacks; stack; stack = stack->next)
        if (stack->key >> 32 == number)
            profile_unwind(profile, number, (uint32_t)stack->key, UINT32_MAX, time);
    free_empty_of(profile, thread);
    if (own)
        own->ended = true;
}
