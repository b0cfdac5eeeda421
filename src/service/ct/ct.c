/* SPDX-License-Identifier: Apache-2.0 */
#include "service/ct/ct.h"

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "jobdir/trace/profile.h"
#include "lang/value.h"
#include "lang/results.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/object.h"
#include "monitor/engine/process.h"
#include "monitor/recorder/agents.h"
#include "monitor/tracing/tracing.h"
#include "service/omis/service.h"
#include "shm/waits.h"
#include "symbols/client/helper.h"
#include "symbols/index/index.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char JOB_CLASS[] = "job_j";

struct span job_object_id(struct span dir)
{
    while (dir.len > 1 && dir.ptr[dir.len - 1] == '/')
        dir.len--;
    size_t from = dir.len;
    while (from && dir.ptr[from - 1] != '/')
        from--;
    return span_of(dir.ptr + from, dir.len - from);
}

static const char *dir_of(const struct scry_object *object)
{
    return ((const struct job_object *)object->data)->dir;
}

struct scry_object *job_object_find(struct monitor *monitor, struct span name)
{
    for (struct scry_object *object = monitor->objects; object; object = object->hh.next)
        if (object_is(object, JOB_CLASS) &&
            (span_is(name, dir_of(object)) || span_eq(name, job_object_id(span_str(dir_of(object)))) ||
             span_is(name, object->token)))
            return object;
    return NULL;
}

bool job_object_is(struct monitor *monitor, const struct scry_object *object, struct span name)
{
    const char *home =
        object_is(object, JOB_CLASS) && monitor->agents ? agents_job_home(monitor->agents, dir_of(object)) : NULL;
    return object == job_object_find(monitor, name) ||
           (home && (span_is(name, home) || span_eq(name, job_object_id(span_str(home)))));
}

struct tool *job_tool(struct monitor *monitor, const char *dir)
{
    for (struct scry_object *object = monitor->objects; object; object = object->hh.next)
        if (object_is(object, JOB_CLASS) && strcmp(dir_of(object), dir) == 0)
            return object->owner;
    return NULL;
}

const char *job_directory(struct monitor *monitor, struct span name)
{
    const struct scry_object *found = job_object_find(monitor, name);
    return found ? dir_of(found) : NULL;
}

/*
 * The helper scry-symbols for services that look at variables: the requests; and a run that waits for the answer, for
 * services that need it at once. It waits at most CT_HELPER_NS, because the monitor does nothing else meanwhile.
 */

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

/* The built-in extension `ct`: information on functions of traced processes, and what is recorded of them. */

/* ---- clocks and places ---- */

double ct_duration_ns(const struct agent *agent, uint64_t ticks)
{
    uint64_t rate = atomic_load(&agent_view(agent)->area->ticks_per_second);
    return rate ? (double)ticks * 1e9 / (double)rate : 0;
}

uint64_t ct_time_ns(const struct agent *agent, uint64_t ticks)
{
    uint64_t now = clock_now_ns(), now_ticks = __builtin_ia32_rdtsc();
    double age = ticks < now_ticks ? ct_duration_ns(agent, now_ticks - ticks) : 0;
    return age < (double)now ? now - (uint64_t)age : 0;
}

void ct_place(struct agent *agent, uint32_t slot, struct ct_place *ret_place)
{
    struct index_function function;
    const struct module *module = NULL;
    uint64_t address = 0;
    *ret_place = (struct ct_place){.file = "", .module = ""};
    if (agent_function(agent, slot, &function, &address, &module)) {
        ret_place->name = function.name;
        ret_place->file = function.file;
        ret_place->line = function.line;
    } else if (slot <= agent_view(agent)->slot_mask) {
        address = area_slot_address(&agent_view(agent)->slots[slot]);
    }
    ret_place->address = address;
    if (module)
        ret_place->module = module->name;
    if (!ret_place->name || !*ret_place->name) {
        snprintf(ret_place->address_name, sizeof ret_place->address_name, "%#llx", (unsigned long long)address);
        ret_place->name = ret_place->address_name;
    }
    if (!ret_place->file)
        ret_place->file = "";
}

