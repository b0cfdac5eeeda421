/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that the monitor of the tests has got: their records, calls paired, and as a tree. */
#include "agent/test/test_monitor.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_order(const void *a, const void *b)
{
    const struct mini_packet *one = a, *two = b;
    return one->order < two->order ? -1 : one->order > two->order;
}

static uint64_t take(const uint8_t **at, const uint8_t *end, size_t size)
{
    uint64_t value = 0;
    assert_true((size_t)(end - *at) >= size);
    memcpy(&value, *at, size);
    *at += size;
    return value;
}

static void take_bytes(const uint8_t **at, const uint8_t *end, struct mini_event *event, bool layout)
{
    if (layout)
        event->layout = (uint32_t)take(at, end, 4);
    event->size = (size_t)take(at, end, 2);
    assert_true((size_t)(end - *at) >= event->size);
    event->bytes = *at;
    *at += event->size;
}

static void take_payload(const uint8_t **at, const uint8_t *end, struct mini_event *event)
{
    switch (event->id) {
    case RECORD_ENTRY:
    case RECORD_THINNED:
        event->function = (uint32_t)take(at, end, 4);
        break;
    case RECORD_EXIT:
        break;
    case RECORD_EXIT_OF:
        event->function = (uint32_t)take(at, end, 4);
        event->entry_time = take(at, end, 8);
        break;
    case RECORD_ENTRY_VALUES:
        event->function = (uint32_t)take(at, end, 4);
        take_bytes(at, end, event, true);
        break;
    case RECORD_EXIT_VALUES:
        event->function = (uint32_t)take(at, end, 4);
        event->entry_time = take(at, end, 8);
        take_bytes(at, end, event, true);
        break;
    case RECORD_CALLER_VALUES:
        take_bytes(at, end, event, true);
        break;
    case RECORD_UNWOUND:
    case RECORD_LOST:
        event->count = (uint32_t)take(at, end, 4);
        break;
    case RECORD_STACK:
        event->stack = (uint32_t)take(at, end, 4);
        event->depth = (uint32_t)take(at, end, 4);
        break;
    case RECORD_SIGNAL:
        event->count = (uint32_t)take(at, end, 4);
        take(at, end, 4);
        take(at, end, 8);
        take(at, end, 8);
        break;
    case RECORD_MARK:
        take_bytes(at, end, event, false);
        break;
    case RECORD_MESSAGE:
        event->size = sizeof(struct record_message);
        assert_true((size_t)(end - *at) >= event->size);
        event->bytes = *at;
        *at += event->size;
        break;
    default:
        fail_msg("record %u is unknown", event->id);
    }
}

void mini_each(struct mini *mini, const struct mini_area *area, void (*fn)(void *ctx, const struct mini_event *event),
               void *ctx)
{
    if (area->count)
        qsort(area->packets, area->count, sizeof *area->packets, by_order);
    for (size_t i = 0; i < area->count; i++) {
        const struct packet_head *head = (const void *)area->packets[i].bytes;
        const uint8_t *at = area->packets[i].bytes + sizeof *head,
                      *end = area->packets[i].bytes + area->packets[i].size;
        assert_int_equal(head->magic, PACKET_MAGIC);
        uint64_t time = head->time_begin;
        uint32_t stack = head->stack;
        for (bool first = true; at < end; first = false) {
            uint32_t word = (uint32_t)take(&at, end, 4);
            struct mini_event event = {.id = word & 31,
                                       .serial = head->thread_serial,
                                       .tid = head->tid,
                                       .first = first,
                                       .discarded = head->events_discarded,
                                       .depth = head->depth};
            if (event.id == RECORD_EXTENDED) {
                event.id = (uint32_t)take(&at, end, 4);
                event.time = take(&at, end, 8);
                assert_true(event.time >= time);
            } else {
                uint64_t mask = (UINT64_C(1) << RECORD_TIME_BITS) - 1;
                event.time = time + (((word >> 5) - time) & mask);
            }
            time = event.time;
            event.stack = stack;
            take_payload(&at, end, &event);
            if (event.id == RECORD_ENTRY || event.id == RECORD_ENTRY_VALUES)
                event.function = area_entry_slot(&area->view, event.function);
            stack = event.stack;
            fn(ctx, &event);
        }
        if (area->packets[i].order != UINT64_MAX)
            assert_int_equal(head->time_end, time);
    }
}

/* ---- pairing ---- */

enum { PAIR_STACKS = 64 };

struct pair_call {
    uint32_t function;
    uint64_t time;
    uint64_t packet;
    bool mended; /* nothing is known of it */
};

struct pair_thread {
    uint32_t serial;
    uint64_t time;
    struct pair_stack {
        struct pair_call *calls;
        size_t depth, room;
    } stacks[PAIR_STACKS];
};

struct pair {
    struct pair_thread *threads;
    size_t count;
    uint64_t packet;
    struct mini_totals *totals;
    bool stack_used[PAIR_STACKS];
};

static struct pair_thread *pair_thread(struct pair *pair, uint32_t serial)
{
    for (size_t i = 0; i < pair->count; i++)
        if (pair->threads[i].serial == serial)
            return &pair->threads[i];
    pair->threads = realloc(pair->threads, (pair->count + 1) * sizeof *pair->threads);
    struct pair_thread *thread = &pair->threads[pair->count++];
    *thread = (struct pair_thread){.serial = serial};
    return thread;
}

