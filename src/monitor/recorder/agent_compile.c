/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures: scry-symbols compiles them from debug information, here they are put where the agent finds them. A program
 * is written before the site that points to it, and never changed or reused: a thread may be running it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/data/cleanup.h"
#include "base/system/log.h"
#include "monitor/recorder/agent.h"
#include "shm/area.h"
#include "shm/capture.h"
#include "symbols/client/client.h"

/* ---- what was compiled for one request ---- */

enum { SETS_LIMIT = 32, SETS_BYTES = 32 << 20, BLOCKS_LIMIT = 1 << 22 };

/* It is the same for all processes of a program, as addresses in its file. It is kept in memory and, for later monitors,
 * in the cache of symbols (symbols/client/client.h). */
struct compiled_set {
    struct agents *agents;
    char *request;            /* without what is different from process to process */
    char key[INDEX_KEY_SIZE]; /* of the file; "": it is kept in memory only */
    struct helper_job *job;   /* NULL: complete */
    struct buf items;         /* symbols/client/client.h */
    struct buf programs;      /* all of items, as they lie in an area: made at first need */
    size_t first_program;
    struct buf problems;    /* of parameters: struct compiled_problem */
    bool missing;           /* functions whose debug information is in a file that is not there */
    uint64_t bare;          /* the first function by address that has no values because of -g1; 0: none */
    uint64_t functions;     /* of so many, in the order of the request, items are complete; */
    size_t functions_len;   /* bytes of items */
    uint32_t layout, block; /* the first ids for the others */
    bool done;              /* the helper came to its end */
    bool telling;           /* it is being put into processes */
    uint64_t used;
    UT_hash_handle hh;
};

/* Puts it into the processes that wait for it. */
static void runs_finish(struct compiled_set *set);

static void compiled_set_free(struct compiled_set *set)
{
    HASH_DELETE(hh, set->agents->compiled_sets, set);
    buf_done(&set->items);
    buf_done(&set->programs);
    free(set->request);
    buf_done(&set->problems);
    free(set);
}

/* What another compilation would come to, too, goes into the cache, also if it is not all. */
static void compiled_set_keep(struct compiled_set *set)
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

static void compiled_set_complete(struct compiled_set *set)
{
    set->job = NULL;
    set->telling = true;
    runs_finish(set);
    set->telling = false;
    compiled_set_keep(set);
    if (!set->done || set->items.failed || set->missing)
        compiled_set_free(set); /* the next process tries again */
}

/* Blocks are numbered one after the other. */
static bool item_is_sound(enum helper_answer_kind kind, uint32_t id, const void *code, size_t size)
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

static void compiled_problem_add(struct compiled_set *set, const struct helper_answer *answer)
{
    struct compiled_problem problem = {.at_exit = answer->site == HELPER_EXIT, .problem = answer->problem};
    snprintf(problem.expression, sizeof problem.expression, "%s", answer->text);
    if (set->problems.len < COMPILED_PROBLEMS * sizeof problem)
        buf_append(&set->problems, &problem, sizeof problem);
}