/* Name, file and line of a function of a profile: its slot. */
static void put_place(struct buf *text, struct agent *agent, uint32_t function)
{
    struct ct_place place = {.name = function == PROFILE_ROOT ? "" : "(others)", .file = ""};
    if (function < PROFILE_OTHERS)
        ct_place(agent, function, &place);
    PUT(text, place.name, place.file, place.line);
}

/* ---- the same for each process ---- */

typedef int process_fn(struct scry_call *call, struct agent *agent, struct buf *text, struct err *err);

/* Answers for each process with what `fn` writes; OK if that is nothing. */
static void for_each(struct scry_call *call, process_fn *fn)
{
    for (size_t i = 0; i < call->object_count; i++) {
        struct err err = {0};
        struct buf text = BUF_INIT;
        struct agent *agent = ct_agent(call_process(call, i), &err);
        int code = agent ? fn(call, agent, &text, &err) : -EOPNOTSUPP;
        if (code == -EAGAIN)
            call_fail(call, call->objects[i], OMIS_UNSPECIFIED_ERROR, "%s",
                      err.text[0] ? err.text : "the index of its functions is being built: ask again in a moment");
        else if (code < 0)
            call_fail_errno(call, call->objects[i], code, &err);
        else if (text.len || text.failed)
            call_text(call, call->objects[i], &text);
        else
            call_ok(call, call->objects[i]);
        buf_done(&text);
    }
}

/* ---- functions ---- */

static const struct {
    const char *name;
    uint32_t mode;
} modes[] = {
    {"off", 0},
    {"count", AREA_COUNT},
    {"record", AREA_RECORD},
    {"values", AREA_RECORD | AREA_VALUES},
};

static const char *mode_name(uint32_t mode)
{
    if (mode & (AREA_VALUES | AREA_CALLER))
        return "values";
    return mode & AREA_RECORD ? "record" : mode & AREA_COUNT ? "count" : "off";
}

struct listing {
    const struct area_view *view;
    struct buf *text;
};

static bool list_one(void *ctx, const struct module *module, const struct index_function *function)
{
    const struct listing *listing = ctx;
    uint64_t address = function->address + module->bias;
    const struct area_slot *slot = area_slot_find(listing->view, address, false);
    uint32_t mode = slot ? atomic_load(&slot->mode) : atomic_load(&listing->view->area->unknown_mode);
    PUT(listing->text, function->name, function->file, function->line, address, module->name, mode_name(mode));
    return !listing->text->failed;
}

static int list_functions(struct scry_call *call, struct agent *agent, struct buf *text, struct err *err)
{
    const char *selection = arena_dup(call->arena, call->args[1].text.ptr, call->args[1].text.len);
    struct listing listing = {agent_view(agent), text};
    put_list(text);
    int code = selection ? agent_functions(agent, selection, list_one, &listing, err) : -ENOMEM;
    put_end(text);
    return code;
}

static void ct_list_functions(struct scry_call *call)
{
    if (call_string(call, 1))
        for_each(call, list_functions);
}

static int find_mode(struct span name)
{
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (span_is(name, modes[i].name))
            return (int)i;
    return -1;
}

static int select_functions(struct scry_call *call, struct agent *agent, struct buf *text, struct err *err)
{
    const char *selection = arena_dup(call->arena, call->args[1].text.ptr, call->args[1].text.len);
    return selection ? agent_select(agent, selection, modes[find_mode(call->args[2].text)].mode, err) : -ENOMEM;
}

static void ct_select(struct scry_call *call)
{
    if (find_mode(call->args[2].text) < 0)
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "mode: there are off, count, record and values");
    else if (call_string(call, 1))
        for_each(call, select_functions);
}

/* ---- profiles ---- */

static uint64_t whole_ns(const struct agent *agent, uint64_t ticks)
{
    return (uint64_t)ct_duration_ns(agent, ticks);
}

static void put_row(struct buf *text, struct agent *agent, const struct profile_row *row)
{
    put_place(text, agent, row->function);
    PUT(text, row->calls, whole_ns(agent, row->total), whole_ns(agent, row->self), whole_ns(agent, row->min),
        whole_ns(agent, row->max));
}