static void call_push(struct pair_stack *stack, struct pair_call call)
{
    if (stack->depth == stack->room) {
        stack->room = stack->room ? stack->room * 2 : 64;
        stack->calls = realloc(stack->calls, stack->room * sizeof *stack->calls);
    }
    stack->calls[stack->depth++] = call;
}

/* As readers do it: calls that are too many have ended, of those that are too few nothing is known. */
static void depth_mend(struct mini_totals *totals, struct pair_stack *stack, uint32_t depth)
{
    totals->mended++;
    for (; stack->depth > depth; totals->unwound++)
        stack->depth--;
    for (; stack->depth < depth; totals->entries++)
        call_push(stack, (struct pair_call){.mended = true});
}

static void pair_event(void *ctx, const struct mini_event *event)
{
    struct pair *pair = ctx;
    const struct pair_call *call;
    uint32_t count;
    struct mini_totals *totals = pair->totals;
    struct pair_thread *thread = pair_thread(pair, event->serial);
    assert_true(event->stack < PAIR_STACKS);
    struct pair_stack *stack = &thread->stacks[event->stack];
    pair->stack_used[event->stack] = true;
    pair->packet += event->first;
    assert_true(event->time >= thread->time);
    thread->time = event->time;
    if (event->first && event->depth != stack->depth)
        depth_mend(totals, stack, event->depth);
    switch (event->id) {
    case RECORD_ENTRY:
    case RECORD_ENTRY_VALUES:
        call_push(stack, (struct pair_call){event->function, event->time, pair->packet, false});
        totals->entries++;
        break;
    case RECORD_EXIT:
    case RECORD_EXIT_OF:
    case RECORD_EXIT_VALUES:
        if (!stack->depth) {
            totals->mended++;
            break;
        }
        totals->exits++;
        call = &stack->calls[--stack->depth];
        if (!call->mended)
            totals->mended += event->id == RECORD_EXIT
                                  ? call->packet != pair->packet
                                  : call->function != event->function || call->time != event->entry_time;
        break;
    case RECORD_UNWOUND:
    case RECORD_LOST:
        count = event->count < stack->depth ? event->count : (uint32_t)stack->depth;
        totals->mended += count != event->count;
        stack->depth -= count;
        *(event->id == RECORD_LOST ? &totals->lost : &totals->unwound) += count;
        break;
    case RECORD_STACK:
        if (stack->depth != event->depth)
            depth_mend(totals, stack, event->depth);
        totals->stacks++;
        break;
    case RECORD_THINNED:
        totals->thinned++;
        break;
    case RECORD_MARK:
        totals->marks++;
        break;
    default:
        break;
    }
}

void mini_pair(struct mini *mini, const struct mini_area *area, struct mini_totals *ret_totals)
{
    mini_pair_left(mini, area, ret_totals);
    assert_int_equal(ret_totals->mended, 0);
}

void mini_pair_left(struct mini *mini, const struct mini_area *area, struct mini_totals *ret_totals)
{
    *ret_totals = (struct mini_totals){0};
    struct pair pair = {.totals = ret_totals};
    mini_each(mini, area, pair_event, &pair);
    for (size_t i = 0; i < pair.count; i++)
        for (size_t k = 0; k < PAIR_STACKS; k++) {
            ret_totals->open += pair.threads[i].stacks[k].depth;
            free(pair.threads[i].stacks[k].calls);
        }
    ret_totals->threads = pair.count;
    free(pair.threads);
    for (uint32_t i = 0; i < area->view.thread_count; i++)
        ret_totals->discarded += area_thread_at(&area->view, i)->discarded;
}

/* ---- as text ---- */

struct tree {
    struct mini *mini;
    const struct mini_area *area;
    uint32_t serial, stack;
    FILE *out;
};

static void tree_event(void *ctx, const struct mini_event *event)
{
    struct tree *tree = ctx;
    if (event->serial != tree->serial)
        return;
    if (event->stack != tree->stack)
        fprintf(tree->out, "[%u]", event->stack);
    tree->stack = event->stack;
    switch (event->id) {
    case RECORD_ENTRY:
    case RECORD_ENTRY_VALUES:
        fprintf(tree->out, "%s(", mini_name(tree->mini, tree->area, event->function));
        break;
    case RECORD_EXIT:
    case RECORD_EXIT_OF:
    case RECORD_EXIT_VALUES:
        fputc(')', tree->out);
        break;
    case RECORD_UNWOUND:
    case RECORD_LOST:
        for (uint32_t i = 0; i < event->count; i++)
            fputc(event->id == RECORD_LOST ? '?' : '!', tree->out);
        break;
    case RECORD_MARK:
        fprintf(tree->out, "'%.*s'", (int)event->size, (const char *)event->bytes);
        break;
    case RECORD_THINNED:
        fputc('~', tree->out);
        break;
    default:
        break;
    }
}

char *mini_tree(struct mini *mini, const struct mini_area *area, uint32_t serial)
{
    char *text = NULL;
    size_t size = 0;
    struct tree tree = {.mini = mini, .area = area, .serial = serial, .out = open_memstream(&text, &size)};
    mini_each(mini, area, tree_event, &tree);
    fclose(tree.out);
    return text;
}
