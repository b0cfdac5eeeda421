/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/recorder/compiled_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/log.h"
#include "shm/area.h"
#include "shm/capture.h"
#include "symbols/client/helper.h"

enum { SETS_LIMIT = 32, SETS_BYTES = 32 << 20, BLOCKS_LIMIT = 1 << 22 };

static void free_set(struct compiled_set *set)
{
    HASH_DELETE(hh, set->agents->compiled_sets, set);
    buf_done(&set->items);
    buf_done(&set->programs);
    free(set->request);
    buf_done(&set->problems);
    free(set);
}

/* What another compilation would come to, too, goes into the cache, also if it is not all. */
static void keep(struct compiled_set *set)
{
    struct err err = {0};
    if (!*set->key || set->items.failed || set->problems.len || set->missing || set->bare ||
        (!set->done && !set->functions))
        return;
    if (!set->done)
        set->items.len = set->functions_len;
    if (compiled_store(&set->items, set->done ? COMPILED_ALL : set->functions, set->key, set->request, &err) < 0)
        log_info("what was compiled is not kept: %s", err.text);
}

static void set_complete(struct compiled_set *set)
{
    set->job = NULL;
    set->telling = true;
    agent_compiled_came(set);
    set->telling = false;
    keep(set);
    if (!set->done || set->items.failed || set->missing)
        free_set(set); /* the next process tries again */
}

/* Blocks are numbered one after the other. */
static bool is_sound(enum helper_answer_kind kind, uint32_t id, const void *code, size_t size)
{
    switch (kind) {
    case HELPER_LAYOUT:
        return true;
    case HELPER_BLOCK:
        return id <= BLOCKS_LIMIT && capture_check_block(code, size);
    case HELPER_SITE:
    case HELPER_PARAMS:
        return capture_check_apart(code, size);
    default:
        return false;
    }
}

static void add_problem(struct compiled_set *set, const struct helper_answer *answer)
{
    struct compiled_problem problem = {.at_exit = answer->site == HELPER_EXIT, .problem = answer->problem};
    snprintf(problem.expression, sizeof problem.expression, "%s", answer->text);
    if (set->problems.len < COMPILED_PROBLEMS * sizeof problem)
        buf_append(&set->problems, &problem, sizeof problem);
}

static void on_answer(void *ctx, const struct helper_answer *answer)
{
    struct compiled_set *set = ctx;
    if (!answer)
        set_complete(set);
    else if (is_sound(answer->kind, answer->id, answer->code, answer->code_size))
        compiled_add(&set->items, answer);
    else if (answer->kind == HELPER_PARAM_PROBLEM && number_problem_is_lasting(answer->problem.kind))
        add_problem(set, answer);
    else if (answer->kind == HELPER_LINES_ONLY)
        set->bare = !set->bare || answer->address < set->bare ? answer->address : set->bare;
    else if (answer->kind == HELPER_PROBLEM || answer->kind == HELPER_PARAM_PROBLEM || answer->kind == HELPER_MISSING) {
        set->missing |= answer->kind == HELPER_MISSING;
        log_info("values of the function at 0x%llx: %s%s", (unsigned long long)answer->address, answer->text,
                 answer->kind == HELPER_PARAM_PROBLEM ? ": not there" : "");
    } else if (answer->kind == HELPER_FUNCTION) {
        set->functions++;
        set->functions_len = set->items.len;
    } else if (answer->kind == HELPER_DONE)
        set->done = true;
    else if (answer->kind == HELPER_FAILED)
        log_warning("scry-symbols: %s", answer->text);
}

/* Room for a new one: complete ones that nobody waits for, the longest unused first. */
static void drop_sets(struct agents *agents)
{
    size_t bytes = 0;
    struct compiled_set *oldest = NULL;
    for (struct compiled_set *set = agents->compiled_sets; set; set = set->hh.next) {
        bytes += set->items.len + set->programs.len;
        if (!set->job && !set->telling && (!oldest || set->used < oldest->used))
            oldest = set;
    }
    if (oldest && (bytes > SETS_BYTES || HASH_COUNT(agents->compiled_sets) >= SETS_LIMIT))
        free_set(oldest);
}

void agent_compiled_sets_free(struct agents *agents)
{
    struct compiled_set *set, *next;
    HASH_ITER(hh, agents->compiled_sets, set, next)
    {
        helper_cancel(set->job);
        free_set(set);
    }
}

void compiled_set_cancel(struct compiled_set *set)
{
    struct helper_job *job = set->job;
    if (set->telling)
        return;
    keep(set);
    free_set(set);
    helper_cancel(job);
}

static struct compiled_set *set_new(struct agents *agents, const char *key, const char *request)
{
    drop_sets(agents);
    struct compiled_set *set = calloc(1, sizeof *set);
    if (!set || !(set->request = strdup(request))) {
        free(set);
        return NULL;
    }
    set->agents = agents;
    set->used = ++agents->set_uses;
    snprintf(set->key, sizeof set->key, "%s", key);
    HASH_ADD_KEYPTR(hh, agents->compiled_sets, set->request, strlen(set->request), set);
    return set;
}