/* Functions that are only counted have no records: their slots have all that is known. */
static void put_counted(struct buf *text, struct agent *agent, uint64_t now, uint64_t *inout_room)
{
    const struct area_view *view = agent_view(agent);
    _cleanup_(freep) struct area_calls *open = agent_open_counted(agent, now);
    _cleanup_(freep) struct area_calls *sums = agent_counted(agent);
    for (uint32_t i = 0; sums && i <= view->slot_mask && *inout_room; i++) {
        const struct area_slot *slot = &view->slots[i];
        uint64_t calls = sums[i].calls;
        if (!calls || atomic_load(&slot->mode) & AREA_RECORD || !atomic_load(&slot->function))
            continue;
        put_place(text, agent, i);
        PUT(text, calls, whole_ns(agent, sums[i].ticks + (open ? open[i].ticks : 0)));
        PUT(text, -1, -1, -1);
        --*inout_room;
    }
}

static uint64_t row_limit(const struct scry_call *call)
{
    uint64_t limit = call_unsigned(call, 1);
    return limit ? limit : UINT64_MAX;
}

static void put_rows(struct buf *text, struct agent *agent, const struct profile_row *rows, size_t count,
                     uint64_t *inout_room)
{
    for (size_t i = 0; i < count && *inout_room; i++, --*inout_room)
        put_row(text, agent, &rows[i]);
}

static int get_profile(struct scry_call *call, struct agent *agent, struct buf *text, struct err *err)
{
    struct profile_row *rows = NULL;
    size_t count = 0;
    uint64_t room = row_limit(call);
    agent_collect(agent);
    const struct profile *profile = agent_profile(agent);
    uint64_t now = __builtin_ia32_rdtsc();
    int code = profile ? profile_rows(profile, now, &rows, &count) : 0;
    put_list(text);
    put_rows(text, agent, rows, count, &room);
    put_counted(text, agent, now, &room);
    put_end(text);
    free(rows);
    return code;
}

static void ct_get_profile(struct scry_call *call)
{
    if (call_check_range(call, 1, 0, INT64_MAX))
        for_each(call, get_profile);
}

static int thread_profile(struct scry_call *call, size_t index, struct buf *text, struct err *err)
{
    const struct thread *thread = call_thread(call, index);
    struct agent *agent = ct_agent(thread->process, err);
    if (!agent)
        return -EOPNOTSUPP;
    struct profile_row *rows = NULL;
    size_t count = 0;
    uint64_t room = row_limit(call);
    agent_collect(agent);
    const struct profile *profile = agent_profile(agent);
    const struct area_view *view = agent_view(agent);
    int code = 0;
    put_list(text);
    for (uint32_t i = 0; profile && i < view->thread_count; i++) {
        const struct area_thread *block = area_thread_at(view, i);
        if (atomic_load(&block->state) != AREA_THREAD_LIVE || (pid_t)block->tid != thread->tid)
            continue;
        code = profile_thread_rows(profile, block->serial, __builtin_ia32_rdtsc(), &rows, &count);
        put_rows(text, agent, rows, count, &room);
        break;
    }
    put_end(text);
    free(rows);
    return code;
}

static void ct_get_thread_profile(struct scry_call *call)
{
    if (call_check_range(call, 1, 0, INT64_MAX))
        call_each(call, thread_profile);
}

static int call_tree(struct scry_call *call, struct agent *agent, struct buf *text, struct err *err)
{
    struct profile_node *nodes = NULL;
    size_t count = 0;
    agent_collect(agent);
    const struct profile *profile = agent_profile(agent);
    int code = profile ? profile_tree(profile, &nodes, &count) : 0;
    put_list(text);
    for (size_t i = 0; i < count; i++) {
        struct ct_place place = {.name = "(others)"};
        if (nodes[i].function < PROFILE_OTHERS)
            ct_place(agent, nodes[i].function, &place);
        PUT(text, nodes[i].depth, place.name, nodes[i].calls, whole_ns(agent, nodes[i].total));
    }
    put_end(text);
    free(nodes);
    return code;
}

static void ct_call_tree(struct scry_call *call)
{
    for_each(call, call_tree);
}

static bool is_called(struct agent *agent, uint32_t function, struct span name)
{
    struct ct_place place = {.name = "(others)"};
    if (!name.len)
        return true;
    if (function < PROFILE_OTHERS)
        ct_place(agent, function, &place);
    return span_is(name, place.name);
}