static void compiled_answer(void *ctx, const struct helper_answer *answer)
{
    struct compiled_set *set = ctx;
    if (!answer)
        compiled_set_complete(set);
    else if (item_is_sound(answer->kind, answer->id, answer->code, answer->code_size))
        compiled_add(&set->items, answer);
    else if (answer->kind == HELPER_PARAM_PROBLEM && number_problem_is_lasting(answer->problem.kind))
        compiled_problem_add(set, answer);
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
static void compiled_sets_drop(struct agents *agents)
{
    size_t bytes = 0;
    struct compiled_set *oldest = NULL;
    for (struct compiled_set *set = agents->compiled_sets; set; set = set->hh.next) {
        bytes += set->items.len + set->programs.len;
        if (!set->job && !set->telling && (!oldest || set->used < oldest->used))
            oldest = set;
    }
    if (oldest && (bytes > SETS_BYTES || HASH_COUNT(agents->compiled_sets) >= SETS_LIMIT))
        compiled_set_free(oldest);
}

void agent_compiled_sets_free(struct agents *agents)
{
    struct compiled_set *set, *next;
    HASH_ITER(hh, agents->compiled_sets, set, next)
    {
        helper_cancel(set->job);
        compiled_set_free(set);
    }
}

/* Nobody waits for it any more: what there is goes into the cache. */
static void compiled_set_cancel(struct compiled_set *set)
{
    struct helper_job *job = set->job;
    if (set->telling)
        return;
    compiled_set_keep(set);
    compiled_set_free(set);
    helper_cancel(job);
}

static struct compiled_set *compiled_set_new(struct agents *agents, const char *key, const char *request)
{
    compiled_sets_drop(agents);
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
static bool items_are_sound(struct compiled_set *set)
{
    struct compiled_item item;
    const void *bytes;
    set->layout = set->block = 1;
    for (size_t at = 0; compiled_next(&set->items, &at, &item, &bytes);) {
        uint32_t *next = item.kind == HELPER_LAYOUT ? &set->layout : item.kind == HELPER_BLOCK ? &set->block : NULL;
        if (!item_is_sound(item.kind, item.id, bytes, item.size))
            return false;
        if (next && *next <= item.id)
            *next = item.id + 1;
    }
    return true;
}

/* What is known for a request, in memory or in the cache. key "": it is never in the cache. If it is not done and has
 * no job, it has to be compiled first, from the function `functions` on. NULL: no memory. */
static struct compiled_set *compiled_set_get(struct agents *agents, const char *key, const char *request)
{
    struct compiled_set *set;
    HASH_FIND_STR(agents->compiled_sets, request, set);
    if (set) {
        set->used = ++agents->set_uses;
        return set;
    }
    set = compiled_set_new(agents, key, request);
    if (set && *key && compiled_load(&set->items, &set->functions, key, request, NULL) < 0)
        set->functions = 0;
    if (set && !items_are_sound(set)) {
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

/* Has it compiled: the helper is given `input`, with what is this process's own. False: that cannot be, it is gone. */
static bool compiled_set_start(struct compiled_set *set, struct buf *input_take)
{
    set->job = helper_start(set->agents, "compile", NULL, 0, input_take, compiled_answer, set);
    if (set->job)
        return true;
    compiled_set_free(set);
    return false;
}

/* The bytes that its program takes there. */
static size_t compiled_program_size(const struct compiled_item *item)
{
    return sizeof(struct area_program) + ((item->size + (size_t)7) & ~(size_t)7);
}

/* The blocks, one behind the other; ret_at, by their numbers: where. */
static void blocks_put(struct compiled_set *set, struct buf *ret_at)
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
static void blocks_link(struct buf *programs, size_t at, size_t size, const struct buf *blocks)
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

/* All of the set as it lies in an area: its blocks, then its programs as struct area_program, in the order of the items;
 * and where the first program is. */
static const struct buf *compiled_set_programs(struct compiled_set *set, size_t *ret_first)
{
    static const char zeros[8];
    struct compiled_item item;
    struct buf blocks = BUF_INIT;
    const void *bytes;
    *ret_first = set->first_program;
    if (set->programs.len)
        return &set->programs;
    blocks_put(set, &blocks);
    *ret_first = set->first_program = set->programs.len;
    for (size_t at = 0; compiled_next(&set->items, &at, &item, &bytes);) {
        const struct area_program head = {.size = item.size};
        if (item.kind != HELPER_SITE && item.kind != HELPER_PARAMS)
            continue;
        buf_append(&set->programs, &head, sizeof head);
        size_t code = set->programs.len;
        buf_append(&set->programs, bytes, item.size);
        buf_append(&set->programs, zeros, compiled_program_size(&item) - sizeof head - item.size);
        if (!set->programs.failed)
            blocks_link(&set->programs, code, item.size, &blocks);
    }
    set->programs.failed |= blocks.failed;
    buf_done(&blocks);
    return &set->programs;
}

/* ---- what was compiled, in one process ---- */

struct compile_run { /* one request of one process: functions of one module */
    struct compiled_set *set;
    struct agent *agent;
    size_t count;
    uint64_t bias;
    uint32_t layouts;         /* what the set's numbers of layouts, from 1 on, are counted from in this process */
    bool stale;               /* the settings were changed meanwhile: it is done once more */
    bool *again;              /* of each slot: more is wanted of it since; NULL: of none */
    char key[INDEX_KEY_SIZE]; /* of the module: it may be closed meanwhile */
    uint32_t slots[];
};

struct agent_compiled {
    struct compile_run *run;
    bool failed;     /* one of the runs that followed each other */
    bool bare_told;  /* that functions have no values because of -g1 */
    uint64_t *slots; /* bit set of those whose captures are in place or could not be compiled; NULL: of none */
};

bool agent_compiled_new(struct agent *agent)
{
    return (agent->compiled = calloc(1, sizeof *agent->compiled)) != NULL;
}

static uint64_t program_next(const struct agent *agent)
{
    return (atomic_load(&agent->view.area->programs_used) + 7) & ~UINT64_C(7);
}

/* Two pieces behind each other; 0: there is no room. */
static uint32_t program_put(struct agent *agent, const void *head, size_t head_size, const void *bytes, size_t size)
{
    const struct area_view *view = &agent->view;
    uint64_t at = program_next(agent);
    if (at < 64 || at > view->programs_size || view->programs_size - at < head_size + size)
        return 0;
    off_t offset = (off_t)((uint64_t)(view->programs - view->base) + at);
    if (fallocate(agent->files[AREA_FUNCTIONS].fd, 0, offset, (off_t)(head_size + size)) < 0 && errno != EOPNOTSUPP)
        return 0;
    memcpy(view->programs + at, head, head_size);
    memcpy(view->programs + at + head_size, bytes, size);
    atomic_store_explicit(&view->area->programs_used, at + head_size + size, memory_order_release);
    return (uint32_t)at;
}

uint32_t agent_program_put(struct agent *agent, const void *bytes, size_t size)
{
    return program_put(agent, bytes, size, "", 0);
}

uint32_t agent_capture_put(struct agent *agent, const void *code, size_t size)
{
    const struct area_program head = {.size = (uint32_t)size}; /* before it */
    return capture_check(code, size) ? program_put(agent, &head, sizeof head, code, size) : 0;
}

void agent_site_values(struct area_site *site, uint32_t values, uint32_t layout)
{
    _Static_assert(offsetof(struct area_site, values) % 8 == 0 &&
                       offsetof(struct area_site, layout) == offsetof(struct area_site, values) + 4,
                   "values and layout are one word");
    __atomic_store_n((uint64_t *)(void *)&site->values, (uint64_t)layout << 32 | values, __ATOMIC_RELEASE);
}

void agent_site_clear(struct area_site *site)
{
    agent_site_values(site, 0, 0);
    atomic_store(&site->params, 0);
    atomic_store(&site->unwind, 0);
}

void agent_site_put_back(struct agent *agent, const struct area_site *was)
{
    struct area_site *site = area_site_find(&agent->view, atomic_load(&was->address), false);
    if (!site)
        return;
    atomic_store(&site->unwind, atomic_load(&was->unwind));
    atomic_store(&site->params, atomic_load(&was->params));
    agent_site_values(site, atomic_load(&was->values), atomic_load(&was->layout));
}

bool agent_site_set(struct agent *agent, uint64_t address, uint32_t program, uint32_t layout)
{
    struct area_site *site = area_site_find(&agent->view, address, true);
    if (site)
        agent_site_values(site, program, layout);
    return site != NULL;
}

/* The programs of the set as they lie in it, all at once: as many as there is room for. Where they begin; what does not
 * end at *ret_end or before is not there. */
static uint64_t programs_put(struct agent *agent, const struct buf *programs, uint64_t *ret_end)
{
    const struct area_view *view = &agent->view;
    uint64_t at = program_next(agent), room = at < view->programs_size ? view->programs_size - at : 0;
    uint64_t size = programs->len < room ? programs->len : room;
    *ret_end = at;
    if (at >= 64 && !programs->failed &&
        pwrite(agent->files[AREA_FUNCTIONS].fd, programs->data, size,
               (off_t)((uint64_t)(view->programs - view->base) + at)) == (ssize_t)size) {
        *ret_end = at + size;
        atomic_store_explicit(&view->area->programs_used, at + size, memory_order_release);
    }
    return at;
}

/* `at` is where its program is; 0: nowhere. False: there is no room for it. */
static bool site_take(struct compile_run *run, const struct compiled_item *answer, uint32_t at)
{
    struct agent *agent = run->agent;
    struct area_site *site = at ? area_site_find(&agent->view, answer->address + run->bias, true) : NULL;
    if (!site)
        return false;
    if (answer->kind == HELPER_PARAMS)
        atomic_store_explicit(&site->params, at, memory_order_release);
    else if (answer->site == HELPER_UNWIND)
        atomic_store_explicit(&site->unwind, at, memory_order_release);
    else if (agent_layout(agent, run->layouts + answer->id))
        agent_site_values(site, at, run->layouts + answer->id);
    return true;
}

static int by_address(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* Of how many functions there are sites among these addresses. */
static size_t functions_count(const struct compile_run *run, const uint64_t *sites, size_t count)
{
    _cleanup_(freep) uint64_t *starts = calloc(run->count + 1, sizeof *starts);
    _cleanup_(freep) bool *has = calloc(run->count + 1, sizeof *has);
    size_t functions = 0;
    if (!starts || !has)
        return 0;
    for (size_t i = 0; i < run->count; i++)
        starts[i] = area_slot_address(&run->agent->view.slots[run->slots[i]]) - run->bias;
    qsort(starts, run->count, sizeof *starts, by_address);
    for (size_t i = 0; i < count; i++) {
        size_t low = 0, high = run->count; /* the last that starts at the site or before */
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (starts[middle] <= sites[i])
                low = middle + 1;
            else
                high = middle;
        }
        functions += !has[low];
        has[low] = true;
    }
    return functions;
}

static void no_room_tell(const struct compile_run *run, const struct buf *refused)
{
    struct agent *agent = run->agent;
    size_t count = refused->len / sizeof(uint64_t);
    if (!count)
        return;
    size_t functions = functions_count(run, (const uint64_t *)(const void *)refused->data, count);
    agent_set_problem(agent, NOTE(values_no_room, .pid = (uint64_t)agent->pid, .functions = functions));
}

static void layouts_take(struct compile_run *run)
{
    struct compiled_item item;
    const void *bytes;
    for (size_t at = 0; compiled_next(&run->set->items, &at, &item, &bytes);)
        if (item.kind == HELPER_LAYOUT)
            agent_layout_add(run->agent, run->layouts + item.id, bytes);
}

static void sites_take(struct compile_run *run)
{
    _cleanup_(buf_done) struct buf refused = BUF_INIT; /* addresses of sites */
    size_t first;
    uint64_t end;
    const struct buf *programs = compiled_set_programs(run->set, &first);
    uint64_t program = programs_put(run->agent, programs, &end) + first;
    struct compiled_item item;
    const void *bytes;
    for (size_t at = 0; compiled_next(&run->set->items, &at, &item, &bytes);) {
        if (item.kind == HELPER_LAYOUT || item.kind == HELPER_BLOCK)
            continue;
        uint64_t next = program + compiled_program_size(&item);
        if (!site_take(run, &item, next <= end ? (uint32_t)program : 0))
            buf_append(&refused, &item.address, sizeof item.address);
        program = next;
    }
    no_room_tell(run, &refused);
}

static bool module_is_there(const struct compile_run *run)
{
    const struct agent *agent = run->agent;
    for (size_t i = 0; i < agent->mapped->count; i++)
        if (agent->mapped->modules[i].bias == run->bias && strcmp(agent->mapped->modules[i].key, run->key) == 0)
            return true;
    return false;
}

/* The slot of the function, if its values are to be recorded; -1: they are not, or it is not one of these. */
static int64_t recorded_slot(const struct compile_run *run, uint64_t address)
{
    const struct agent *agent = run->agent;
    for (size_t i = 0; i < run->count; i++)
        if (area_slot_address(&agent->view.slots[run->slots[i]]) == address)
            return agent_records_values(agent, run->slots[i]) ? (int64_t)run->slots[i] : -1;
    return -1;
}

/* Somebody asked for values, and there are none of this function: told once, with the remedy. */
static void bare_tell(struct agent *agent, const struct compile_run *run)
{
    struct index_function function = {.name = ""};
    const struct module *module = NULL;
    uint64_t address = run->set->bare + run->bias;
    int64_t slot = run->set->bare ? recorded_slot(run, address) : -1;
    if (slot < 0 || agent->compiled->bare_told || !agent->writer)
        return;
    agent_function(agent, (uint32_t)slot, &function, &address, &module);
    trace_writer_problem(agent->writer, &NOTE(values_undescribed, .module = module ? module->name : agent->exe,
                                              .named = *function.name != 0, .function = function.name));
    agent->compiled->bare_told = true;
}

void agent_compile_slot_again(struct agent *agent, uint32_t slot)
{
    struct compile_run *run = agent->compiled->run;
    if (!agent->compiled->slots) /* nothing was compiled so far */
        return;
    agent->compiled->slots[slot >> 6] &= ~(UINT64_C(1) << (slot & 63));
    for (size_t i = 0; run && i < run->count; i++)
        if (run->slots[i] == slot && (run->again || (run->again = calloc(run->count, sizeof *run->again))))
            run->again[i] = true;
}

static void run_free(struct compile_run *run)
{
    if (run)
        free(run->again);
    free(run);
}

/* Puts what was compiled into one process. */
static void run_finish(struct compile_run *run)
{
    struct agent *agent = run->agent;
    agent->compiled->failed |= !run->set->done;
    bool there = module_is_there(run);
    run->stale |= !there;
    run->layouts = agent_layouts_last(agent);
    layouts_take(run);
    if (agent->writer)
        trace_writer_sync(agent->writer, true); /* readers, and a later monitor, know a layout before it is used */
    if (there)
        sites_take(run);
    agent_demands_problem(agent, &run->set->problems);
    bare_tell(agent, run);
    for (size_t i = 0; i < run->count && !run->stale; i++)
        if (!(run->again && run->again[i]))
            agent->compiled->slots[run->slots[i] >> 6] |= UINT64_C(1) << (run->slots[i] & 63);
    if (!run->set->done)
        agent_set_problem(agent, NOTE(values_uncompiled, .functions = run->count, .program = agent->exe));
    agent->compiled->run = NULL;
    run_free(run);
    if (agent->mpi_waits)
        agent_mpi_apply(agent);
    agent_compile(agent);
    if (agent->compiled->run)
        return;
    agent_demands_compiled(agent, !agent->compiled->failed);
    agent->compiled->failed = false;
    agent_settle(agent);
}

static void runs_finish(struct compiled_set *set)
{
    struct agents *agents = set->agents;
    agents->collecting++;
    for (struct agent *agent = agents->list, *next; agent; agent = next) {
        next = agent->next;
        if (agent->compiled->run && agent->compiled->run->set == set)
            run_finish(agent->compiled->run);
    }
    agents->collecting--;
}

/* ---- what is to be compiled ---- */

static bool wants_compiling(const struct agent *agent, uint32_t slot)
{
    if (agent->compiled->slots[slot >> 6] >> (slot & 63) & 1)
        return false;
    return agent_records_values(agent, slot) || agent_demand_wants(agent, slot);
}

static int by_function(const void *left, const void *right, void *ctx)
{
    const struct area_slot *slots = ctx;
    uint64_t a = area_slot_address(&slots[*(const uint32_t *)left]);
    uint64_t b = area_slot_address(&slots[*(const uint32_t *)right]);
    return a < b ? -1 : a > b;
}

/* The first module that has functions to be compiled; all of them, by address: where their slots are depends on where
 * the module is mapped, and what is asked for must not. */
static struct compile_run *run_next(struct agent *agent, size_t *ret_module)
{
    const struct area_view *view = &agent->view;
    struct compile_run *run = NULL;
    size_t cap = 0;
    for (uint32_t slot = 0; slot <= view->slot_mask; slot++) {
        uint64_t address = area_slot_live(&view->slots[slot]);
        if (!address || !wants_compiling(agent, slot))
            continue;
        const struct module *module = module_find(agent->mapped->modules, agent->mapped->count, address);
        if (!module || !*module->path) { /* nothing can be told of it */
            agent->compiled->slots[slot >> 6] |= UINT64_C(1) << (slot & 63);
            continue;
        }
        size_t index = (size_t)(module - agent->mapped->modules);
        if (run && index != *ret_module)
            continue;
        if (!run || run->count == cap) {
            size_t more = cap ? 2 * cap : 64;
            struct compile_run *grown = realloc(run, sizeof *run + more * sizeof run->slots[0]);
            if (!grown)
                break;
            if (!run) {
                *grown = (struct compile_run){.agent = agent, .bias = module->bias};
                memcpy(grown->key, module->key, sizeof grown->key);
            }
            run = grown;
            cap = more;
        }
        *ret_module = index;
        run->slots[run->count++] = slot;
    }
    if (run)
        qsort_r(run->slots, run->count, sizeof run->slots[0], by_function, view->slots);
    return run;
}

/* With `set`, what is still to be compiled of it; NULL: as the key, the same for all processes of a program with the
 * same wishes. */
static void request_print(const struct agent *agent, const struct compile_run *run, const struct module *module,
                          const struct compiled_set *set, struct buf *out)
{
    struct trace_settings defaults;
    const struct trace_settings *settings = agent->job ? &agent->job->settings : NULL;
    bool own = !settings && trace_settings_init(&defaults) == 0;
    if (own)
        settings = &defaults;
    bool demanded = agent_is_demanded(agent);
    const char *statics = settings ? settings->statics : "";
    if (!*statics && agent_demand_statics(agent))
        statics = "*";
    struct helper_compile compile = {.pid = set ? agent->pid : 0,
                                     .depth = settings ? settings->depth : 1,
                                     .bytes = settings ? trace_settings_values(settings) : 256,
                                     .array = settings ? settings->array_items : 8,
                                     .string = settings ? settings->string_bytes : 64,
                                     .args = demanded || (settings && settings->args),
                                     .locals = demanded || (settings && settings->locals),
                                     .statics = statics,
                                     .caller = settings && settings->locals,
                                     .result = demanded || (settings && settings->args),
                                     .exit_args = demanded,
                                     .patched = agent->patching != NULL,
                                     .layout = set ? set->layout : 1,
                                     .block = set ? set->block : 1};
    uint64_t done = 0;
    helper_compile_begin(out, &compile);
    for (unsigned pass = 0; pass < 2;
         pass++) { /* first those without parameters: a list of them stays for what follows */
        if (pass == 0)
            helper_compile_module(out, set ? module->path : module->key, set ? module->bias : 0);
        for (size_t i = 0; i < run->count; i++) {
            const char *const *params;
            unsigned count = agent_demand_params(agent, run->slots[i], &params);
            if ((count != 0) != (pass == 1) || done++ < (set ? set->functions : 0))
                continue;
            for (unsigned k = 0; k < count; k++)
                helper_compile_param(out, params[k]);
            uint64_t address = area_slot_address(&agent->view.slots[run->slots[i]]);
            helper_compile_function(out, address - module->bias);
        }
    }
    helper_compile_end(out);
    if (own)
        trace_settings_done(&defaults);
}

/* By which what is compiled for a module goes into the cache; "": not at all, for the debug information may still come,
 * and nobody would look for it. */
static const char *cache_key(const struct agent *agent, size_t module)
{
    const struct index *index = agent->mapped->indexes[module] ? agent->mapped->indexes[module]->index : NULL;
    return index && (index_flags(index) & INDEX_HAS_DWARF) ? agent->mapped->modules[module].key : "";
}

void agent_compile(struct agent *agent)
{
    struct agents *agents = agent->agents;
    size_t module = 0;
    if (agent->compiled->run || agent->ended)
        return;
    if (!agent->compiled->slots &&
        !(agent->compiled->slots = calloc(agent->view.slot_mask / 64 + 1, sizeof *agent->compiled->slots)))
        return;
    struct compile_run *run = run_next(agent, &module);
    if (!run)
        return;
    _cleanup_(buf_done) struct buf request = BUF_INIT;
    request_print(agent, run, &agent->mapped->modules[module], NULL, &request);
    const char *key = cache_key(agent, module);
    struct compiled_set *set = request.failed ? NULL : compiled_set_get(agents, key, request.data);
    if (set && !set->job && !set->done && !set->telling) {
        struct buf input = BUF_INIT;
        request_print(agent, run, &agent->mapped->modules[module], set, &input);
        set = compiled_set_start(set, &input) ? set : NULL;
    }
    if (!set) {
        free(run);
        return;
    }
    run->set = set;
    agent->compiled->run = run;
    if (!set->job)
        run_finish(run);
}

bool agent_compiling(const struct agent *agent)
{
    return agent->compiled->run != NULL;
}

/* What was compiled with other settings is compiled again, and replaced as it comes. */
void agent_compile_again(struct agent *agent)
{
    if (agent->compiled->slots)
        memset(agent->compiled->slots, 0, (agent->view.slot_mask / 64 + 1) * sizeof *agent->compiled->slots);
    if (agent->compiled->run) /* is with the former ones */
        agent->compiled->run->stale = true;
}

static bool programs_copy(struct agent *agent, const struct agent *parent)
{
    const struct area_view *view = &agent->view, *from = &parent->view;
    uint64_t used = atomic_load_explicit(&from->area->programs_used, memory_order_acquire);
    if (used > view->programs_size || used > from->programs_size)
        return false;
    /* so no page is first filled with zeros, and none met one by one */
    if (pwrite(agent->files[AREA_FUNCTIONS].fd, from->programs, used, view->programs - view->base) != (ssize_t)used)
        return false;
    atomic_store(&view->area->programs_used, used);
    return true;
}

bool agent_compiled_inherit(struct agent *agent, const struct agent *parent)
{
    const struct area_view *view = &agent->view, *from = &parent->view;
    if (!parent->compiled->slots)
        return true;
    agent->compiled->slots = calloc(view->slot_mask / 64 + 1, sizeof *agent->compiled->slots);
    if (!agent->compiled->slots || !programs_copy(agent, parent))
        return false;
    for (uint32_t i = 0; i <= from->site_mask; i++) {
        const struct area_site *site = &from->sites[i];
        uint64_t address = atomic_load_explicit(&site->address, memory_order_relaxed);
        struct area_site *own = address ? area_site_find(view, address, true) : NULL;
        if (!own)
            continue;
        agent_site_values(own, atomic_load(&site->values), atomic_load(&site->layout));
        atomic_store(&own->unwind, atomic_load(&site->unwind));
    }
    for (uint32_t i = 0; i <= from->slot_mask; i++) {
        if (!(parent->compiled->slots[i >> 6] >> (i & 63) & 1))
            continue;
        const struct area_slot *slot = area_slot_find(view, area_slot_live(&from->slots[i]), false);
        size_t at = slot ? (size_t)(slot - view->slots) : 0;
        if (slot)
            agent->compiled->slots[at >> 6] |= UINT64_C(1) << (at & 63);
    }
    agent_layouts_inherit(agent, parent);
    return true;
}

/* Whether a process of the agent's job lives, or one that waits for the same. */
static bool is_still_wanted(const struct agent *agent)
{
    for (const struct agent *other = agent->agents->list; other; other = other->next) {
        bool waits = other->compiled->run && other->compiled->run->set == agent->compiled->run->set;
        if (!other->ended && other->view.area && (waits || (agent->job && other->job == agent->job)))
            return true;
    }
    return false;
}

void agent_compile_ended(struct agent *agent)
{
    struct agents *agents = agent->agents;
    struct compiled_set *set = agent->compiled->run ? agent->compiled->run->set : NULL;
    if (!set || !set->job || is_still_wanted(agent))
        return;
    for (struct agent *other = agents->list; other; other = other->next)
        if (other->compiled->run && other->compiled->run->set == set) {
            run_free(other->compiled->run);
            other->compiled->run = NULL;
            agent_demands_compiled(other, false);
        }
    compiled_set_cancel(set);
}

void agent_compile_free(struct agent *agent)
{
    run_free(agent->compiled->run); /* what it waited for is for others, too */
    agent->compiled->run = NULL;
    agent_layouts_free(agent);
    free(agent->compiled->slots);
}