/* The first ids that are not in it. */
static bool are_sound(struct compiled_set *set)
{
    struct compiled_item item;
    const void *bytes;
    set->layout = set->block = 1;
    for (size_t at = 0; compiled_next(&set->items, &at, &item, &bytes);) {
        uint32_t *next = item.kind == HELPER_LAYOUT ? &set->layout : item.kind == HELPER_BLOCK ? &set->block : NULL;
        if (!is_sound(item.kind, item.id, bytes, item.size))
            return false;
        if (next && *next <= item.id)
            *next = item.id + 1;
    }
    return true;
}

struct compiled_set *compiled_set_get(struct agents *agents, const char *key, const char *request)
{
    struct compiled_set *set;
    HASH_FIND_STR(agents->compiled_sets, request, set);
    if (set) {
        set->used = ++agents->set_uses;
        return set;
    }
    set = set_new(agents, key, request);
    if (set && *key && compiled_load(&set->items, &set->functions, key, request, NULL) < 0)
        set->functions = 0;
    if (set && !are_sound(set)) {
        buf_done(&set->items);
        set->functions = 0;
        set->layout = set->block = 1;
    }
    if (set) {
        set->done = set->functions == COMPILED_ALL;
        set->functions_len = set->items.len;
    }
    return set;
}

bool compiled_set_start(struct compiled_set *set, struct buf *input_take)
{
    set->job = helper_start(set->agents, "compile", NULL, 0, input_take, on_answer, set);
    if (set->job)
        return true;
    free_set(set);
    return false;
}

size_t compiled_program_size(const struct compiled_item *item)
{
    return sizeof(struct area_program) + ((item->size + (size_t)7) & ~(size_t)7);
}

static bool is_program(const struct compiled_item *item)
{
    return item->kind == HELPER_SITE || item->kind == HELPER_PARAMS;
}

/* The blocks, one behind the other; ret_at, by their numbers: where. */
static void put_blocks(struct compiled_set *set, struct buf *ret_at)
{
    struct compiled_item item;
    const void *bytes;
    for (size_t at = 0; compiled_next(&set->items, &at, &item, &bytes);) {
        if (item.kind != HELPER_BLOCK)
            continue;
        size_t size = (item.id + (size_t)1) * sizeof(uint64_t);
        while (ret_at->len < size && !ret_at->failed)
            buf_append(ret_at, &(uint64_t){UINT64_MAX}, sizeof(uint64_t));
        if (!ret_at->failed)
            memcpy(ret_at->data + size - sizeof(uint64_t), &(uint64_t){set->programs.len}, sizeof(uint64_t));
        buf_append(&set->programs, bytes, item.size);
    }
}

/* The numbers of blocks in the program at `at` become distances. One that is not there becomes a distance that nobody
 * follows. */
static void link_blocks(struct buf *programs, size_t at, size_t size, const struct buf *blocks)
{
    for (size_t pc = sizeof(struct capture_head); pc + sizeof(struct capture_insn) <= size;) {
        struct capture_insn insn;
        memcpy(&insn, programs->data + at + pc, sizeof insn);
        pc += sizeof insn;
        if (!capture_is_long(insn.op))
            continue;
        uint64_t id, block = UINT64_MAX, distance;
        memcpy(&id, programs->data + at + pc, sizeof id);
        if (id < blocks->len / sizeof block)
            memcpy(&block, blocks->data + id * sizeof block, sizeof block);
        distance = at - block;
        if (insn.op == CAPTURE_SHARED)
            memcpy(programs->data + at + pc, &distance, sizeof distance);
        pc += sizeof id;
    }
}

const struct buf *compiled_set_programs(struct compiled_set *set, size_t *ret_first)
{
    static const char zeros[8];
    struct compiled_item item;
    struct buf blocks = BUF_INIT;
    const void *bytes;
    *ret_first = set->first_program;
    if (set->programs.len)
        return &set->programs;
    put_blocks(set, &blocks);
    *ret_first = set->first_program = set->programs.len;
    for (size_t at = 0; compiled_next(&set->items, &at, &item, &bytes);) {
        const struct area_program head = {.size = item.size};
        if (!is_program(&item))
            continue;
        buf_append(&set->programs, &head, sizeof head);
        size_t code = set->programs.len;
        buf_append(&set->programs, bytes, item.size);
        buf_append(&set->programs, zeros, compiled_program_size(&item) - sizeof head - item.size);
        if (!set->programs.failed)
            link_blocks(&set->programs, code, item.size, &blocks);
    }
    set->programs.failed |= blocks.failed;
    buf_done(&blocks);
    return &set->programs;
}