static int get_callers(struct scry_call *call, struct agent *agent, struct buf *text, struct err *err)
{
    struct profile_edge *edges = NULL;
    size_t count = 0;
    agent_collect(agent);
    const struct profile *profile = agent_profile(agent);
    int code = profile ? profile_edges(profile, &edges, &count) : 0;
    put_list(text);
    for (size_t i = 0; i < count; i++) {
        if (!is_called(agent, edges[i].function, call->args[1].text))
            continue;
        put_place(text, agent, edges[i].function);
        put_place(text, agent, edges[i].caller);
        PUT(text, edges[i].calls, whole_ns(agent, edges[i].total));
    }
    put_end(text);
    free(edges);
    return code;
}

static void ct_get_callers(struct scry_call *call)
{
    for_each(call, get_callers);
}

/* ---- the state of tracing ---- */

static int job_flush(struct scry_call *call, struct agent *agent, struct buf *text, struct err *err)
{
    return agent_flush(agent, err);
}

static void ct_flush(struct scry_call *call)
{
    for_each(call, job_flush);
}

/* Reads what living threads report about themselves. */
static void count_threads(const struct agent *agent, unsigned *ret_threads, uint64_t *ret_faults)
{
    const struct area_view *view = agent_view(agent);
    *ret_threads = 0;
    *ret_faults = 0;
    for (uint32_t i = 0; i < view->thread_count; i++) {
        const struct area_thread *thread = area_thread_at(view, i);
        if (atomic_load(&thread->state) == AREA_THREAD_FREE)
            continue;
        ++*ret_threads;
        *ret_faults += atomic_load(&thread->faults);
    }
}

static const char *state_name(const struct area *area)
{
    static const char *const names[] = {"starting", "running", "off", "exited"};
    uint32_t state = atomic_load(&area->agent_state);
    if (state == AREA_RUNNING && !atomic_load(&area->on))
        return "paused";
    return state < sizeof names / sizeof *names ? names[state] : "unknown";
}

static int get_info(struct scry_call *call, struct agent *agent, struct buf *text, struct err *err)
{
    const struct area *area = agent_view(agent)->area;
    struct agent_counts counts;
    unsigned threads;
    uint64_t faults;
    agent_collect(agent);
    agent_counts(agent, &counts);
    count_threads(agent, &threads, &faults);
    PUT(text, state_name(area), threads, counts.events, counts.discarded, counts.bytes);
    buf_printf(text, ",%.9f", (double)counts.cost_ns / 1e9);
    PUT(text, faults, atomic_load(&area->functions_omitted), atomic_load(&area->too_deep),
        atomic_load(&area->flight_overwritten), agent_job(agent), agent_trace_path(agent));
    struct buf problem = BUF_INIT;
    note_text(&problem, agent_problem(agent));
    put_buf(text, &problem);
    buf_done(&problem);
    return 0;
}

static void ct_get_info(struct scry_call *call)
{
    for_each(call, get_info);
}

#define PROCESSES "token<p>* proc_list"
#define PLACE "name, file, line"
#define CALLED_OUTPUTS \
    "string function; string file; integer line; integer depth; string args; string locals; any* arg_list; any* " \
    "local_list; "

const struct scry_service ct_services[] = {
    {"ct_list_functions", SCRY_INFORMATION, PROCESSES ", string selection -> any* functions ! OMIS_UNSPECIFIED_ERROR",
     SCRY_OPTIONAL, ct_list_functions,
     "The functions of traced processes that match a selection: " PLACE ", address, module, mode."},
    {"ct_select", SCRY_MANIPULATION, PROCESSES ", string selection, string mode -> void ! OMIS_UNSPECIFIED_ERROR",
     SCRY_OPTIONAL, ct_select, "What is recorded of functions from now on: off, count, record, or values."},
    {"ct_get_profile", SCRY_INFORMATION, PROCESSES ", integer limit -> " CT_PROFILE_ROW "* rows", SCRY_OPTIONAL,
     ct_get_profile,
     "The functions with the most time of their own, at most limit (0: all). min_ns and max_ns, of a call, are -1 "
     "where calls were only counted."},
    {"ct_get_thread_profile", SCRY_INFORMATION, "token<t>* thread_list, integer limit -> " CT_PROFILE_ROW "* rows",
     SCRY_OPTIONAL, ct_get_thread_profile, "The same for single threads."},
    {"ct_call_tree", SCRY_INFORMATION, PROCESSES " -> any* nodes", SCRY_OPTIONAL, ct_call_tree,
     "The tree of recorded calls, callers first: depth, name, calls, total time in ns."},
    {"ct_get_callers", SCRY_INFORMATION, PROCESSES ", [string function] -> any* edges", SCRY_OPTIONAL, ct_get_callers,
     "Calls from function to function: " PLACE " of the function, the same of its caller, calls, total time in ns."},
    {"ct_get_info", SCRY_INFORMATION,
     PROCESSES
     " -> { string state; integer threads; integer events; integer discarded; integer<bytes> bytes; floating cost; "
     "integer bad_addresses; integer "
     "omitted; integer too_deep; integer overwritten; string job; string trace; string problem }",
     SCRY_OPTIONAL, ct_get_info,
     "The state of tracing in processes. cost: seconds that recording took from the program. problem: why nothing is "
     "recorded, and what to do."},
    {"ct_flush", SCRY_MANIPULATION, PROCESSES " -> void", SCRY_OPTIONAL, ct_flush,
     "Write the records so far to the trace."},
    {"ct_read_variable", SCRY_INFORMATION,
     "token* object_list, string name, [integer depth] -> { string type; string value; integer address; integer<bytes> "
     "size }",
     SCRY_OPTIONAL | SCRY_MEMORY, ct_read_variable,
     "Read a variable: a global or static one of a process, or one in any scope of a thread, which stops meanwhile."},
    {"ct_write_variable", SCRY_MANIPULATION,
     "token* object_list, string name, any value -> { string type; string before; string after }",
     SCRY_OPTIONAL | SCRY_MEMORY, ct_write_variable, "Change a variable of processes or threads."},
    {"ct_snapshot", SCRY_MANIPULATION, PROCESSES ", [any* what] -> string path", SCRY_OPTIONAL | SCRY_LOCAL,
     ct_snapshot,
     "Write stacks with variables, open calls and the call tree to a file of the job directory. what: \"calls\", "
     "\"stacks\", \"variables\", \"tree\" (all if none is given), \"memory\", address, length."},
    {"ct_get_stacks", SCRY_INFORMATION, PROCESSES ", integer depth -> " STACKS_RESULT_OF(STACKS_FRAME), SCRY_OPTIONAL,
     ct_get_stacks,
     "Where all threads of processes are, functions of Python among the others; at most depth frames (1 .. 256) of a "
     "stack, innermost first. Nothing is stopped. Threads of one name in the same frames are one stack. running: how "
     "many of them had a processor; first: 1 if the process's first thread is one of them. language: native, python, "
     "or note: function says why nothing is known there. problem: what could not be read of the process."},
    {"ct_get_stack_values", SCRY_INFORMATION,
     PROCESSES ", integer depth, integer pointers -> " STACKS_RESULT_OF(STACKS_FRAME_VALUES),
     SCRY_OPTIONAL | SCRY_MEMORY, ct_get_stack_values,
     "ct_get_stacks, with the arguments and locals of each frame of which there is debug information, and so many "
     "levels of pointers (0 .. 16; none in threads that run). Threads are one stack only if their values are the same, "
     "too. A value that is not certain is <not available>; one without a name says why nothing is known of those of "
     "its frame."},
    {"ct_function_called", SCRY_EVENT, PROCESSES ", string selection, [string condition] -> { " CALLED_OUTPUTS "... }",
     SCRY_OPTIONAL | SCRY_MEMORY, NULL,
     "A function that matches the selection was called, and the condition holds. The condition is on arguments and "
     "static variables, as in C; par0, par1 ... are its variables.",
     .event = &ct_called_ops},
    {"ct_function_returned", SCRY_EVENT,
     PROCESSES ", string selection, [string condition] -> { " CALLED_OUTPUTS
               "floating<s> duration; string result; string statics; any* static_list; ... }",
     SCRY_OPTIONAL | SCRY_MEMORY, NULL,
     "A function that matches the selection returns. duration: in seconds, also in the condition. args and statics "
     "have their values at the return.",
     .event = &ct_returned_ops},
    SERVICE_END,
};

/* Variables by name: ct_read_variable and ct_write_variable. */

/* A ct_read_variable or ct_write_variable in progress over its objects. Everything is in the call's arena. */
struct target {
    char token[TOKEN_TEXT_SIZE];
    bool is_thread; /* a thread, for its own variables, too; everything else becomes a process */
};

struct question {
    struct monitor *monitor;
    const char *name;
    const char *value; /* to write; NULL: read */
    unsigned depth;
    struct target *targets;
    size_t count, at;
    struct later *later;
    /* of the current target */
    struct helper_job *job;
    uint64_t began_ns;
    bool answered;
};

/* Makes the service's result from the helper's answer: 1; 0: this was none; -EINVAL: it has an error. */
static int print_answer(const struct helper_answer *answer, struct buf *text, struct err *err)
{
    switch (answer->kind) {
    case HELPER_VALUE:
        PUT(text, answer->type, answer->text, answer->address, answer->size);
        return 1;
    case HELPER_WRITTEN:
        PUT(text, answer->type, answer->old, answer->text);
        return 1;
    case HELPER_FAILED:
        return err_set(err, -EINVAL, "%s", answer->text);
    default:
        return 0;
    }
}

static int no_answer(struct err *err)
{
    return err_set(err, -EIO, "the helper scry-symbols ended without an answer");
}

static int make_request(struct buf *request, const struct question *question, struct process *process,
                        struct thread *thread, struct err *err)
{
    struct tracer_frame *frames = NULL;
    size_t count;
    int code = ct_request_begin(request, process, question->depth, NULL, err);
    if (code == 0 && thread)
        code = ct_request_frames(request, thread, &frames, &count, err);
    free(frames);
    if (code < 0)
        return code;
    helper_line(request, "name", question->name, NULL);
    if (question->value)
        helper_line(request, "write", question->value, NULL);
    helper_line(request, "end", NULL);
    return request->failed ? err_set(err, -ENOMEM, "out of memory") : 0;
}

static void variable_answer(struct scry_call *call, struct scry_object *object, int code, const struct buf *text,
                            const struct err *err)
{
    if (code < 0)
        call_fail_errno(call, object, code, err);
    else
        call_text(call, object, text);
}

/* ---- lists that may not be interrupted ---- */

static int ask_now(const struct buf *request, struct buf *text, struct err *err)
{
    struct helper_reader reader;
    struct helper_answer said;
    int code = ct_helper_run("variable", request, &reader, err), found = 0;
    while (code == 0 && found == 0 && (code = helper_next(&reader, &said, err)) > 0) {
        found = print_answer(&said, text, err);
        code = found < 0 ? found : 0;
    }
    helper_reader_done(&reader);
    return code < 0 || found ? code : no_answer(err);
}

/* ---- the others ---- */

static void ask_next(struct question *question, struct scry_call *call);

static void target_done(struct question *question)
{
    struct target *target = &question->targets[question->at++];
    struct scry_object *object = object_find(question->monitor, span_str(target->token));
    question->job = NULL;
    if (object && target->is_thread)
        runstate_inspect_done((struct thread *)object);
}

static void variable_cancelled(void *ctx)
{
    struct question *question = ctx;
    helper_cancel(question->job);
    target_done(question);
}

static void said(void *ctx, const struct helper_answer *helper)
{
    struct question *question = ctx;
    struct scry_call *call = call_later_begin(question->later);
    struct target *target = &question->targets[question->at];
    struct scry_object *object = object_find(call->monitor, span_str(target->token));
    struct buf text = BUF_INIT;
    struct err err = {0};
    int code = question->answered ? 0 : helper ? print_answer(helper, &text, &err) : no_answer(&err);
    if (code && !object)
        code = err_set(&err, -ESRCH, "%s has ended", target->token);
    else if (!helper && code && clock_now_ns() - question->began_ns >= CT_HELPER_NS)
        code = err_set(&err, -ETIME, "the debug information was not read within %llu s",
                       (unsigned long long)(CT_HELPER_NS / NS_PER_SECOND));
    if (code) {
        variable_answer(call, object, code, &text, &err);
        question->answered = true;
    }
    buf_done(&text);
    if (!helper) {
        target_done(question);
        ask_next(question, call);
    }
    call_later_end(question->later, question->at == question->count);
}

/* Starts the helper for a target. Waits for its end if the answer has to come at once. */
static bool helper_ask(struct question *question, struct scry_call *call, struct scry_object *object)
{
    struct target *target = &question->targets[question->at];
    struct thread *thread = target->is_thread ? (struct thread *)object : NULL;
    struct process *process = thread ? thread->process : (struct process *)object;
    struct buf request = BUF_INIT, text = BUF_INIT;
    struct err err = {0};
    int code = thread ? runstate_inspect(thread, &err) : 0;
    bool looks = thread && code == 0;
    if (code == 0)
        code = make_request(&request, question, process, thread, &err);
    if (code == 0 && question->later && call->monitor->agents) {
        question->began_ns = clock_now_ns();
        question->answered = false;
        question->job = helper_start_at_once(call->monitor->agents, "variable", &request, CT_HELPER_NS, said, question);
        if (question->job)
            return true;
        code = err_set(&err, -ENOMEM, "out of memory");
    } else if (code == 0) {
        code = ask_now(&request, &text, &err);
    }
    if (looks)
        runstate_inspect_done(thread);
    variable_answer(call, object, code, &text, &err);
    buf_done(&text);
    buf_done(&request);
    return false;
}

/* Goes on with the next targets, until one has to wait. */
static void ask_next(struct question *question, struct scry_call *call)
{
    for (; question->at < question->count; question->at++) {
        struct target *target = &question->targets[question->at];
        struct err err = {0};
        Omis_status status;
        struct scry_object *object =
            convert_one(call, span_str(target->token), target->is_thread ? "t" : "p", true, &status, &err);
        if (!object) {
            call_fail(call, NULL, status, "%s", err.text);
            continue;
        }
        snprintf(target->token, sizeof target->token, "%s", object->token);
        if (helper_ask(question, call, object))
            return;
    }
}

static void ask_all(struct scry_call *call, const struct question *wanted)
{
    const struct value *list = &call->args[0];
    size_t count = list->list.count ? list->list.count : call->tool->attachment_count;
    struct question *question = arena_alloc(call->arena, sizeof *question);
    struct target *targets = arena_zalloc(call->arena, count + 1, sizeof *targets);
    if (!question || !targets) {
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    *question = *wanted;
    question->monitor = call->monitor;
    question->targets = targets;
    if (!list->list.count)
        for (struct attachment *a = call->tool->attachments; a; a = a->next_of_tool)
            snprintf(targets[question->count++].token, TOKEN_TEXT_SIZE, "%s", a->process->object.token);
    for (size_t i = 0; i < list->list.count; i++) {
        struct span token = list->list.items[i].text;
        struct scry_object *object = object_find(call->monitor, token);
        struct target *target = &targets[question->count++];
        target->is_thread = object && object_is(object, "t");
        snprintf(target->token, sizeof target->token, "%.*s", SPAN_ARG(token));
    }
    if (!question->count)
        return;
    question->later = call_later(call, variable_cancelled, question);
    if (!question->later) {
        ask_next(question, call);
        return;
    }
    struct scry_call *later = call_later_begin(question->later);
    ask_next(question, later);
    call_later_end(question->later, question->at == question->count);
}

void ct_read_variable(struct scry_call *call)
{
    struct question question = {.name = call_string(call, 1)};
    if (!question.name || !call_check_range(call, 2, 0, HELPER_DEPTH_MAX))
        return;
    question.depth = (unsigned)call_integer(call, 2);
    ask_all(call, &question);
}

void ct_write_variable(struct scry_call *call)
{
    struct question question = {.name = call_string(call, 1)};
    const struct value *value = &call->args[2];
    struct buf text = BUF_INIT;
    if (!question.name)
        return;
    if (value->kind == VALUE_STRING)
        buf_append(&text, value->text.ptr, value->text.len);
    else
        value_print(&text, value);
    if (value->kind == VALUE_LIST || value->kind == VALUE_TOKEN)
        call_fail(call, NULL, OMIS_TYPE_MISMATCH, "value: expected a number or a string, found %s",
                  value_kind_name(value->kind));
    else if (text.len && memchr(text.data, 0, text.len))
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "value: a NUL byte cannot be part of it");
    else if (text.failed)
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
    else {
        question.value = arena_dup(call->arena, text.data ? text.data : "", text.len);
        if (question.value)
            ask_all(call, &question);
        else
            call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
    }
    buf_done(&text);
}
